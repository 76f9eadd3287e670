//! A capture for the terminal and as a page: limiters, connections, commands, and further facts.

mod about;
mod contents;
mod events;
mod page;
mod seen;
mod sentences;
mod tables;
mod verdict;

use std::fmt::Write;

use analysis::capture::{DiagnosedCapture, DiagnosedConnection};
use dissect::{CaptureInterface, ConnectionSummary, Dissection};

use crate::format::{duration, fixed};
use crate::tables::layout::{Colour, paint};

pub use page::html;

/// Connections that are shown; `--json` has all of them.
const SHOWN: usize = 16;

/// A whole capture.
pub fn capture(capture: &DiagnosedCapture, colour: Colour) -> String {
    let (events, beyond_events) = (events::table(capture), events::beyond(capture));
    let (shown, capture) = (shown(capture), capture.dissection());
    let mut out = format!("{}\n", paint(&headline(capture), "1", colour));
    let contents = contents::all(&capture.totals);
    for sentence in reservations(capture).into_iter().chain(contents).chain(interfaces(capture)) {
        let _ = writeln!(out, "{sentence}");
    }
    out.push_str(&seen::text(&shown));
    for table in tables::all(&shown) {
        let _ = write!(out, "\n{}", table.text(colour));
    }
    out.extend(events.map(|table| format!("\nevents, times since the first packet\n{}", table.text(colour))));
    out.extend(beyond_events.map(|sentence| format!("{sentence}\n")));
    out.extend(verdict::text(&shown, colour).map(|text| format!("\n{text}")));
    for (number, connection) in &shown {
        for sentence in sentences::all(capture, connection.summary) {
            let _ = write!(out, "\n{number}: {sentence}");
        }
    }
    out.extend(beyond(capture).map(|sentence| format!("\n{sentence}")));
    // Narrow gaps do not line up in every terminal's font.
    out.replace('\u{202f}', " ")
}

/// The connections to show, those with iSCSI and most data first.
fn shown(capture: &DiagnosedCapture) -> Vec<(usize, DiagnosedConnection<'_>)> {
    let mut shown: Vec<(usize, DiagnosedConnection<'_>)> = (1..).zip(capture.connections()).collect();
    shown.sort_by_key(|(_, connection)| {
        (connection.summary.iscsi.is_none(), std::cmp::Reverse(payload(connection.summary)))
    });
    shown.truncate(SHOWN);
    shown
}

/// Note about connections that are not shown.
fn beyond(capture: &Dissection) -> Option<String> {
    let rest = capture.connections.len().checked_sub(SHOWN).filter(|rest| *rest > 0)?;
    Some(format!("{rest} more connections are not shown: --json has all of them"))
}

fn payload(connection: &ConnectionSummary) -> u64 {
    connection.directions.iter().map(|direction| direction.payload_bytes).sum()
}

fn headline(capture: &Dissection) -> String {
    let iscsi = capture.connections.iter().filter(|connection| connection.iscsi.is_some()).count();
    format!(
        "{} packets in {}: {} TCP connections, {iscsi} of them iSCSI",
        fixed(capture.totals.packets as f64, 0),
        duration(capture.totals.length_s),
        capture.connections.len()
    )
}

/// Limitations of the figures.
fn reservations(capture: &Dissection) -> Vec<String> {
    let totals = &capture.totals;
    let mut said = contents::nothing(capture).into_iter().collect::<Vec<_>>();
    if let Some(cut) = &totals.cut {
        said.push(format!("read up to a cut: {cut}"));
    }
    if totals.dropped > 0 {
        said.push(format!("the capturing host lost {} packets", fixed(totals.dropped as f64, 0)));
    }
    said.extend(contents::disorder(totals));
    said.extend(contents::copies(totals));
    said.extend(contents::one_direction(capture));
    if totals.beyond_packets > 0 {
        let packets = fixed(totals.beyond_packets as f64, 0);
        said.push(format!("{packets} packets belong to connections beyond those that are followed at once"));
    }
    said
}

/// Interfaces of a capture with several of them.
fn interfaces(capture: &Dissection) -> Option<String> {
    let interfaces = &capture.totals.interfaces;
    if interfaces.len() < 2 {
        return None;
    }
    let each = |one: &CaptureInterface| {
        let packets = fixed(one.packets as f64, 0);
        format!("{} ({packets}{})", one.label(), if one.taken { "" } else { ", left out" })
    };
    let each: Vec<String> = interfaces.iter().map(each).collect();
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
    use dissect::Dissector;

    use super::*;

    #[test]
    fn an_empty_capture_says_what_it_is() {
        let mut empty = Dissector::new().finish(3, Some("at byte 5: why".to_owned()), &mut ());
        let text = |found: &Dissection| capture(&DiagnosedCapture::new(found.clone()), Colour::Never);
        let said = text(&empty);
        assert_eq!(
            said,
            "0 packets in 0 ms: 0 TCP connections, 0 of them iSCSI\nthe file has no packet\nread up to a cut: at byte 5: \
             why\nthe capturing host lost 3 packets\n"
        );
        empty.totals.beyond_packets = 1_000;
        assert!(text(&empty).contains("1 000 packets belong to connections beyond"));
    }

    #[test]
    fn two_taps_are_no_reservation() {
        let mut both = Dissector::new().finish(0, None, &mut ());
        let tap = |name: &str| CaptureInterface {
            number: 0,
            name: name.to_owned(),
            packets: 7,
            bytes: 0,
            taken: true,
        };
        both.totals.interfaces = vec![tap("near"), tap("far")];
        (both.totals.packets, both.totals.tcp_packets) = (14, 14);
        let both = DiagnosedCapture::new(both);
        let (text, page) = (capture(&both, Colour::Never), html(&both, None, None, &[], ""));
        assert!(text.contains("packets of 2 interfaces: near (7), far (7)"), "{text}");
        assert!(
            page.contains("packets of 2 interfaces: near (7), far (7)") && !page.contains("chip bad"),
            "{page}"
        );
    }
}
