//! A diagnosis as text for a terminal and as a section of the page. Nothing is judged here.

use std::fmt::Write;

use analysis::limits::{Axis, Examined, Limit, limits};
use analysis::{CellResult, Tour};
use diagnosis::{Certainty, Diagnosis, Evidence, Performance, Verdict};

use crate::format::{duration, escape, percent, plain};
use crate::tables;
use crate::tables::layout::{Colour, paint};

/// Smallest gain of a final limiter that is shown.
const GAIN_SHOWN: f64 = 1.05;

/// A diagnosis as text: every verdict with its evidence; the commands of the first one, the next step of the others.
pub fn text(diagnosis: &Diagnosis, title: &str, colour: Colour) -> String {
    let mut out = format!("{}: {}\n", paint(title, "1", colour), performance(diagnosis.current));
    for (number, verdict) in diagnosis.verdicts.iter().enumerate() {
        let _ = write!(
            out,
            "\n{}. {}, {}\n",
            number + 1,
            paint(&verdict.limiter.label(), "1", colour),
            share(verdict)
        );
        for evidence in &verdict.evidence {
            let _ = writeln!(out, "   {}: {}  ({})", evidence.what, value(evidence), evidence.seen);
        }
        let _ = writeln!(out, "   {}", gain(verdict, diagnosis.current));
        if number > 0 && !verdict.limiter.is_final() {
            let _ = writeln!(out, "   what helps: {}", verdict.limiter.next_step());
        }
        for remedy in verdict.remedies.iter().filter(|_| number == 0) {
            let _ = writeln!(out, "   {}:", remedy.stack);
            remedy.commands.lines().for_each(|line| {
                let _ = writeln!(out, "       {line}");
            });
        }
    }
    if !diagnosis.cannot_know.is_empty() {
        out.push_str("\nWhat cannot be known from here:\n");
        diagnosis.cannot_know.iter().for_each(|sentence| {
            let _ = writeln!(out, "   {sentence}");
        });
    }
    // Narrow gaps do not line up in every terminal's font.
    out.replace('\u{202f}', " ")
}

/// Limiters of each load, with details of their cells and evidence; empty without a diagnosis.
pub(crate) fn html(tour: &Tour) -> String {
    let out: String = limits(tour.cells.iter().filter_map(CellResult::examined)).iter().map(limit).collect();
    // A run of the doctor's own is about nothing else.
    if is_of_doctor(tour) { out.replacen("<details ", "<details open ", 1) } else { out }
}

/// True for a run without a plan: the doctor's own, of one load.
pub(crate) fn is_of_doctor(tour: &Tour) -> bool {
    tour.run.plan_name.is_empty() && tour.cells.iter().any(|cell| cell.examined().is_some())
}

/// The first verdict on the load of a run of the doctor's own, in one sentence.
pub(crate) fn headline(tour: &Tour) -> Option<String> {
    let diagnosis =
        tour.cells.iter().find_map(CellResult::examined).filter(|_| is_of_doctor(tour))?.diagnosis;
    let first = diagnosis.first()?;
    let now = performance(diagnosis.current);
    Some(sentence(&format!("{}: {now}; {}.", first.limiter.label(), gain(first, diagnosis.current))))
}

/// Beside that: the first command to change it, and the load that shows it.
pub(crate) fn standing(tour: &Tour) -> Option<String> {
    let diagnosis =
        tour.cells.iter().find_map(CellResult::examined).filter(|_| is_of_doctor(tour))?.diagnosis;
    let first = diagnosis.first()?;
    let steps = tour.cells.len();
    Some(format!(
        "To change: {}. Measured in {steps} loads, which stand below with their commands.",
        first.limiter.next_step()
    ))
}

/// The title of one load of a run: its name, its place in the plan, and the directory of its tables.
pub fn examined(cell: &Examined<'_>, dir: &str) -> String {
    let load = tables::marked(cell.load, cell.is_unvalidated);
    match (tables::words(cell.point), cell.load == dir) {
        // Tables without a run have no name but their place.
        (_, true) => dir.to_owned(),
        (place, false) if place.is_empty() => format!("{load} ({dir})"),
        (place, false) => format!("{load} at {place} ({dir})"),
    }
}

/// Limiters for a terminal: one line for all cells of a load with the same limiter.
pub fn lines<'a>(cells: impl IntoIterator<Item = Examined<'a>>, colour: Colour) -> String {
    let line = |limit: &Limit<'_>| {
        let name = paint(&name(limit), "1", colour);
        format!("{name} {}: {}; {}\n", place(limit), limit.limiter.label(), gains(limit))
    };
    limits(cells).iter().map(line).collect::<String>().replace('\u{202f}', " ")
}

/// One limiter of one load: a line for all of its cells, with one line for each inside.
fn limit(limit: &Limit<'_>) -> String {
    if let [cell] = &limit.cells[..] {
        return details(&name(limit), &place(limit), cell.diagnosis);
    }
    let what = format!("{}; {}", limit.limiter.label(), gains(limit));
    let mut out = opened(&name(limit), &place(limit), &what);
    for Examined { point, diagnosis, .. } in &limit.cells {
        let Some(first) = diagnosis.first() else { continue };
        let what = format!("{}; {}", performance(diagnosis.current), gain(first, diagnosis.current));
        out.push_str(&opened("", &tables::words(point), &what));
        out.push_str(&all(diagnosis));
    }
    out + "</details>"
}

/// The load, and whether its figures are validated.
fn name(limit: &Limit<'_>) -> String {
    tables::marked(limit.load, limit.cells.iter().any(|cell| cell.is_unvalidated))
}

/// Cells of one limiter.
fn place(limit: &Limit<'_>) -> String {
    match &limit.cells[..] {
        [cell] => tables::words(cell.point),
        cells => format!("{} cells: {}", cells.len(), places(&limit.places)),
    }
}

/// Limiters of one load, `name` at `place`: its first verdict, with all of them in the details.
pub(crate) fn details(name: &str, place: &str, diagnosis: &Diagnosis) -> String {
    let Some(first) = diagnosis.first() else { return String::new() };
    let what = format!("{}; {}", first.limiter.label(), gain(first, diagnosis.current));
    opened(name, place, &what) + &all(diagnosis)
}

fn opened(name: &str, place: &str, what: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!("<b>{}</b> ", escape(name)) };
    format!(
        "<details class=\"verdict\"><summary>{name}<span class=\"place\">{}</span> {}</summary>",
        escape(place),
        escape(what),
    )
}

/// Every verdict of one load, and the unknowns; the end of its `details`.
fn all(diagnosis: &Diagnosis) -> String {
    let mut out = String::new();
    out.extend(diagnosis.verdicts.iter().map(|verdict| inside(verdict, diagnosis.current)));
    for sentence in &diagnosis.cannot_know {
        let _ = write!(out, "<p class=\"note\">Cannot be known: {}.</p>", escape(sentence));
    }
    out.push_str("</details>");
    out
}

/// One verdict: its evidence and its remedies.
fn inside(verdict: &Verdict, current: Performance) -> String {
    let mut out = format!(
        "<h3>{}</h3><p class=\"note\">{}; {}.</p><ul>",
        escape(&sentence(&verdict.limiter.label())),
        escape(&share(verdict)),
        escape(&gain(verdict, current)),
    );
    for evidence in &verdict.evidence {
        let _ = write!(
            out,
            "<li>{}: <b>{}</b> <code>{}</code></li>",
            escape(&evidence.what),
            escape(&value(evidence)),
            escape(evidence.seen)
        );
    }
    out.push_str("</ul>");
    for remedy in &verdict.remedies {
        let _ = write!(
            out,
            "<p class=\"cell\">{}</p><div class=\"command\"><pre>{}</pre><button type=\"button\">Copy</button></div>",
            escape(remedy.stack),
            escape(&remedy.commands)
        );
    }
    out
}

fn performance(performance: Performance) -> String {
    format!("{} MB/s, {} a request", plain(performance.bytes_per_s / 1e6), duration(performance.latency_s))
}

fn share(verdict: &Verdict) -> String {
    format!("for {} of the time", percent(verdict.share))
}

/// Predicted gain and the next limiter.
fn gain(verdict: &Verdict, current: Performance) -> String {
    let is_figure = verdict.certainty == Certainty::Figure;
    let relief = match verdict.limiter.is_final() {
        true if is_figure && verdict.gain(current) < GAIN_SHOWN => {
            return "nothing to gain below it".to_owned();
        }
        // One request at a time: nothing shortens the round trip, but others can be under way meanwhile.
        true => "with more requests at a time",
        false => "without it",
    };
    let least = match verdict.certainty {
        Certainty::Figure => "",
        Certainty::AtLeast => "at least ",
        Certainty::Unknown => return format!("{relief} faster; no evidence says how much"),
    };
    let outstanding = verdict.predicted.bytes_per_s * verdict.predicted.latency_s;
    format!(
        "{relief} {least}{}: {} times as fast, with {}\u{202f}kB outstanding; then {}",
        performance(verdict.predicted),
        plain(verdict.gain(current)),
        plain(outstanding / 1e3),
        verdict.next.label()
    )
}

/// Range of predicted gains of all cells of one limiter.
fn gains(limit: &Limit<'_>) -> String {
    if limit.limiter.is_final() {
        return "nothing to gain below it".to_owned();
    }
    let (least, most) = (plain(limit.gain.0), plain(limit.gain.1));
    let times = if least == most { least } else { format!("{least} to {most}") };
    let at_least = match limit.certainty {
        Certainty::Figure => "",
        Certainty::AtLeast => "at least ",
        Certainty::Unknown => return "without it faster; no evidence says how much".to_owned(),
    };
    let next = limit.next.map_or_else(String::new, |next| format!("; then {}", next.label()));
    format!("without it {at_least}{times} times as fast{next}")
}

/// Stretches of a plan's matrix: "delay 8ms, 50ms · depth 4; delay 0 · depth 4, 8".
fn places(places: &[Vec<Axis>]) -> String {
    let axis = |axis: &Axis| format!("{} {}", axis.name, axis.values.join(", "));
    let place = |place: &Vec<Axis>| place.iter().map(axis).collect::<Vec<_>>().join(" · ");
    places.iter().map(place).collect::<Vec<_>>().join("; ")
}

/// A number with its unit, in prefixes that people read.
fn value(evidence: &Evidence) -> String {
    match evidence.unit {
        "s" => duration(evidence.value),
        "bytes" if evidence.value >= 1e6 => format!("{}\u{202f}MB", plain(evidence.value / 1e6)),
        "bytes" if evidence.value >= 1e3 => format!("{}\u{202f}kB", plain(evidence.value / 1e3)),
        "bytes/s" => format!("{}\u{202f}MB/s", plain(evidence.value / 1e6)),
        "" => plain(evidence.value),
        unit => format!("{}\u{202f}{unit}", plain(evidence.value)),
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use analysis::manifest::Run;
    use analysis::{Repeat, RunSummary};
    use diagnosis::facts::{Concurrency, PathFacts};
    use diagnosis::{Facts, judge};

    use super::*;

    /// Two requests of 4 KiB at a time over 16 ms.
    fn facts() -> Facts {
        Facts {
            requests: 100,
            request_bytes: 4096.0,
            current: Performance { bytes_per_s: 2.0 * 4096.0 / 0.016, latency_s: 0.016 },
            path: PathFacts {
                rtt_s: Some(0.016),
                line_bytes_per_s: Some(117.7e6),
                line_busy: Some(0.01),
                ..PathFacts::default()
            },
            sessions: 1.0,
            outstanding: Concurrency {
                called: 2.0,
                queued: 2.0,
                granted: 2.0,
                caller_most: Some(2.0),
                ..Concurrency::default()
            },
            cannot_know: vec!["what the target does".to_owned()],
            ..Facts::default()
        }
    }

    #[test]
    fn cells_that_agree_are_one_line_that_opens_to_each() {
        let cell = |load: &str, delay: &str| CellResult {
            load: load.to_owned(),
            point: [("delay".to_owned(), delay.to_owned())].into(),
            repeats: vec![Repeat { diagnosis: Some(judge(&facts())), ..Repeat::default() }],
            ..CellResult::default()
        };
        let cells = vec![cell("read", "8ms"), cell("write", "8ms"), cell("read", "50ms")];
        let page = html(&Tour { run: Run::default(), gist: RunSummary::default(), cells: cells.clone() });
        for expected in [
            "<summary><b>read</b> <span class=\"place\">2 cells: delay 8ms, 50ms</span> the caller keeps too few",
            "<summary><span class=\"place\">delay 50ms</span> 0.512",
            "<summary><b>write</b> <span class=\"place\">delay 8ms</span> the caller keeps too few",
        ] {
            assert!(page.contains(expected), "{expected}: {page}");
        }
        let count = |text: &str| page.matches(text).count();
        assert_eq!((count("<details"), count("</details>")), (4, 4));
        let lines = lines(cells.iter().filter_map(CellResult::examined), Colour::Never);
        let heads: Vec<&str> = lines.lines().filter_map(|line| Some(line.split_once(": the")?.0)).collect();
        assert_eq!(heads, ["read 2 cells: delay 8ms, 50ms", "write delay 8ms"], "{lines}");
    }

    #[test]
    fn says_what_limits_what_shows_it_and_what_to_change() {
        let text = text(&judge(&facts()), "read", Colour::Never);
        for expected in [
            "read: 0.512 MB/s, 16 ms a request",
            "1. the caller keeps too few requests outstanding (queue-depth), for 100 % of the time",
            "(io: issued_t_ns, completed_t_ns)",
            "then the line is full (link-rate)",
            "farlun bench URL --depth 1024",
            "   what the target does",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
