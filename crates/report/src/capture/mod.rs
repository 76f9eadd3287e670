//! What a capture holds, for the terminal and as a page: what limits, connections, commands, what else is known.

mod page;
mod sentences;
mod tables;
mod verdict;

use std::fmt::Write;

use analysis::capture::{Capture, Connection, Interface};

use crate::format::{duration, fixed};
use crate::table::{Colour, paint};

pub use page::html;

/// Connections that are shown; `--json` has all of them.
const SHOWN: usize = 16;

/// A whole capture.
pub fn capture(capture: &Capture, colour: Colour) -> String {
    let shown = shown(capture);
    let mut out = format!("{}\n", paint(&headline(capture), "1", colour));
    for sentence in reservations(capture).into_iter().chain(interfaces(capture)) {
        let _ = writeln!(out, "{sentence}");
    }
    for table in tables::all(&shown) {
        let _ = write!(out, "\n{}", table.text(colour));
    }
    out.extend(verdict::text(&shown, colour).map(|text| format!("\n{text}")));
    for (number, connection) in &shown {
        for sentence in sentences::all(capture, connection) {
            let _ = write!(out, "\n{number}: {sentence}");
        }
    }
    out.extend(beyond(capture).map(|sentence| format!("\n{sentence}")));
    // Narrow gaps do not line up in every terminal's font.
    out.replace('\u{202f}', " ")
}

/// The connections to show, those with iSCSI and most data first.
fn shown(capture: &Capture) -> Vec<(usize, &Connection)> {
    let mut shown: Vec<(usize, &Connection)> = (1..).zip(&capture.connections).collect();
    shown.sort_by_key(|(_, connection)| (connection.iscsi.is_none(), std::cmp::Reverse(payload(connection))));
    shown.truncate(SHOWN);
    shown
}

/// What is said if there are more.
fn beyond(capture: &Capture) -> Option<String> {
    let rest = capture.connections.len().checked_sub(SHOWN).filter(|rest| *rest > 0)?;
    Some(format!("{rest} more connections are not shown: --json has all of them"))
}

fn payload(connection: &Connection) -> u64 {
    connection.directions.iter().map(|direction| direction.payload_bytes).sum()
}

fn headline(capture: &Capture) -> String {
    let iscsi = capture.connections.iter().filter(|connection| connection.iscsi.is_some()).count();
    format!(
        "{} packets in {}: {} TCP connections, {iscsi} of them iSCSI",
        fixed(capture.packets as f64, 0),
        duration(capture.length_s),
        capture.connections.len()
    )
}

/// What the figures below it may not be trusted with.
fn reservations(capture: &Capture) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(cut) = &capture.cut {
        said.push(format!("read up to a cut: {cut}"));
    }
    if capture.dropped > 0 {
        said.push(format!("the capturing host lost {} packets", fixed(capture.dropped as f64, 0)));
    }
    if capture.beyond_packets > 0 {
        let packets = fixed(capture.beyond_packets as f64, 0);
        said.push(format!("{packets} packets belong to connections beyond those that are followed at once"));
    }
    said
}

/// What is in a file of several interfaces, and what was taken of it.
fn interfaces(capture: &Capture) -> Option<String> {
    if capture.interfaces.len() < 2 {
        return None;
    }
    let each = |one: &Interface| {
        let packets = fixed(one.packets as f64, 0);
        format!("{} ({packets}{})", one.label(), if one.taken { "" } else { ", left out" })
    };
    let each: Vec<String> = capture.interfaces.iter().map(each).collect();
    let twice = capture.connections.iter().filter(|connection| !connection.also_at.is_empty()).count();
    let taps = match twice {
        0 => String::new(),
        n => format!(
            "; {n} of the connections passed several of them and are told once, as seen nearest the initiator: \
             --interface NAME shows another side"
        ),
    };
    Some(format!("packets of {} interfaces: {}{taps}", each.len(), each.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_capture_says_what_it_is() {
        let mut empty = analysis::capture::Analyzer::new().finish(3, Some("at byte 5: why".to_owned()));
        let said = capture(&empty, Colour::Never);
        assert_eq!(
            said,
            "0 packets in 0 ms: 0 TCP connections, 0 of them iSCSI\nread up to a cut: at byte 5: why\n\
             the capturing host lost 3 packets\n"
        );
        empty.beyond_packets = 1_000;
        assert!(capture(&empty, Colour::Never).contains("1 000 packets belong to connections beyond"));
    }

    #[test]
    fn two_taps_are_no_reservation() {
        let mut both = analysis::capture::Analyzer::new().finish(0, None);
        let tap =
            |name: &str| Interface { number: 0, name: name.to_owned(), packets: 7, bytes: 0, taken: true };
        both.interfaces = vec![tap("near"), tap("far")];
        let (text, page) = (capture(&both, Colour::Never), html(&both, None, None, ""));
        assert!(text.contains("packets of 2 interfaces: near (7), far (7)"), "{text}");
        assert!(
            page.contains("packets of 2 interfaces: near (7), far (7)") && !page.contains("chip bad"),
            "{page}"
        );
    }
}
