//! The gist of a run in plain words: the first thing a reader sees, on the page and in a terminal.

use analysis::{Gist, Share, Tour};

use crate::doctor;
use crate::format::{duration, percent};

/// How near its loads come to the line, in one sentence: "Read reaches 97 % and write 96 % of the line at
/// 100 ms round trip."
pub fn headline(tour: &Tour) -> String {
    if let Some(verdict) = doctor::headline(tour) {
        return verdict;
    }
    let gist = &tour.gist;
    if !gist.valid {
        return match gist.invalid_repeats {
            0 => "This run is not valid: it did not come to its end.".to_owned(),
            _ if is_stopped(tour) => "This run is not valid: it did not come to its end.".to_owned(),
            n => format!("This run is not valid: {n} of {} measurements yield no figure.", gist.repeats),
        };
    }
    let storage: Vec<&Share> = gist.shares.iter().filter(|share| share.op != "stream").collect();
    let shares = if storage.is_empty() { gist.shares.iter().collect() } else { storage };
    let Some(rtt_s) = gist.rtt_s.filter(|_| !shares.is_empty()) else {
        return match gist.repeats {
            1 => format!("One measurement of {}.", tour.run.plan_name),
            n => format!("{n} measurements of {}.", tour.run.plan_name),
        };
    };
    let parts = shares.iter().enumerate().map(|(i, share)| {
        let verb = if i == 0 { "reaches " } else { "" };
        format!("{} {verb}{}", share.load, percent(share.of_line))
    });
    let sentence = format!("{} of the line at {} round trip.", list(parts.collect()), duration(rtt_s));
    capital(&sentence)
}

/// What else to know at once: the baseline, the checks, and whether the run counts.
pub fn standing(tour: &Tour) -> String {
    if let Some(standing) = doctor::standing(tour) {
        return standing;
    }
    let gist = &tour.gist;
    let mut sentences = Vec::new();
    if let Some(stream) = baseline(gist).filter(|_| gist.valid) {
        sentences.push(format!("A raw TCP stream on the same path: {}.", percent(stream.of_line)));
    }
    sentences.push(match (gist.checks, gist.failed_checks) {
        (0, _) if is_stopped(tour) => "What the plan expects of it was not looked at.".to_owned(),
        (0, _) => "The plan expects nothing of it.".to_owned(),
        (1, 0) => "The plan's one check holds.".to_owned(),
        (n, 0) => format!("All {n} checks of the plan hold."),
        (1, _) => "The plan's one check does not hold.".to_owned(),
        (n, failed) => {
            format!("{failed} of the plan's {n} checks {} not hold.", if failed == 1 { "does" } else { "do" })
        }
    });
    match (gist.valid, gist.invalid_repeats) {
        (true, 0) => sentences.push("Every measurement is valid.".to_owned()),
        (true, n) => {
            sentences.push(format!("{n} of {} measurements {} not valid and left out.", gist.repeats, is(n)));
        }
        (false, 0) => {}
        (false, _) => sentences.push("The reasons stand with the measurements below.".to_owned()),
    }
    sentences.join(" ")
}

/// Whether the run was ended before its time: what the plan expects is looked at when all has been measured.
fn is_stopped(tour: &Tour) -> bool {
    let expects = tour.run.plan["expect"].as_array().is_some_and(|list| !list.is_empty());
    expects && tour.gist.checks == 0 && !tour.gist.valid
}

fn is(n: usize) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

/// The stream, unless it is all there is and the headline speaks of it.
fn baseline(gist: &Gist) -> Option<&Share> {
    let only_streams = gist.shares.iter().all(|share| share.op == "stream");
    gist.shares.iter().find(|share| share.op == "stream" && !only_streams)
}

fn list(mut parts: Vec<String>) -> String {
    match parts.pop() {
        Some(last) if !parts.is_empty() => format!("{} and {last}", parts.join(", ")),
        last => last.unwrap_or_default(),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use analysis::manifest::Run;

    use super::*;

    fn tour(shares: &[(&str, &str, f64)], checks: usize, failed_checks: usize, valid: bool) -> Tour {
        let share = |(load, op, of_line): &(&str, &str, f64)| Share {
            load: (*load).into(),
            op: (*op).into(),
            of_line: *of_line,
        };
        Tour {
            run: Run { plan_name: "tour".to_owned(), ..Run::default() },
            gist: Gist {
                rtt_s: Some(0.1),
                shares: shares.iter().map(share).collect(),
                valid,
                invalid_repeats: usize::from(!valid) * 2,
                repeats: 9,
                failed_checks,
                checks,
            },
            cells: Vec::new(),
        }
    }

    fn check(tour: &Tour, first: &str, second: &str) {
        assert_eq!(headline(tour).replace('\u{202f}', " "), first);
        assert_eq!(standing(tour).replace('\u{202f}', " "), second);
    }

    #[test]
    fn sentences() {
        check(
            &tour(
                &[("stream", "stream", 0.981), ("read", "read", 0.972), ("write", "write", 0.965)],
                12,
                0,
                true,
            ),
            "Read reaches 97 % and write 96 % of the line at 100 ms round trip.",
            "A raw TCP stream on the same path: 98 %. All 12 checks of the plan hold. Every measurement is valid.",
        );
        check(
            &tour(&[("tcp", "stream", 0.5)], 3, 1, true),
            "Tcp reaches 50 % of the line at 100 ms round trip.",
            "1 of the plan's 3 checks does not hold. Every measurement is valid.",
        );
        check(
            &tour(&[], 0, 0, false),
            "This run is not valid: 2 of 9 measurements yield no figure.",
            "The plan expects nothing of it. The reasons stand with the measurements below.",
        );
        let mut stopped = tour(&[], 0, 0, false);
        stopped.run.plan = serde_json::json!({"expect": [{}]});
        check(
            &stopped,
            "This run is not valid: it did not come to its end.",
            "What the plan expects of it was not looked at. The reasons stand with the measurements below.",
        );
        stopped.gist.invalid_repeats = 0;
        assert_eq!(standing(&stopped), "What the plan expects of it was not looked at.");
    }
}
