//! The head of a capture's page: the file, its time and its tap; the limiter of the busiest connection, and the command
//! that changes it.

use analysis::capture::DiagnosedConnection;
use dissect::{CaptureInterface, ConnectionSummary, Dissection};

use crate::format::{date, duration, escape, plain};
use crate::page;

/// A tap is at an end if the way to it is this share of the whole or less: the rest is that end's own time to answer.
const AT_END: f64 = 0.1;

/// The brand line: files, time span and tap.
pub(super) fn brand(
    capture: &Dissection,
    shown: &[(usize, DiagnosedConnection<'_>)],
    files: &[String],
) -> String {
    let totals = &capture.totals;
    let mut parts = vec![match files {
        [] => "capture".to_owned(),
        files => format!("capture <b>{}</b>", escape(&files.join(", "))),
    }];
    if totals.packets > 0 {
        parts.push(escape(&span(totals.begin_s, totals.length_s)));
    }
    parts.extend(shown.first().map(|(_, connection)| escape(&tap(capture, connection.summary))));
    format!("<p class=\"brand\">farlun <span>{}</span></p>\n", parts.join(" · "))
}

/// Sentence about the busiest connection with a verdict.
pub(super) fn title(shown: &[(usize, DiagnosedConnection<'_>)]) -> Option<String> {
    let (number, connection, verdict) = first(shown)?;
    let [one, other] = &connection.summary.directions;
    let now = connection.diagnosis?.current.bytes_per_s / 1e6;
    Some(format!(
        "Connection {number} ({} – {}) at {} MB/s: {}",
        one.from,
        other.from,
        plain(now),
        verdict.limiter.title()
    ))
}

/// The first remedy of that verdict, ready to be copied.
pub(super) fn fix(shown: &[(usize, DiagnosedConnection<'_>)]) -> String {
    let remedy = first(shown).and_then(|(_, _, verdict)| Some((verdict, verdict.remedies.first()?)));
    let Some((verdict, remedy)) = remedy else { return String::new() };
    format!(
        "<p class=\"note\">To change: {} ({}). Other stacks are below.</p>\n{}",
        escape(verdict.limiter.next_step()),
        escape(remedy.stack),
        page::command(&remedy.commands)
    )
}

fn first<'a>(
    shown: &'a [(usize, DiagnosedConnection<'_>)],
) -> Option<(usize, &'a DiagnosedConnection<'a>, &'a diagnosis::Verdict)> {
    shown.iter().find_map(|(number, connection)| Some((*number, connection, connection.diagnosis?.first()?)))
}

/// From when on, and for how long.
fn span(begin_s: f64, length_s: f64) -> String {
    format!("from {} for {}", date(begin_s), duration(length_s))
}

/// The place of the tap between the ends of a connection, from the round trips to each.
fn tap(capture: &Dissection, connection: &ConnectionSummary) -> String {
    let [initiator, target] = &connection.directions;
    let way = |rtt: &Option<dissect::Durations>| rtt.as_ref().map(|rtt| rtt.min_s);
    // The acknowledgements of one end's data give the distance of the other end.
    let ways = way(&target.ack_rtt).zip(way(&initiator.ack_rtt));
    let named = capture.totals.interfaces.iter().find(|interface| interface.number == initiator.interface);
    let interface = named.filter(|interface| !interface.name.is_empty()).map(CaptureInterface::label);
    let interface = interface.map_or_else(String::new, |label| format!(" on {label}"));
    let place = match ways {
        Some((near_s, far_s)) if near_s <= AT_END * (near_s + far_s) => "at the initiator".to_owned(),
        Some((near_s, far_s)) if far_s <= AT_END * (near_s + far_s) => "at the target".to_owned(),
        Some((near_s, far_s)) => {
            format!("{} from the initiator and {} from the target", duration(near_s), duration(far_s))
        }
        None => "at a place that the packets do not tell".to_owned(),
    };
    format!("tapped{interface} {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_has_a_date_and_a_length() {
        assert_eq!(span(0.0, 12.5).replace('\u{202f}', " "), "from 1970-01-01 00:00 UTC for 12.5 s");
    }
}
