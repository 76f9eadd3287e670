//! The page: one HTML document with style, script and data inside, and no address it would fetch from.
//!
//! Figures in a closed `details` are drawn when it is opened; `#all` behind the address opens every one.
//! When all others are drawn the page sets `document.body.dataset.ready` to "1"; script errors are
//! collected in `window.farlunErrors` and shown in the attribute `data-errors` of the root element. The content security policy forbids every request.

mod elements;
mod frame;
mod inside;
mod section;

use analysis::Tour;
use serde_json::Value;

use crate::doctor;
use crate::figures::figure::{self, Figure};
use crate::figures::{metric_by_axis, over_time};
use crate::headline::{headline, is_unvalidated};
use crate::interactive::{self, Inside};

pub(crate) use elements::{chip, command, drawing, panels, part, place, rebuild, section};
pub(crate) use frame::document;

/// Draws a run as one HTML document. `rebuild` is the command that draws it again.
pub fn html(tour: &Tour, rebuild: &str) -> String {
    let drawn = |name| interactive::drawn(tour, name);
    let throughput = figure::throughput(tour).filter(|_| drawn(figure::AGAINST_DELAY));
    let rates = if drawn("rate") { over_time::rates(tour) } else { Vec::new() };
    let windows = if drawn("window") { over_time::windows(tour) } else { Vec::new() };
    let blocks = if drawn("block") { over_time::blocks(tour) } else { Vec::new() };
    let against = metric_by_axis::figures(tour);
    let inside = interactive::inside(tour);
    let plots = throughput.iter().chain(&against).chain(&rates).chain(&windows).chain(&blocks);
    let figures: Value = plots.map(Figure::json).chain(inside.iter().flat_map(Inside::json)).collect();
    let sections = [
        section::head(tour),
        section::verdicts(&doctor::html(tour)),
        section::throughput(tour, throughput.as_ref()),
        section::ends(tour),
        section::gains(tour),
        section::initiators(tour),
        inside::against(&against),
        section::over_time(
            "ramp",
            "Rate over time",
            "How fast each load fills the line, from its first second. The shown repeat is the first valid one.",
            &rates,
        ),
        section::over_time(
            "windows",
            "Congestion window",
            "What TCP allows the sender to keep in flight, against what the path can hold; of a session with several \
             connections, the window of the one that sent most.",
            &windows,
        ),
        section::over_time(
            "blocks",
            "Block",
            "How long the initiator's policy wants a request to be; the caller's own length where it has no wish.",
            &blocks,
        ),
        section::latency(tour),
        inside::layers(&inside),
        section::checks(tour),
        section::cells(tour),
        section::plan(tour),
        section::environment(tour),
        elements::rebuild(rebuild),
    ];
    let title = format!("farlun · {} · {}", tour.gist.title, headline(tour));
    // The script marks every figure in it.
    let body = match is_unvalidated(&tour.gist) {
        true => format!("<div class=\"unvalidated\">{}</div>", sections.concat()),
        false => sections.concat(),
    };
    document(&title, &body, &figures)
}
