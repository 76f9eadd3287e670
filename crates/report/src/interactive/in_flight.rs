//! Requests inside each layer in words and figures: the limit of parallelism, doubts, residence. The page draws their
//! lines ([`super::lines`]).

use analysis::layers::{Layer, LayerFlight, Residence, Stack};

use crate::format::{NONE, duration, fixed, plain};
use crate::tables::layout::{Column, Field, Mark, Table};

/// The sentence above the figures: where parallelism stops.
pub(super) fn gist(stack: &Stack) -> String {
    let layers = stack.sessions.first().map_or(&stack.all, |session| &session.layers);
    let find = |name: &str| layers.iter().find(|layer| layer.name == name);
    let Some((name, gate)) = stack.gate.and_then(|name| Some((name, find(name)?))) else {
        let Some(call) = find("call") else { return String::new() };
        if call.flight.ceiling <= 1.0 {
            return "One request at a time: no layer has any to hold back.".to_owned();
        }
        return format!(
            "No layer holds requests back: all {} are on their way.",
            fixed(call.flight.ceiling, 0)
        );
    };
    let offered = find("call").or_else(|| layers.first()).map_or(0.0, |call| call.flight.ceiling);
    let title = Layer::named(name).map_or(name, |layer| layer.title);
    format!(
        "Parallelism stops at “{title}”: {} of {} go on.",
        fixed(gate.flight.ceiling, 0),
        fixed(offered, 0)
    )
}

/// Doubts about the figures.
pub(super) fn doubts(stack: &Stack) -> Vec<String> {
    let mut doubts = Vec::new();
    for layer in stack.doubtful() {
        let Some(residence) = layer.residence else { continue };
        let title = Layer::named(layer.name).map_or(layer.name, |layer| layer.title);
        doubts.push(format!(
            "{title}: {} inside were counted, completions × residence says {}. Times are missing, or the load was \
             not steady over the window.",
            plain(layer.flight.mean),
            plain(residence.expected_inside)
        ));
    }
    let most = |of: fn(&LayerFlight) -> u64| stack.all.iter().max_by_key(|layer| of(layer)).map_or(0, of);
    let count = |n: u64| fixed(n as f64, 0);
    if let unended @ 1.. = most(|layer| layer.unended) {
        doubts.push(format!(
            "{} requests have no time of leaving some layer that they entered: they count as gone at the last time \
             that is known of them.",
            count(unended)
        ));
    }
    if let alone @ 1.. = most(|layer| layer.alone) {
        doubts.push(format!(
            "{} requests of the window are known to one host only, as those that were sent again are: they are left \
             out of what is between the hosts.",
            count(alone)
        ));
    }
    if stack.lost_rows > 0 {
        doubts.push(format!("{} rows could not be recorded.", count(stack.lost_rows)));
    }
    match (stack.sample_near, stack.sample_far) {
        (..=1, ..=1) => {}
        (near, far) if near == far => {
            doubts.push(format!("One request in {near} was recorded; numbers are scaled up."));
        }
        (near, far) => doubts.push(format!(
            "One request in {near} was recorded at the initiator, one in {far} at the target; numbers are scaled up."
        )),
    }
    if stack.clock.is_unknown() {
        doubts.push(
            "The times of the two hosts contradict each other: by no offset of their clocks do both ways take time. \
             Times of the target are those of its own clock, and what lies between the hosts is left out."
                .to_owned(),
        );
    } else if stack.clock.contradictory > 0 {
        doubts.push(format!(
            "In {} of {} stretches the times of the two hosts contradict each other; the offset there is that of others.",
            stack.clock.contradictory,
            stack.clock.contradictory + stack.clock.points.len()
        ));
    }
    let bound_s = stack.clock.bound_s();
    if bound_s > 0.0 {
        doubts.push(format!(
            "The hosts' clocks are related by the traffic: times of the target are right within {}.",
            duration(bound_s)
        ));
    }
    doubts
}

/// Session of the table's numbers, where the drawing shows one of several.
pub(super) fn whose(stack: &Stack) -> Option<String> {
    (!stack.sessions.is_empty()).then(|| {
        "The table is of all sessions together; the picture above it is of what is chosen there.".to_owned()
    })
}

/// Number and residence, layer by layer, with Little's law as a check.
pub(super) fn table(stack: &Stack) -> Table {
    let columns = vec![
        Column::text("layer"),
        Column::number("most inside", "requests"),
        Column::number("99 % of the time", "at most"),
        Column::number("mean inside", "counted"),
        Column::number("rate × residence", "expected"),
        Column::text("agree"),
        Column::number("mean residence", ""),
        Column::number("completed", "requests"),
    ];
    let row = |layer: &LayerFlight| {
        let about = Layer::named(layer.name);
        let title = about.map_or(layer.name, |layer| layer.title);
        let indent = if about.is_some_and(|layer| layer.part_of.is_some()) { "\u{2003}" } else { "" };
        let (flight, residence) = (&layer.flight, layer.residence);
        // Scaled up from some of the requests.
        let scaled = |number: String| if layer.one_in > 1.0 { format!("≈ {number}") } else { number };
        let of_residence =
            |show: &dyn Fn(Residence) -> String| residence.map_or_else(|| NONE.to_owned(), show);
        vec![
            Field::new(format!("{indent}{title}")),
            Field::new(scaled(fixed(flight.max, 0))),
            Field::new(scaled(fixed(flight.ceiling, 0))),
            Field::new(scaled(plain(flight.mean))),
            Field::new(of_residence(&|r| scaled(plain(r.expected_inside)))),
            residence.map_or_else(|| Field::new(NONE), |r| Field::mark(Mark::of(r.holds))),
            Field::new(of_residence(&|r| duration(r.mean_s))),
            Field::new(scaled(fixed(flight.completed as f64, 0))),
        ]
    };
    Table { columns, rows: stack.all.iter().map(row).collect() }
}
