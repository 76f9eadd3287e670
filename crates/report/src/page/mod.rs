//! The page: one HTML document with style, script and data inside, and no address it would fetch from.
//!
//! Figures in a closed `details` are drawn when it is opened; `#all` behind the address opens every one.
//! When all others are drawn the page sets `document.body.dataset.ready` to "1"; script errors are
//! collected in `window.farlunErrors` and shown in the attribute `data-errors` of the root element. The content security policy forbids every request.

mod inside;
mod section;

use analysis::Tour;
use serde_json::Value;

use crate::figure::{self, Figure};
use crate::format::escape;
use crate::headline::{headline, is_unvalidated};
use crate::looking::{self, Inside};
use crate::{against, doctor, over_time};

pub(crate) use inside::{panels, part, place};
pub(crate) use section::{chip, command, drawing, rebuild, section};

const PLOTLY: &str = include_str!("../../assets/plotly-basic.min.js");
const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");
/// Draws requests and packets.
const LOOKING: &str = include_str!("../../assets/looking.js");
/// Runs before every other script.
const WATCH: &str = include_str!("../../assets/watch.js");

/// Draws a run as one HTML document. `rebuild` is the command that draws it again.
pub fn html(tour: &Tour, rebuild: &str) -> String {
    let drawn = |name| looking::drawn(tour, name);
    let throughput = figure::throughput(tour).filter(|_| drawn(figure::AGAINST_DELAY));
    let rates = if drawn("rate") { over_time::rates(tour) } else { Vec::new() };
    let windows = if drawn("window") { over_time::windows(tour) } else { Vec::new() };
    let blocks = if drawn("block") { over_time::blocks(tour) } else { Vec::new() };
    let against = against::figures(tour);
    let inside = looking::inside(tour);
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
        section::rebuild(rebuild),
    ];
    let title = format!("farlun · {} · {}", tour.gist.title, headline(tour));
    // The script marks every figure in it.
    let body = match is_unvalidated(&tour.gist) {
        true => format!("<div class=\"unvalidated\">{}</div>", sections.concat()),
        false => sections.concat(),
    };
    document(&title, &body, &figures)
}

/// A page around the given parts.
pub(crate) fn document(title: &str, body: &str, figures: &Value) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; \
         style-src 'unsafe-inline'; img-src data: blob:\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <script>{WATCH}</script>\n\
         </head>\n<body>\n<main>\n{body}\n</main>\n\
         <script type=\"application/json\" id=\"figures\">{figures}</script>\n\
         <script>{PLOTLY}</script>\n<script>{LOOKING}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        title = escape(title),
        // Inside a script element markup could end the data; JSON has another way to write it.
        figures = figures.to_string().replace('<', "\\u003c"),
    )
}
