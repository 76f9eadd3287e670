//! Feasibility of cells: conflicts between keys that are valid by themselves.

use document::{Entry, Problems, Section, instead};
use event::Bytes;
use link::{FRAMING_BYTES, MEMORY_MAX_BYTES, Shape};

use super::expect::place;
use super::section::sections;
use crate::exact;
use crate::plan::cell::Cell;
use crate::plan::checks::{Dimension, MetricName};
use crate::plan::definition::Plan;
use crate::plan::keys::found_rate::{FIGURE, FoundRate};
use crate::plan::keys::load::{Load, LoadKind, MOST_HOSTS};
use crate::plan::keys::path::{Path, Queue};

/// Reports every infeasible cell, at the line of the axis or the load.
pub(super) fn check(top: &Section<'_>, plan: &Plan, problems: &mut Problems<'_>) {
    if !problems.is_empty() {
        return;
    }
    let loads = sections(top, "load", "[[load]]", problems);
    let axes: Vec<(String, Entry<'_>)> = top
        .entry("matrix")
        .and_then(|entry| entry.section("[matrix]", problems))
        .map(|matrix| matrix.flat_entries())
        .unwrap_or_default();
    let cells = plan.cells();
    let mut paths = Vec::new();
    for cell in &cells {
        let too_large = too_large(&cell.path).filter(|(_, text)| !paths.contains(text));
        paths.extend(too_large.iter().map(|(_, text)| text.clone()));
        let found = no_rate(cell, plan, &cells).or(too_large).or_else(|| impossible(cell, plan));
        let Some((keys, text)) = found else { continue };
        let axis = axes.iter().find(|(name, _)| {
            cell.point.value(name).is_some()
                && keys.iter().any(|key| name == key || name.ends_with(&format!(".{key}")))
        });
        let load = loads.iter().find(|section| {
            section.entry("name").is_some_and(|name| name.label() == Some(cell.load.name.clone()))
        });
        let entry = load.and_then(|load| keys.iter().find_map(|key| load.entry(key)));
        let of_path = top.entry("path").and_then(|entry| entry.section("[path]", problems));
        let of_path = of_path.as_ref().and_then(|path| keys.iter().find_map(|key| path.entry(key)));
        let span = match (axis, entry.or(of_path), load) {
            (Some((_, entry)), _, _) => entry.span.clone(),
            (None, Some(entry), _) => entry.span,
            (None, None, Some(load)) => load.span.clone(),
            (None, None, None) => top.span.clone(),
        };
        problems.at(&span, text);
    }
}

/// Problem of a rate that depends on other loads, and the key that it is at.
fn no_rate(cell: &Cell, plan: &Plan, cells: &[Cell]) -> Option<(&'static [&'static str], String)> {
    let text = cell.path.found_rate.as_ref().and_then(|found| rate_problem(found, cell, plan, cells))?;
    let keys: &[&str] = if cell.load.has_own("rate") { &["path"] } else { &["rate"] };
    Some((keys, text))
}

/// Problem of such a rate in a cell of the plan.
fn rate_problem(found: &FoundRate, cell: &Cell, plan: &Plan, cells: &[Cell]) -> Option<String> {
    let metrics = found.expression().metrics();
    metrics.iter().find_map(|name| followed(name, cell, plan, cells).err()).or_else(|| {
        match found.expression().dimension(|_| Dimension::RATE) {
            Ok(Dimension::RATE) => None,
            Ok(other) => Some(format!("'{found}' is {other}, and no rate")),
            Err(text) => Some(text),
        }
    })
}

/// Checks that a figure belongs to a single cell, with a rate of its own.
fn followed(name: &MetricName, cell: &Cell, plan: &Plan, cells: &[Cell]) -> Result<(), String> {
    let load = &name.owner;
    if !plan.loads.iter().any(|known| known.name == *load) {
        let hint = instead(load, plan.loads.iter().map(|load| load.name.as_str()));
        return Err(format!("no load is named '{load}'{hint}"));
    }
    for (axis, value) in &name.at {
        place(plan, axis, value)?;
    }
    let place = cell.point.moved(&name.at);
    let mut there = cells.iter().filter(|other| other.load.name == *load && other.point.agrees(&place));
    match (there.next(), there.next()) {
        (Some(other), None) if other.path.found_rate.is_none() => Ok(()),
        (Some(_), None) => Err(format!(
            "the rate follows '{load}', whose own rate would have to be found: give that load a rate, such as \
             path = {{ rate = \"10gbit\" }}"
        )),
        _ => Err(format!(
            "'{name}' is that of several places of the matrix; say which, such as {load}.{FIGURE}[axis=value]"
        )),
    }
}

/// Problem of a path that needs too much memory, equal for all its cells, and the keys that could be changed.
fn too_large(path: &Path) -> Option<(&'static [&'static str], String)> {
    let mut sides = [true, false].into_iter().zip(path.lines());
    let (near, line) = sides.find(|(_, line)| line.memory_bytes() > MEMORY_MAX_BYTES)?;
    let Shape { delay, rate, queue_bytes } = line.shape;
    let text = format!(
        "{} one way at {rate} needs up to {} of memory for the packets of a direction (rate x delay, and a queue of {}), at \
         most {} are reserved",
        exact::time(delay),
        Bytes(line.memory_bytes()),
        Bytes(queue_bytes),
        Bytes(MEMORY_MAX_BYTES)
    );
    let is_sized = matches!(path.queue_of(near), Queue::Bytes(_) | Queue::Packets(_));
    let keys: &[&str] = match is_sized && queue_bytes > rate.bytes_in(line.longest()) {
        true => &["queue", "path"],
        false => &["delay", "rate", "queue", "jitter", "reorder_hold", "path"],
    };
    Some((keys, text))
}

/// Problem of the near hosts' own lines.
fn lines_of_their_own(cell: &Cell, near_hosts: u32) -> Option<String> {
    let [line, back] = cell.path.lines();
    let queue_bytes = line.least_queue_bytes().min(back.least_queue_bytes());
    let packet_bytes = u64::from(cell.path.mtu_bytes + FRAMING_BYTES);
    let has_packets = line.queue_packets.is_some() || back.queue_packets.is_some();
    let (rates, rate) = (&line.own.rates, line.shape.rate.min(back.shape.rate));
    let together = line.own.together();
    match rates.len() {
        0 => None,
        rates if rates as u32 != near_hosts => Some(format!(
            "near_rates gives {rates}, expected one for each near host, {near_hosts} in all, those of competing traffic included"
        )),
        // A rate that depends on other loads is checked later.
        _ if queue_bytes < packet_bytes && !has_packets && cell.path.found_rate.is_none() => Some(format!(
            "the queue of the slowest of near_rates, whose part of queue is as its part of rate, is {queue_bytes} bytes, expected \
             {packet_bytes} for a packet at least; give a larger queue"
        )),
        _ if together > rate && cell.path.found_rate.is_none() => Some(format!(
            "near_rates come to {together}, expected no more than the rate of {rate} in all; give a larger rate"
        )),
        _ if cell.path.faults.contains_key("ring") => Some(
            "a ring empties at the rate of one line, and near_rates make several; leave one of the two out"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Problem of a policer that no full packet passes.
fn policed_packets(path: &Path) -> Option<String> {
    let packet_bytes = u64::from(path.mtu_bytes + FRAMING_BYTES);
    let contracts = path.lines().into_iter().filter_map(|line| line.police);
    let burst_bytes =
        contracts.map(|contract| contract.burst_bytes).min().filter(|burst| *burst < packet_bytes)?;
    Some(format!(
        "police has a burst of {burst_bytes} bytes, expected {packet_bytes} for a packet at least; give a larger burst or a \
         smaller mtu"
    ))
}

/// Problem of a cell, and the keys that could be changed.
fn impossible(cell: &Cell, plan: &Plan) -> Option<(&'static [&'static str], String)> {
    let all = || std::iter::once(&cell.load).chain(cell.backgrounds.iter().map(|b| &b.load));
    let near: u32 = all().map(|load| load.initiators).sum();
    let far: u32 = all().map(Load::far_hosts).sum();
    if near > MOST_HOSTS || far > MOST_HOSTS {
        let text = format!(
            "{} needs {near} near and {far} far hosts, competing traffic included; a path has at most {MOST_HOSTS} of each",
            cell.words()
        );
        return Some((&["initiators", "targets"], text));
    }
    if let Some(text) = policed_packets(&cell.path) {
        return Some((&["police", "mtu", "path"], text));
    }
    if let Some(text) = lines_of_their_own(cell, near) {
        return Some((&["near_rates", "initiators", "ring", "rate", "queue", "path"], text));
    }
    all().find_map(|load| {
        let (number, block_bytes) = match &load.kind {
            // The LUNs of foreign servers are unknown here.
            _ if !load.has_our_target() => return None,
            LoadKind::Stream { .. } => return None,
            LoadKind::Bench(bench) => (bench.lun, bench.block_bytes),
            LoadKind::Command(command) => (command.lun, 0),
        };
        let count = plan.far.luns.len();
        let Some(lun) = plan.far.luns.get(number as usize) else {
            let text = format!("load '{}' needs lun {number}, and the plan has {count} [[lun]]", load.name);
            return Some((&["lun"][..], text));
        };
        let len = lun.len_bytes().filter(|len| block_bytes > *len)?;
        let text = format!("a block of {block_bytes} does not fit lun {number} of {len}");
        Some((&["block"][..], text))
    })
}
