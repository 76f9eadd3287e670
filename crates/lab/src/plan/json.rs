//! A plan as JSON, for `run.json`: the keys and values of the TOML, complete, since a run is resumed only with an
//! equal plan.

use document::Scalar;
use serde_json::{Map, Value, json};

use super::checks::Expect;
use super::definition::Plan;
use super::keys::background::Background;
use super::keys::case::Case;
use super::keys::load::{AUTO, Load, LoadKind, Pacing};
use super::keys::lun::Lun;
use super::keys::path::{Path, Queue};
use super::keys::recording::Drawing;
use super::keys::target::Target;
use super::matrix::Axis;
use crate::exact;

impl Plan {
    /// The plan in full, after `--quick` was applied.
    pub fn to_json(&self) -> Value {
        let axes: Map<String, Value> =
            self.matrix.iter().map(|axis| (axis.name.clone(), values(axis))).collect();
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "repeats": self.repeats,
            "path": path(&self.path),
            "matrix": axes,
            "lun": self.far.luns.iter().map(Lun::words).collect::<Vec<_>>(),
            "target": target(&self.far.target),
            "load": self.loads.iter().map(load).collect::<Vec<_>>(),
            "needs": self.needs.iter().map(|need| (need.program.clone(), json!(need.package))).collect::<Map<_, _>>(),
            "background": self.backgrounds.iter().map(background).collect::<Vec<_>>(),
            "case": self.cases.iter().map(Case::to_json).collect::<Vec<_>>(),
            "record": self.recording.tables.iter().map(|table| table.name()).collect::<Vec<_>>(),
            "draw": self.recording.figures.as_ref().map(|drawn| drawn.iter().map(Drawing::words).collect::<Vec<_>>()),
            "expect": self.expects.iter().map(expect).collect::<Vec<_>>(),
        })
    }
}

fn values(axis: &Axis) -> Value {
    axis.values.iter().map(as_written).collect()
}

fn as_written(value: &Scalar) -> Value {
    match value {
        Scalar::Text(text) => json!(text),
        Scalar::Integer(number) => json!(number),
        Scalar::Float(number) => json!(number),
        Scalar::Bool(value) => json!(value),
    }
}

fn path(path: &Path) -> Value {
    let mut json = json!({
        "delay": both(path.delay, path.back.delay, exact::time),
        "rate": both(path.rate, path.back.rate, exact::rate),
        "mtu": path.mtu_bytes,
    });
    if (path.queue, path.back.queue) != (Queue::Default, None) {
        json["queue"] = both(path.queue, path.back.queue, queue);
    }
    if path.segment {
        json["segment"] = json!(true);
    }
    if let Some(found) = &path.found_rate {
        json["rate"] = json!(found.to_string());
    }
    if let Some(bytes) = path.bdp_max_bytes {
        json["bdp_max"] = json!(bytes);
    }
    for (key, on) in [("ipv6", path.ipv6), ("segment", path.segment)] {
        if on {
            json[key] = json!(true);
        }
    }
    for (flag, value) in &path.faults {
        // One that has no value is there or not.
        json[flag.replace('-', "_")] = if value.is_empty() { json!(true) } else { json!(value) };
    }
    json
}

/// A value for both directions, or one for each.
fn both<T>(near: T, far: Option<T>, shown: impl Fn(T) -> String) -> Value {
    match far {
        None => json!(shown(near)),
        Some(far) => json!(format!("near:{},far:{}", shown(near), shown(far))),
    }
}

fn queue(queue: Queue) -> String {
    match queue {
        Queue::Default => "usual".to_owned(),
        Queue::Bdp(factor) => format!("{factor}bdp"),
        Queue::Bytes(bytes) => bytes.to_string(),
        Queue::Packets(packets) => format!("{packets} packets"),
    }
}

fn target(target: &Target) -> Value {
    let mut json = json!({});
    if let Some(window) = target.window {
        json["window"] = json!(window);
    }
    if let Some(digest) = target.digest {
        json["digest"] = json!(digest);
    }
    if target.compat != iscsi_target::Compat::default() {
        json["compat"] = json!(target.compat.to_string());
    }
    json
}

fn background(background: &Background) -> Value {
    let mut json = load(&background.load);
    let measured = json.as_object_mut().expect("a load is an object");
    measured
        .retain(|key, _| ["name", "kind"].contains(&&**key) || background.keys().any(|known| known == key));
    json["beside"] = json!(background.beside);
    json
}

fn load(load: &Load) -> Value {
    let mut json = json!({
        "name": load.name,
        "start": load.start.to_string(),
        "window": load.window.to_string(),
        "validity": load.validity.name(),
        "congestion": load.congestion,
        "pacing": pacing(load.pacing),
        "initiators": load.initiators,
        "kind": load.kind.name(),
    });
    if !load.path.is_empty() {
        json["path"] = load.path.iter().map(|(key, value)| (key.clone(), as_written(value))).collect();
    }
    if let Some(tables) = &load.record {
        json["record"] = tables.iter().map(|table| json!(table.name())).collect();
    }
    if let Some(server) = &load.server {
        json["server"] = json!(event::shown_words([server.text()]).concat());
    }
    if !load.needs.programs.is_empty() {
        let named = load.needs.programs.iter();
        json["needs"] = named.map(|need| (need.program.clone(), json!(need.package))).collect();
    }
    if load.needs.root {
        json["as_root"] = json!(true);
    }
    if load.for_throughput {
        json["purpose"] = json!("throughput");
    }
    match &load.kind {
        LoadKind::Stream { direction } => {
            json["direction"] = json!(direction.name());
        }
        LoadKind::Bench(bench) => {
            json["op"] = json!(bench.op.name());
            json["block"] = json!(exact::bytes(bench.block_bytes));
            json["random"] = json!(bench.random);
            json["lun"] = json!(bench.lun);
            json["sessions"] = json!(bench.sessions);
            json["connections"] = bench.connections.map_or_else(|| json!(AUTO), |count| json!(count));
            json["policy"] = json!(bench.policy.name());
            json["targets"] = json!(bench.targets);
            if let Some(depth) = bench.depth {
                json["depth"] = json!(depth);
            }
            if let Some(limit) = bench.queue_limit {
                json["queue_limit"] = json!(limit);
            }
            let bursts = bench.bursts;
            for (key, bytes) in [("first_burst", bursts.first_bytes), ("max_burst", bursts.max_bytes)] {
                if let Some(bytes) = bytes {
                    json[key] = json!(exact::bytes(bytes));
                }
            }
            if let Some(r2ts) = bursts.r2ts {
                json["r2ts"] = json!(r2ts);
            }
            if bursts.initial_r2t {
                json["initial_r2t"] = json!(true);
            }
            if let Some(time) = bench.warmup {
                json["warmup"] = json!(time.to_string());
            }
            if let Some(time) = bench.warm_bulk {
                json["warm_bulk"] = json!(time.to_string());
            }
        }
        LoadKind::Command(command) => {
            json["command"] = json!(event::shown_words([command.line.text()]).concat());
            json["op"] = json!(command.op.name());
            json["lun"] = json!(command.lun);
        }
    }
    json
}

fn pacing(pacing: Pacing) -> Value {
    match pacing {
        Pacing::Follow => json!(true),
        Pacing::AtMost(rate) => json!(exact::rate(rate)),
        Pacing::Off => json!(false),
    }
}

fn expect(expect: &Expect) -> Value {
    let only: Map<String, Value> =
        expect.only.0.iter().map(|(axis, values)| (axis.clone(), json!(values))).collect();
    let mut json = json!({
        "name": expect.name,
        "value": expect.value.to_string(),
        "op": expect.op.symbol(),
        "bound": expect.bound,
        "unit": expect.unit.name,
        "where": only,
        "each": expect.each,
    });
    if let Some((shape, along)) = &expect.shape {
        json["shape"] = json!(shape.name());
        json["along"] = json!(along);
    }
    if let Some(interval) = expect.interval {
        json["interval"] = json!(interval.name());
    }
    json
}
