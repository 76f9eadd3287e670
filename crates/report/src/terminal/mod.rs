//! A run for the terminal: the verdict, then the tables, aligned, with units.

pub(crate) mod steps;
mod top;

use std::fmt::Write;
use std::io::IsTerminal;

use analysis::Tour;
use analysis::gaps::capture::Found;

pub use crate::capture::capture;
pub use crate::tables::layout::Colour;
use crate::tables::layout::paint;
use crate::tables::{self, windows};
use crate::{gaps as between, headline, standing};

pub use top::top;

impl Colour {
    /// Colours on a terminal whose user has not set NO_COLOR.
    pub fn on(stream: &impl IsTerminal) -> Colour {
        match stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) {
            true => Colour::Ansi,
            false => Colour::Never,
        }
    }
}

/// Gaps between the packets of a capture: their connection, a table, and their patterns; empty if it has too few.
pub fn gaps(found: &Found, colour: Colour) -> String {
    let mut out = between::whose(found).map_or_else(String::new, |whose| format!("{whose}\n"));
    if let Some(gaps) = &found.gaps {
        let _ = write!(out, "{}", between::table(gaps).text(colour));
        for sentence in between::sentences(gaps) {
            let _ = write!(out, "\n{sentence}");
        }
    }
    // Narrow gaps do not line up in every terminal's font.
    out.replace('\u{202f}', " ")
}

/// The whole run: verdict, throughput, latency, checks, and reasons of invalid cells.
pub fn summary(tour: &Tour, colour: Colour) -> String {
    let title = match &tour.gist.title {
        // A name alone says nothing that its reader does not know.
        title if title.is_empty() || *title == tour.run.plan_name => String::new(),
        title => format!("{}\n", paint(title, "2", colour)),
    };
    let mut out = format!("{title}{}\n{}\n", paint(&headline(tour), "1", colour), standing(tour));
    let tables = [
        tables::throughput(tour),
        windows::table(tour),
        tables::gains(tour),
        tables::initiators(tour),
        tables::latency(tour),
        tables::checks(tour),
    ];
    for table in tables.into_iter().flatten() {
        let _ = write!(out, "\n{}", table.text(colour));
    }
    for cell in &tour.cells {
        for repeat in cell.repeats.iter().filter(|repeat| !repeat.valid) {
            let reasons = repeat.reasons.join("; ");
            let _ = write!(out, "\n{} {}: {reasons}", paint("not valid", "31", colour), repeat.dir);
        }
    }
    if tour.gist.invalid_repeats > 0 {
        out.push('\n');
    }
    // Narrow gaps do not line up in every terminal's font.
    out.replace('\u{202f}', " ")
}

/// The checks of a run alone.
pub fn checks(tour: &Tour, colour: Colour) -> String {
    tables::checks(tour).map_or_else(String::new, |table| table.text(colour)).replace('\u{202f}', " ")
}
