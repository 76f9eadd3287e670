//! Requests inside each layer over time, and how long they stay there.

use analysis::layers::{ConnectionFlight, LAYERS, Layer, LayerFlight, Stack};
use serde_json::{Value, json};

use crate::figure::{Figure, headroom, short};
use crate::format::{NONE, duration, fixed, plain};
use crate::table::{Column, Field, Table};

/// Layers that a reader sees at once; the others are in the legend and drawn when they are clicked.
const SHOWN: &[&str] =
    &["call", "scsi", "queued", "granted", "started", "socket", "tcp", "received", "store"];

/// Of a connection alone: what its socket holds, on its way and beyond.
const OF_CONNECTION: &[&str] = &["started", "socket", "outward", "received", "store", "homeward"];

/// One line per layer. Of several sessions the busiest is drawn, and the sum and its connections on demand.
pub(super) fn figure(n: usize, stack: &Stack, window_s: Option<(f64, f64)>) -> Option<Figure> {
    let (layers, whose) = match stack.sessions.first() {
        Some(session) => (&session.layers, " of one session"),
        None => (&stack.all, ""),
    };
    let mut traces: Vec<Value> = layers.iter().map(|layer| line(layer, None)).collect();
    if !stack.sessions.is_empty() {
        traces.extend(stack.all.iter().map(|layer| line(layer, Some("all sessions"))));
    }
    let whole = stack.sessions.first().map(|session| session.session);
    let shown = stack.connections.iter().filter(|c| whole.is_none_or(|session| c.session == session));
    traces.extend(shown.flat_map(of_connection));
    let series = || layers.iter().flat_map(|layer| &layer.flight.series);
    let (end_s, top) = series().fold((0.0_f64, 0.0_f64), |(x, y), (t, level)| (x.max(*t), y.max(*level)));
    let shapes: Vec<Value> =
        window_s.into_iter().map(|(start_s, length_s)| window(start_s, length_s)).collect();
    (end_s > 0.0).then(|| Figure {
        id: format!("fig-in-flight-{n}"),
        title: format!("Requests{whose} inside each layer"),
        traces,
        layout: json!({
            "xaxis": {"title": {"text": "since the load began, s"}, "range": [0.0, short(end_s)]},
            "yaxis": {"title": {"text": format!("requests{whose} inside")}, "range": [0.0, headroom(top)]},
            "legend": {"orientation": "v", "x": 1.01, "xanchor": "left", "y": 1.0, "yanchor": "top",
                "font": {"size": 12, "color": "var(--ink)"}, "traceorder": "normal"},
            "margin": {"l": 8, "r": 8, "t": 10, "b": 8}, "shapes": shapes, "hovermode": "closest",
        }),
        legend: Vec::new(),
    })
}

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

/// What must be known before the figures are believed.
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

/// Whose the numbers of the table are, where the picture shows one session of several.
pub(super) fn whose(stack: &Stack) -> Option<String> {
    (!stack.sessions.is_empty())
        .then(|| "The table is of all sessions together; the picture above it is of one.".to_owned())
}

/// How many and for how long, layer by layer, with Little's law as a check.
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
        let flight = &layer.flight;
        let residence = layer.residence;
        let about_equal = if layer.one_in > 1.0 { "≈ " } else { "" };
        vec![
            Field::new(format!("{indent}{title}")),
            Field::new(format!("{about_equal}{}", fixed(flight.max, 0))),
            Field::new(format!("{about_equal}{}", fixed(flight.ceiling, 0))),
            Field::new(format!("{about_equal}{}", plain(flight.mean))),
            Field::new(residence.map_or_else(|| NONE.to_owned(), |r| plain(r.expected_inside))),
            residence.map_or_else(|| Field::new(NONE), |r| Field::mark(r.holds)),
            Field::new(residence.map_or_else(|| NONE.to_owned(), |r| duration(r.mean_s))),
            Field::new(fixed(flight.completed as f64, 0)),
        ]
    };
    Table { columns, rows: stack.all.iter().map(row).collect() }
}

fn line(layer: &LayerFlight, group: Option<&str>) -> Value {
    let place = LAYERS.iter().position(|known| known.name == layer.name).unwrap_or(0);
    let about = LAYERS[place];
    // Outer layers are drawn wide and inner ones narrow on top, so that equal levels are all seen.
    let width = [7.0, 5.5, 4.2, 3.2, 2.4, 1.7, 1.5].get(place).copied().unwrap_or(1.5);
    let (x, y): (Vec<f64>, Vec<f64>) =
        layer.flight.series.iter().map(|(x, y)| (micro(*x), short(*y))).unzip();
    let suffix = group.map_or_else(String::new, |group| format!(", {group}"));
    let title = about.title;
    // One request in many makes steps of many: of interest, but not at first sight.
    let shown = group.is_none() && SHOWN.contains(&layer.name) && !partial(layer);
    json!({
        "type": "scatter", "mode": "lines", "name": format!("{title}{suffix}"), "x": x, "y": y,
        "visible": if shown { json!(true) } else { json!("legendonly") },
        "line": {"color": format!("var(--layer-{})", layer.name), "width": width, "shape": "hv"},
        "hovertemplate": format!("%{{y}} at %{{x:.4f}} s<extra>{title}{suffix}</extra>"),
    })
}

/// The layers of one connection, which are shown and hidden together.
fn of_connection(connection: &ConnectionFlight) -> impl Iterator<Item = Value> {
    let name = format!("connection {}", connection.connection);
    let layers = connection.layers.iter().filter(|layer| OF_CONNECTION.contains(&layer.name));
    layers.enumerate().map(move |(n, layer)| {
        let mut line = line(layer, Some(&name));
        (line["legendgroup"], line["showlegend"]) = (json!(name), json!(n == 0));
        if n == 0 {
            line["name"] = json!(name);
        }
        line
    })
}

/// Whether only some of the recorded requests have the layer's times.
fn partial(layer: &LayerFlight) -> bool {
    !layer.is_whole
}

/// The stretch that the figures are of.
fn window(start_s: f64, length_s: f64) -> Value {
    json!({"type": "rect", "xref": "x", "yref": "paper", "x0": start_s, "x1": start_s + length_s, "y0": 0, "y1": 1,
        "fillcolor": "var(--window)", "line": {"width": 0}, "layer": "below"})
}

/// To the microsecond.
fn micro(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}
