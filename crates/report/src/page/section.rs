//! The sections of a page, from the verdict down to the command that draws it again.

use std::fmt::Write;

use analysis::manifest::BusyProgram;
use analysis::{CellResult, Repeat, Tour};

use crate::doctor;
use crate::figures::figure::Figure;
use crate::format::{date, duration, escape, fixed};
use crate::headline::{headline, is_unvalidated, standing};
use crate::tables::layout::Mark;
use crate::tables::{self, windows};

use super::elements::{chip, command, drawing, panels, section};

/// The verdict, before anything else.
pub(super) fn head(tour: &Tour) -> String {
    let (run, gist) = (&tour.run, &tour.gist);
    let mut chips = match (is_unvalidated(gist), gist.valid) {
        (true, _) => chip(Mark::Open, "unvalidated"),
        (false, true) => chip(Mark::Good, "valid"),
        (false, false) => chip(Mark::Bad, "not valid"),
    };
    if gist.checks > 0 {
        let held = gist.checks - gist.failed_checks - gist.unmeasured_checks;
        let mark = match (gist.failed_checks, gist.unmeasured_checks) {
            (0, 0) => Mark::Good,
            (0, _) => Mark::Open,
            _ => Mark::Bad,
        };
        let mut text = format!("{held} of {} checks hold", gist.checks);
        if gist.unmeasured_checks > 0 {
            let _ = write!(text, ", {} not measured", gist.unmeasured_checks);
        }
        chips += &chip(mark, &text);
    }
    // A load that was run without a plan has a title alone.
    let plan = if run.plan_name.is_empty() { &gist.title } else { &run.plan_name };
    let mut about = match (doctor::is_of_doctor(tour), plan.is_empty()) {
        (true, _) => vec!["the doctor, on one load".to_owned()],
        (false, true) => Vec::new(),
        (false, false) => vec![format!("plan <b>{}</b>", escape(plan))],
    };
    if run.started_unix_s > 0.0 {
        about.push(date(run.started_unix_s));
        about.push(format!("took {}", duration(run.elapsed_s.round())));
    }
    about.push(format!("farlun {}", escape(&run.farlun)));
    let title = match gist.title == *plan {
        true => String::new(),
        false => format!("<p class=\"title\">{}</p>\n", escape(&gist.title)),
    };
    format!(
        "<header>\n<p class=\"brand\">farlun <span>{}</span></p>\n{title}<h1>{}</h1>\n<p class=\"lead\">{}</p>\n\
         <p class=\"chips\">{chips}</p>\n</header>\n",
        about.join(" · "),
        escape(&headline(tour)),
        escape(&standing(tour)),
    )
}

/// Limiters of each load.
pub(super) fn verdicts(body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    let text = "What limits each load, what shows it, what to change, and what that would gain; cells that the same thing \
                limits are one line. Found in the tables of the first valid repeat, see docs/reference/doctor.md.";
    section("verdicts", "What limits", text, body)
}

/// Effect of a session with several connections on other flows.
const CONNECTIONS: &str = "A session of several connections takes as many shares: beside one other TCP flow on a line that \
                           is full, four connections have about four fifths of it.";

/// Throughput against delay: figure and numbers.
pub(super) fn throughput(tour: &Tour, figure: Option<&Figure>) -> String {
    let table = tables::throughput(tour).map(|table| table.html("table-throughput"));
    if table.is_none() && figure.is_none() {
        return String::new();
    }
    let drawing = figure.map(|f| drawing(f, "tall")).unwrap_or_default();
    let mut text = "Application bytes at the receiver, over the window of each load. Medians.".to_owned();
    if figure.is_some() {
        text.push_str(
            " Bars span the repeats; the dashed grey line is what TCP can carry over the line, computed.",
        );
    }
    if tables::has_connections(tour) {
        text.push(' ');
        text.push_str(CONNECTIONS);
    }
    let title = if figure.is_some() { "Throughput against delay" } else { "Throughput" };
    section("throughput", title, &text, &(drawing + &table.unwrap_or_default()))
}

/// Small figures side by side, one per path.
pub(super) fn over_time(id: &str, title: &str, text: &str, figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    section(id, title, text, &panels(figures, "small"))
}

/// Single requests.
pub(super) fn latency(tour: &Tour) -> String {
    let Some(table) = tables::latency(tour) else { return String::new() };
    let text = "From issue until the caller was told, over the window. Turnaround is the median in round trips of the \
                smallest RTT that TCP saw; what lies beyond one round trip is given in the time the line needs for the \
                request's own bytes.";
    section("latency", "Latency of single requests", text, &table.html("table-latency"))
}

/// Windows of both ends of each load.
pub(super) fn ends(tour: &Tour) -> String {
    let Some(table) = windows::table(tour) else { return String::new() };
    let text = "Windows are those of the connection that sent most, over the window of the figures: the sender's congestion \
                window, and what its receiver offered. A load is full when it first carries 95 % of the line. 100 % of CPU \
                is one processor. Limited by: of streams what both ends tell (docs/reference/stream.md), of requests what the doctor \
                finds. Beside streams what the study of a stream around the world had at that round trip, over \
                10 Gb/s with the bus of its hosts as the limit; its CPU is that of sender and receiver.";
    section("ends", "What both ends had", text, &table.html("table-ends"))
}

/// Gain of the policies.
pub(super) fn gains(tour: &Tour) -> String {
    let Some(table) = tables::gains(tour) else { return String::new() };
    let text = "Throughput over the window against that of the same load under the policy none, and the same from the \
                load's beginning, while the policy still looks for its window; counted over is what was carried in the \
                window. Beside it what the congestion-window control study gained at the same delay, on Linux 2.4 with \
                a real network card; it read 100 GB each time.";
    section("gains", "What the policies gain", text, &table.html("table-gains"))
}

/// Throughput of each of several initiators.
pub(super) fn initiators(tour: &Tour) -> String {
    let Some(table) = tables::initiators(tour) else { return String::new() };
    let text = "Application bytes at each initiator, over the window in which all were at work; of the first valid \
                repeat. Cuts are of the windows that the sender's own full device cut, connection by connection: of that which \
                sent most first, and not in the order of the initiators.";
    section("initiators", "What each initiator got", text, &table.html("table-initiators"))
}

/// The plan's expectations.
pub(super) fn checks(tour: &Tour) -> String {
    let Some(table) = tables::checks(tour) else { return String::new() };
    section("checks", "Checks", "What the plan expects, and what was found.", &table.html("table-checks"))
}

/// Every cell with its validity and the command that runs it alone.
pub(super) fn cells(tour: &Tour) -> String {
    let mut body = String::new();
    for cell in &tour.cells {
        let bad = cell.repeats.iter().filter(|repeat| !repeat.valid).count();
        let open = if bad > 0 { " open" } else { "" };
        let state = match bad {
            0 if cell.is_unvalidated() => chip(Mark::Open, "unvalidated"),
            0 if cell.repeats.len() > 1 => {
                format!("<span class=\"place\">{} repeats, valid</span>", cell.repeats.len())
            }
            0 => "<span class=\"place\">valid</span>".to_owned(),
            bad => chip(Mark::Bad, &format!("{bad} of {} not valid", cell.repeats.len())),
        };
        let place = escape(&tables::place(cell));
        let _ = write!(
            body,
            "<details{open}><summary><b>{}</b> <span class=\"place\">{place}</span> {state}</summary>",
            escape(&cell.load)
        );
        cell.repeats.iter().for_each(|r| body.push_str(&repeat(cell, r)));
        body.push_str("</details>");
    }
    let text = "Each cell is one command; run as root, it repeats the measurement alone.";
    section("cells", "Cells", text, &body)
}

fn repeat(cell: &CellResult, repeat: &Repeat) -> String {
    let mut out = String::new();
    let number = if cell.repeats.len() > 1 { format!("repeat {} · ", repeat.repeat) } else { String::new() };
    let us = |name| repeat.values.get(name).map(|s| fixed(s * 1e6, 0));
    let lateness = match (us("lateness_p50"), us("lateness_p99"), us("lateness_max")) {
        (Some(p50), Some(p99), Some(max)) => {
            format!(" · the path was late by {p50} µs (median), {p99} µs (p99), {max} µs (most)")
        }
        _ => String::new(),
    };
    let _ = write!(out, "<p class=\"cell\">{number}<code>{}</code>{lateness}</p>", escape(&repeat.dir));
    if !repeat.valid {
        let reasons = repeat.reasons.join("; ");
        let reasons = if reasons.is_empty() { "no reason given" } else { &reasons };
        let _ = write!(out, "<p class=\"reason\">Not valid: {}</p>", escape(reasons));
    }
    out + &command(&repeat.command)
}

/// The plan, in full.
pub(super) fn plan(tour: &Tour) -> String {
    let run = &tour.run;
    let text = match run.plan_text.trim() {
        // A load that was run without a plan has a title alone.
        "" if run.plan.is_null() || run.plan_name.is_empty() => return String::new(),
        "" => format!("{:#}", run.plan),
        text => text.to_owned(),
    };
    let body = format!(
        "<details><summary>{}</summary><pre>{}</pre></details>",
        escape(&run.plan_name),
        escape(&text)
    );
    section("plan", "Plan", "Everything that was asked for.", &body)
}

/// The machine and the seed.
pub(super) fn environment(tour: &Tour) -> String {
    let run = &tour.run;
    let mut list = String::from("<dl>");
    let mut item = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = write!(list, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
    };
    item("command line", &run.command_line);
    item("farlun", &run.farlun);
    item("commit", run.commit.as_deref().unwrap_or(""));
    // A cell that was opened alone knows neither seed nor machine.
    item("seed", &if run.kernel.is_empty() { String::new() } else { run.seed.to_string() });
    item("kernel", &run.kernel);
    let busy = |program: &BusyProgram| {
        format!("{} (pid {}) {}", program.name, program.pid, fixed(program.processors, 2))
    };
    item("busy before it, processors", &run.busy.iter().map(busy).collect::<Vec<_>>().join(", "));
    item("CPUs", &if run.cpus > 0 { run.cpus.to_string() } else { String::new() });
    for (cell, bits_per_s) in &run.found {
        item(
            &format!("{cell} carried, which sets the rate of others"),
            &format!("{} Mb/s", fixed(bits_per_s / 1e6, 1)),
        );
    }
    run.sysctls.iter().for_each(|(name, value)| item(name, value));
    list.push_str("</dl>");
    section("environment", "Environment", "", &list)
}
