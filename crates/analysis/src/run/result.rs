//! A whole run as one plain result: every figure of every cell and repeat.

use std::collections::BTreeMap;

use diagnosis::{Diagnosis, judge};
use event::{Host, Op, Packet};
use serde::Serialize;
use tables::manifest::{self, Cell, Load, Wan};
use tables::{CellDir, RunDir, RunError};
use tables::{Ios, TableError};

use super::cell::{CellResult, Repeat};
use super::error::TourError;
use super::order::{in_order, place};
use super::summary::RunSummary;
use super::timeline::{self, SampleBudget};
use crate::Span;
use crate::compare;
use crate::diagram::Hosts;
use crate::doctor::{Question, steps, survey};
use crate::gaps::{self, Cause, Kind, Tap};
use crate::load::arrivals::{self, Arrivals};
use crate::load::latency;
use crate::load::ramp::ramp_s;
use crate::load::turnaround;
use crate::load::{initiators, steadiness};
use crate::metrics::{Metrics, Spread, put, spreads};
use crate::path::{accounting, lateness, line};
use crate::tcp::cuts::Cuts;
use crate::tcp::sockets;
use crate::tcp::{losses, states, windows};

/// Steps of the rate over time are at least this long.
const LEAST_STEP_S: f64 = 0.1;

/// A whole run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Tour {
    /// Plan, machine and cells of the run.
    pub run: manifest::Run,
    /// Summary.
    pub gist: RunSummary,
    /// Cells in the order of the plan, repeats together.
    pub cells: Vec<CellResult>,
}

impl Tour {
    /// Reads a run directory and asks everything. Cells without tables or documents have fewer figures;
    /// a table that cannot be read is an error.
    pub fn collect(dir: &RunDir) -> Result<Tour, TourError> {
        Tour::collect_with(dir, None)
    }

    /// Like [`Tour::collect`], and shows the request of a CmdSN in any case where a cell has it.
    pub fn collect_with(dir: &RunDir, request: Option<u32>) -> Result<Tour, TourError> {
        let run = dir.manifest()?;
        let mut cells: Vec<CellResult> = Vec::new();
        let entries = in_order(&run.cells);
        let mut slugs: BTreeMap<&str, bool> = BTreeMap::new();
        for entry in &entries {
            let has_packets = !tables::files::<Packet>(dir.cell(&entry.dir)?.path)?.is_empty();
            *slugs.entry(&entry.slug).or_default() |= has_packets;
        }
        let budget = SampleBudget::for_each_cell(
            slugs.len(),
            slugs.values().filter(|has_packets| **has_packets).count(),
        );
        for entry in entries {
            let cell = dir.cell(&entry.dir)?;
            let (load, point) = place(entry);
            let place = cells.iter().position(|c| c.slug == entry.slug && c.load == load && c.point == point);
            let place = place.unwrap_or_else(|| {
                cells.push(CellResult { slug: entry.slug.clone(), load, point, ..CellResult::default() });
                cells.len() - 1
            });
            add_repeat(&mut cells[place], &cell, &entry.dir, budget, request)?;
        }
        let dirs = run.cells.iter().map(|entry| Ok((entry.dir.as_str(), dir.cell(&entry.dir)?)));
        let dirs: Vec<(&str, CellDir)> = dirs.collect::<Result<_, RunError>>()?;
        let stepped = steps::of_cells(dirs.iter().map(|(dir, cell)| (*dir, cell)))?;
        for cell in &mut cells {
            cell.values = spreads(cell.repeats.iter().filter(|r| r.valid).map(|r| &r.values));
        }
        for cell in &mut cells {
            cell.steps(&stepped);
        }
        let gist = RunSummary::of(&run, &cells);
        Ok(Tour { run, gist, cells })
    }

    /// The figures by name, for a plan's expectations.
    pub fn metrics(&self) -> Metrics<'_> {
        Metrics { cells: &self.cells }
    }

    /// The same run with its checks evaluated.
    pub fn with_checks(mut self, checks: Vec<manifest::Check>) -> Tour {
        self.run.checks = checks;
        self.gist = RunSummary::of(&self.run, &self.cells);
        self
    }
}

fn add_repeat(
    result: &mut CellResult,
    dir: &CellDir,
    name: &str,
    budget: SampleBudget,
    request: Option<u32>,
) -> Result<(), TourError> {
    let cell = &dir.cell;
    let mut repeat = Repeat {
        repeat: cell.repeat,
        dir: name.to_owned(),
        command: cell.command.clone(),
        valid: cell.valid,
        reasons: cell.reasons.clone(),
        unvalidated: cell.unvalidated,
        ..Repeat::default()
    };
    let (wan, load, others) = (cell.wan(), cell.load(), cell.other_loads());
    let errors =
        [("wan", wan.as_ref().err()), ("load", load.as_ref().err()), ("load", others.as_ref().err())];
    for (document, error) in errors {
        if let Some(error) = error {
            // Without its documents a cell has no window and no path, and so no figure.
            repeat.valid = false;
            repeat
                .reasons
                .push(format!("the {document}'s document in cell.json is not as expected: {error}"));
        }
    }
    let (wan, load) = (wan.ok().flatten(), load.ok().flatten());
    if let Some(wan) = &wan {
        result.path = Some(wan.path);
        result.line = line_values(&wan.path);
        let late = lateness_of(wan, dir)?;
        put(&mut repeat.values, "lateness_p50", Some(late.p50_s));
        put(&mut repeat.values, "lateness_p99", Some(late.p99_s));
        put(&mut repeat.values, "lateness_max", Some(late.max_s));
        put(&mut repeat.values, "dropped_queue_full", Some(late.dropped_queue_full as f64));
    }
    if let Some(load) = load {
        result.op.clone_from(&load.op);
        let follows = load.kind != "command" && load.depth.is_none() && !load.random;
        result.compared = cell.for_throughput;
        result.bulk = load.kind == "stream" || follows || cell.for_throughput;
        (result.block_bytes, result.depth) = (load.block_bytes, load.depth);
        let all = initiators::gather(dir, load, &others.unwrap_or_default())?;
        let (path, emulator) = wan.map(|wan| (wan.path, wan.emulator)).unwrap_or_default();
        let arrivals = Arrivals::of(&all.load, all.sockets.as_ref(), all.io.as_ref());
        let arrivals = match arrivals {
            // Of two ends that are not ours the path alone knows the arrivals.
            None if all.load.kind == "command" => Arrivals::handed_over(&dir.path, &all.load)?,
            arrivals => arrivals,
        };
        let tables = (arrivals.as_ref(), all.sockets.as_ref(), all.io.as_ref());
        measure(&mut repeat, cell, &all.load, &path, tables);
        path_values(&mut repeat.values, dir, whole(&all.load), emulator)?;
        let got = || all.throughputs.iter().copied();
        put(&mut repeat.values, "throughput_min", got().reduce(f64::min));
        put(&mut repeat.values, "throughput_max", got().reduce(f64::max));
        put(&mut repeat.values, "fairness", initiators::fairness(&all.throughputs));
        repeat.initiators.clone_from(&all.throughputs);
        let drawn = repeat.valid && result.repeats.iter().all(|earlier| !earlier.valid);
        if drawn {
            repeat.diagnosis = diagnose(dir)?;
            let judged = repeat.diagnosis.as_ref().and_then(|diagnosis| diagnosis.first());
            let judged = judged.map(|verdict| verdict.limiter.name().to_owned());
            result.limit = all.load.limit.clone().or(judged);
        }
        let whole = Span { start_ns: all.load.t_start_ns, end_ns: all.load.t_end_ns };
        let hosts = Hosts { near: cell.initiators, far: cell.targets };
        let states = states::of(&dir.path, hosts, whole)?;
        put(&mut repeat.values, "cwr", states.map(|states| states.cwr as f64));
        put(&mut repeat.values, "recoveries", states.map(|states| states.recoveries as f64));
        let budget = drawn.then_some(budget);
        timeline::add(&mut repeat, dir, &all.load, budget, request)?;
        if result.bulk {
            let window = arrivals::window(cell, &all.load);
            let points = budget.map_or(0, SampleBudget::gaps);
            let drawing = gaps::Drawing { origin_ns: all.load.t_start_ns, points };
            repeat.gaps = gaps::collect(&dir.path, hosts, window, drawing)?;
            gap_values(&mut repeat);
        }
    }
    result.repeats.push(repeat);
    Ok(())
}

/// Limiters of a load of requests.
fn diagnose(dir: &CellDir) -> Result<Option<Diagnosis>, TableError> {
    let facts = survey(&dir.path, Question::of(&dir.cell))?;
    Ok(facts.map(|facts| judge(&facts)))
}

fn measure(
    repeat: &mut Repeat,
    cell: &Cell,
    load: &Load,
    path: &manifest::Path,
    (arrivals, sockets, io): (Option<&Arrivals>, Option<&tables::Sockets>, Option<&Ios>),
) {
    let values = &mut repeat.values;
    let whole = whole(load);
    let window = arrivals::window(cell, load);
    let goodput = line::goodput_bits_per_s(path);
    repeat.window_s = Some((Span { end_ns: window.start_ns, ..whole }.length_s(), window.length_s()));
    if let Some(arrivals) = arrivals {
        let figure = arrivals.over(window).map(|t| t.bits_per_s);
        put(values, "throughput", figure);
        put(values, "variation", steadiness::variation(arrivals, window));
        put(values, "share_of_line", figure.zip(goodput).map(|(t, g)| t / g));
        put(values, "ramp", goodput.and_then(|g| ramp_s(arrivals, whole, line::rtt(path), g)));
        let step_s = LEAST_STEP_S.max(line::rtt(path).as_secs_f64());
        repeat.rate = arrivals.series(whole.start_ns, whole.end_ns, step_s);
        repeat.source = Some(arrivals.source());
    }
    put(values, "connections", load.connections.map(|connections| connections as f64));
    if let Some(table) = sockets {
        repeat.connections = sockets::connections(table, whole, load.block_bytes);
        let sender = windows::sender(load);
        // The receiver knows neither retransmissions nor window cuts.
        let is_told = sender.is_some_and(|sender| table.host.contains(&sender));
        let told = |count: u64| is_told.then_some(count as f64);
        let retransmitted: u64 = repeat.connections.iter().map(|c| c.retransmitted_packets).sum();
        put(values, "retransmitted", told(retransmitted));
        // Numbers of connections are those of a process.
        let is_one = cell.initiators <= 1 && cell.targets <= 1;
        let losses = sender.filter(|_| is_told && is_one);
        let losses = losses.map(|sender| losses::losses(table, sender, window));
        put(values, "retransmitted_share", losses.and_then(|losses| losses.retransmitted_share));
        put(values, "congestion_changes", losses.map(|losses| losses.congestion_changes as f64));
        let windows = sender.and_then(|sender| windows::windows(table, sender, window));
        put(values, "window_sender", windows.map(|windows| windows.sender_bytes));
        put(values, "window_receiver", windows.and_then(|windows| windows.receiver_bytes));
        let local_cuts: u64 = repeat.connections.iter().map(|c| c.cuts.local).sum();
        put(values, "local_cuts", told(local_cuts));
        let by_path = |cuts: &Cuts| cuts.mark + cuts.loss + cuts.timeout;
        let other_cuts: u64 = repeat.connections.iter().map(|c| by_path(&c.cuts)).sum();
        put(values, "other_cuts", told(other_cuts));
    }
    let op = if load.op == Op::Write.name() { Op::Write } else { Op::Read };
    let base_rtt_s = turnaround::base_rtt_s(load, sockets, path);
    put(values, "base_rtt", base_rtt_s);
    put(values, "calls_per_s", io.and_then(|io| latency::calls_per_s(io, op, window)));
    if let Some(latency) = io.and_then(|io| latency::of(io, op, window)) {
        put(values, "iops", (window.length_s() > 0.0).then(|| latency.count as f64 / window.length_s()));
        put(values, "latency_min", Some(latency.min_s));
        put(values, "latency_mean", Some(latency.mean_s));
        put(values, "latency_p50", Some(latency.p50_s));
        put(values, "latency_p90", Some(latency.p90_s));
        put(values, "latency_p99", Some(latency.p99_s));
        put(values, "latency_p999", Some(latency.p999_s));
        put(values, "latency_max", Some(latency.max_s));
        repeat.latency = Some(latency);
        repeat.latency_stretches =
            io.map_or_else(Vec::new, |io| latency::stretches(io, op, window, compare::STRETCHES));
        let turnaround = base_rtt_s.and_then(|rtt| turnaround::of(&latency, load.block_bytes, rtt, path));
        if let Some(turnaround) = turnaround {
            put(values, "turnaround", Some(turnaround.round_trips));
            put(values, "excess_over_rtt", Some(turnaround.excess_s));
            put(values, "serialisation", turnaround.serialisation_s);
            put(values, "excess_over_rtt_in_serialisations", turnaround.excess_in_serialisations);
        }
        repeat.turnaround = turnaround;
    }
    if let Some(cpu) = load.cpu {
        put(values, "cpu_near_per_io", cpu.near_ns_per_io.map(|ns| ns / 1e9));
        put(values, "cpu_far_per_io", cpu.far_ns_per_io.map(|ns| ns / 1e9));
        let sender = windows::sender(load);
        for (host, ns) in [(Host::Near, cpu.near_ns), (Host::Far, cpu.far_ns)] {
            let name = if sender == Some(host) { "cpu_sender" } else { "cpu_receiver" };
            put(values, name, ns.filter(|_| sender.is_some()).map(|ns| ns / 1e9 / whole.length_s()));
        }
    }
}

/// The time that a load took.
fn whole(load: &Load) -> Span {
    Span { start_ns: load.t_start_ns, end_ns: load.t_end_ns }
}

/// Figures of the path itself during a load.
fn path_values(
    values: &mut BTreeMap<&'static str, f64>,
    dir: &CellDir,
    load: Span,
    emulator: manifest::Emulator,
) -> Result<(), TableError> {
    let busy_ns = Some(emulator.cpu_ns.saturating_sub(emulator.spin_ns)).filter(|ns| *ns > 0);
    put(values, "cpu_path", busy_ns.map(|ns| ns as f64 / 1e9 / load.length_s()));
    let unaccounted = accounting::unaccounted(&dir.path, load)?;
    put(values, "unaccounted", unaccounted.map(|packets| packets as f64));
    Ok(())
}

fn gap_values(repeat: &mut Repeat) {
    let Some(gaps) = &repeat.gaps else { return };
    let causes = gaps.causes();
    let period = |wanted: Cause| causes.iter().find(|(cause, _)| *cause == wanted).map(|(_, s)| *s);
    for (name, cause) in [
        ("cause.serialisation", Cause::Serialisation),
        ("cause.tick", Cause::TimerTick),
        ("cause.coalescing", Cause::Coalescing),
        ("cause.merging", Cause::AckMerging),
        ("cause.emulator", Cause::Emulator),
    ] {
        put(&mut repeat.values, name, Some(f64::from(u8::from(period(cause).is_some()))));
    }
    put(&mut repeat.values, "merging_period", period(Cause::AckMerging));
    let acks = gaps.at(Kind::Acks, Tap::Due);
    let data = gaps.at(Kind::Data, Tap::Due);
    put(&mut repeat.values, "data_gap_p50", data.map(|data| data.p50_s));
    put(&mut repeat.values, "data_gap_p99", data.map(|data| data.p99_s));
    put(&mut repeat.values, "data_lattice", gaps.data_lattice);
    put(&mut repeat.values, "ack_gap_p50", acks.map(|acks| acks.p50_s));
    put(&mut repeat.values, "acks_together", acks.map(|acks| acks.zero_share));
    put(&mut repeat.values, "ack_compression", gaps.compression.map(|found| found.p90));
}

/// The emulator counts every packet itself; the table is the source for documents without that.
fn lateness_of(wan: &Wan, dir: &CellDir) -> Result<lateness::Lateness, TableError> {
    let said = &wan.validity;
    if said.packets == 0
        && let Some(packets) = tables::read_optional::<Packet>(&dir.path)?
    {
        return Ok(lateness::of(&packets));
    }
    Ok(lateness::Lateness {
        p50_s: said.lateness_ns.p50 / 1e9,
        p99_s: said.lateness_ns.p99 / 1e9,
        max_s: said.lateness_ns.max / 1e9,
        delivered: said.packets,
        dropped_queue_full: said.dropped_queue_full,
        dropped_unasked: said.dropped_unasked,
    })
}

fn line_values(path: &manifest::Path) -> BTreeMap<&'static str, Spread> {
    let mut values = BTreeMap::new();
    put(&mut values, "goodput", line::goodput_bits_per_s(path));
    put(&mut values, "rate", (path.rate_bits_per_s > 0).then_some(path.rate_bits_per_s as f64));
    let rtt_s = line::rtt(path).as_secs_f64();
    put(&mut values, "rtt", Some(rtt_s));
    put(&mut values, "bdp", Some(path.rate_bits_per_s as f64 * rtt_s / 8.0));
    spreads([values].iter())
}
