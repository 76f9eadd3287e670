//! The lines of requests inside each layer, and of how many come and go in a second, as rows of numbers for the page's
//! script: of all together, of each session and of each connection, as far as the page has room for them.

use analysis::layers::{Flight, LAYERS, LayerFlight, Rates, Stack};
use serde_json::{Value, json};

use crate::figures::figure::short;

/// Layers that a reader sees at once; the others are in the legend and drawn when they are clicked.
const SHOWN: &[&str] =
    &["call", "scsi", "queued", "granted", "started", "socket", "tcp", "received", "store"];
/// Layers of a single connection: its socket, its path and the far end.
const OF_CONNECTION: &[&str] = &["started", "socket", "outward", "received", "store", "homeward"];
/// Outer layers are drawn wide and inner ones narrow on top, so that equal levels are all seen.
const WIDTHS: [f64; 7] = [7.0, 5.5, 4.2, 3.2, 2.4, 1.7, 1.5];

/// Lines of one session, one connection, or all.
struct Group<'a> {
    name: String,
    layers: &'a [LayerFlight],
    /// Layers that are shown at first.
    shown: &'static [&'static str],
}

/// `layers`: `[title, colour, width]`; `groups`: `[name, lines]`, a line being `[layer, shown at first, µs since the
/// point before, requests inside from then on, [first step's beginning and length, µs], issued in a second of each
/// step, completed]`. `more` counts the groups beyond the budget, `at` is the layer whose steps are shown at first.
/// `None` without a line.
pub(super) fn data(stack: &Stack, window_s: Option<(f64, f64)>) -> Option<Value> {
    let all = groups(stack);
    let drawn: Vec<&Group<'_>> = all.iter().filter(|group| group.is_drawn()).collect();
    let first = drawn.first()?;
    let at = stack.gate.or_else(|| first.layers.first().map(|layer| layer.name));
    let layers: Vec<Value> = LAYERS
        .iter()
        .enumerate()
        .map(|(n, layer)| {
            let width = WIDTHS.get(n).copied().unwrap_or(1.5);
            json!([layer.title, format!("var(--layer-{})", layer.name), width])
        })
        .collect();
    Some(json!({
        "layers": layers,
        "groups": drawn.iter().map(|group| json!([group.name, group.lines()])).collect::<Vec<_>>(),
        "more": all.len() - drawn.len(),
        "at": at.map(number_of),
        "window": window_s.map(|(start_s, length_s)| [start_s, start_s + length_s]),
    }))
}

/// Groups, the one shown at first in front: of several sessions the one with most requests.
fn groups(stack: &Stack) -> Vec<Group<'_>> {
    let sum = |name: &str| Group { name: name.to_owned(), layers: &stack.all, shown: SHOWN };
    let mut groups: Vec<Group<'_>> = stack
        .sessions
        .iter()
        .enumerate()
        .map(|(n, session)| {
            let most = if n == 0 { ", which has most requests" } else { "" };
            Group { name: format!("session {}{most}", n + 1), layers: &session.layers, shown: SHOWN }
        })
        .collect();
    match stack.sessions.as_slice() {
        [] => groups.push(sum(if stack.connections.is_empty() { "all" } else { "all connections" })),
        _ => groups.insert(1, sum("all sessions")),
    }
    groups.extend(stack.connections.iter().map(|connection| {
        let session = stack.session_number(connection.session).filter(|_| !stack.sessions.is_empty());
        let session = session.map_or_else(String::new, |n| format!("session {n}, "));
        Group {
            name: format!("{session}connection {}", connection.connection),
            layers: &connection.layers,
            shown: OF_CONNECTION,
        }
    }));
    groups
}

impl Group<'_> {
    /// True if the page has points for it.
    fn is_drawn(&self) -> bool {
        self.layers.iter().any(|layer| !layer.flight.series.is_empty())
    }

    fn lines(&self) -> Vec<Value> {
        let line = |layer: &LayerFlight| {
            let Flight { series, rates, .. } = &layer.flight;
            let Rates { start_s, step_s, issued, completed } = rates;
            // One request in many makes steps of many: of interest, but not at first sight.
            let is_shown = layer.is_whole && self.shown.contains(&layer.name);
            let mut before = 0;
            let since: Vec<i64> = series
                .iter()
                .map(|(t, _)| {
                    let since = micro(*t) - before;
                    before += since;
                    since
                })
                .collect();
            json!([
                number_of(layer.name),
                u8::from(is_shown),
                since,
                series.iter().map(|(_, level)| number(*level)).collect::<Vec<_>>(),
                [micro(*start_s), micro(*step_s).max(1)],
                issued.iter().map(|rate| number(*rate)).collect::<Vec<_>>(),
                completed.iter().map(|rate| number(*rate)).collect::<Vec<_>>(),
            ])
        };
        self.layers.iter().map(line).collect()
    }
}

fn number_of(layer: &str) -> usize {
    LAYERS.iter().position(|known| known.name == layer).unwrap_or(0)
}

fn micro(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

/// Short form of a number: integers without a decimal point, large numbers rounded.
fn number(value: f64) -> Value {
    let value = if value.abs() >= 1e3 { value.round() } else { short(value) };
    if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
}

#[cfg(test)]
mod tests {
    use analysis::layers::{ConnectionFlight, SessionFlight};

    use super::*;

    fn layer(name: &'static str, series: &[(f64, f64)]) -> LayerFlight {
        let rates =
            Rates { start_s: 0.5, step_s: 0.01, issued: vec![3_125.4, 0.25], completed: vec![100.0, 0.0] };
        LayerFlight {
            name,
            flight: Flight { series: series.to_vec(), rates, ..Flight::default() },
            residence: None,
            one_in: 1.0,
            is_whole: true,
            unended: 0,
            alone: 0,
        }
    }

    #[test]
    fn a_line_is_short_and_says_the_same() {
        let all = vec![layer("call", &[(0.5, 1.0), (0.500_002, 12.0), (1.5, 0.0)]), layer("homeward", &[])];
        let stack = Stack { all, gate: Some("call"), ..Stack::default() };
        let found = data(&stack, Some((0.25, 1.0))).unwrap();
        let line =
            json!([0, 1, [500_000, 2, 999_998], [1, 12, 0], [500_000, 10_000], [3125, 0.25], [100, 0]]);
        assert_eq!(found["groups"][0], json!(["all", [line, found["groups"][0][1][1]]]));
        assert_eq!(
            (&found["at"], &found["more"], &found["window"]),
            (&json!(0), &json!(0), &json!([0.25, 1.25]))
        );
        assert_eq!(data(&Stack::default(), None), None, "nothing was recorded");
    }

    #[test]
    fn sessions_and_connections_are_groups_as_far_as_there_is_room() {
        let line = || vec![layer("call", &[(0.0, 1.0)])];
        let none = || vec![layer("call", &[])];
        let session = |session, layers| SessionFlight { session, layers };
        let connection = |session, connection, layers| ConnectionFlight { session, connection, layers };
        let mut stack = Stack {
            all: line(),
            sessions: vec![session(9, line()), session(8, line()), session(7, none())],
            connections: vec![connection(9, 0, line()), connection(8, 5, line()), connection(8, 6, none())],
            ..Stack::default()
        };
        let names = |stack: &Stack| -> (Vec<String>, Value) {
            let found = data(stack, None).unwrap();
            let groups = found["groups"].as_array().unwrap();
            (
                groups.iter().map(|group| group[0].as_str().unwrap().to_owned()).collect(),
                found["more"].clone(),
            )
        };
        let expected = [
            "session 1, which has most requests",
            "all sessions",
            "session 2",
            "session 1, connection 0",
            "session 2, connection 5",
        ];
        assert_eq!(names(&stack), (expected.map(str::to_owned).to_vec(), json!(2)));
        stack.sessions.clear();
        assert_eq!(names(&stack).0, ["all connections", "connection 0", "connection 5"]);
    }
}
