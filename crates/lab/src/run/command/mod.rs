//! The command line of a cell: one `farlun wan` that a user can copy and run alone.
//!
//! Composes; runs nothing.

mod load_words;
mod placeholders;
mod words;

use std::path::Path;
use std::time::Duration;

use event::Direction;

use self::load_words::{bench_words, policy_words};
use self::placeholders::{IQN, ISCSI_PORT, Placeholders};
use self::words::Words;
use super::directory::stores;
use super::schedule::expected_time;
use crate::exact;
use crate::plan::{Cell, DEFAULT_CONGESTION, Load, LoadKind, Lun, Pacing, Queue, Table};

pub use words::quoted;

/// The program's name in a command line that is shown; the path it really has, in one that is run.
const SHOWN_PROGRAM: &str = "farlun";
const STREAM_PORT: u16 = 5201;
/// Time for which competing traffic runs beyond the load; it is ended with the load.
const BACKGROUND_BEYOND_S: u64 = 60;

/// Input of a cell's command line.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) luns: &'a [Lun],
    pub(crate) record: &'a [Table],
    /// Seed of all random decisions.
    pub(crate) seed: u64,
    /// Directory of the run.
    pub(crate) run_dir: &'a Path,
    /// Directory of the tables.
    pub(crate) trace_dir: &'a Path,
}

/// One load with the first of its hosts, counted from 1 at each end.
struct Roles<'a> {
    load: &'a Load,
    near: u32,
    far: u32,
}

impl Parts<'_> {
    /// The words of a cell's command line, run by `program` at all hosts.
    pub(in crate::run) fn words(self, program: &str) -> Vec<String> {
        let path = &self.cell.path;
        let mut words = Words::new(program);
        words.push(["wan", "--json"]);
        let (packets, kernel) = (self.records(Table::Packets), self.records(Table::Kernel));
        if packets || kernel {
            words.push(["--trace", &self.trace("near")]);
        }
        if kernel {
            words.push(["--trace-kernel"]);
        }
        let [delay, rate, queue] = [
            both(path, |_, shape| exact::time(shape.delay)),
            both(path, |_, shape| exact::rate(shape.rate)),
            // A bare number means packets.
            both(path, |queue, shape| match queue {
                Queue::Packets(packets) => packets.to_string(),
                _ => format!("{}B", shape.queue_bytes),
            }),
        ];
        words.push(["--delay", &delay, "--rate", &rate, "--queue", &queue]);
        words.push(["--mtu", &path.mtu_bytes.to_string(), "--validity", self.cell.load.validity.name()]);
        for (flag, on) in [("--ipv6", path.ipv6), ("--segment", path.segment)] {
            if on {
                words.push([flag]);
            }
        }
        for (flag, value) in &path.faults {
            match value.is_empty() {
                // A flag about jitter is left out without jitter.
                true if !path.faults.contains_key("jitter") => {}
                true => words.push([&format!("--{flag}")]),
                false => words.push([&format!("--{flag}"), value]),
            }
        }
        words.push(["--seed", &self.seed.to_string()]);
        let roles = self.roles();
        for role in &roles {
            for n in role.far..role.far + role.load.far_hosts() {
                words.push(["--far", &self.far(program, role.load, n)]);
            }
        }
        let mut others = roles.iter().flat_map(|role| (0..role.load.initiators).map(move |n| (role, n)));
        let first = others.next().expect("a load has an initiator");
        for (role, n) in others {
            words.push(["--near", &quoted(&self.near(program, role, n))]);
        }
        words.push(["--"]);
        words.0.extend(self.near(program, first.0, first.1));
        words.0
    }

    /// True if the load records such a table, or the plan for a load without a choice.
    fn records(&self, table: Table) -> bool {
        self.cell.load.record.as_deref().unwrap_or(self.record).contains(&table)
    }

    /// The command line as it is shown: without secrets, quoted so that a shell takes it.
    pub(in crate::run) fn shown(self) -> String {
        quoted(&event::shown_words(self.words(SHOWN_PROGRAM)))
    }

    /// The measured load and its competing traffic, each with hosts of its own.
    fn roles(&self) -> Vec<Roles<'_>> {
        let competing = self.cell.backgrounds.iter().map(|background| &background.load);
        let (mut near, mut far) = (1, 1);
        let all = std::iter::once(&self.cell.load).chain(competing);
        all.map(|load| {
            let role = Roles { load, near, far };
            (near, far) = (near + load.initiators, far + load.far_hosts());
            role
        })
        .collect()
    }

    /// Directory for a host's tables: the cell's own for the first host at each end, one below it for others.
    fn trace(&self, host: &str) -> String {
        match host {
            "near" | "far" => self.trace_dir.display().to_string(),
            other => self.trace_dir.join(other).display().to_string(),
        }
    }

    /// The command of the n-th far host, for a shell.
    fn far(&self, program: &str, load: &Load, n: u32) -> String {
        if let Some(server) = &load.server {
            let values = Placeholders {
                far: self.far_address(n),
                dir: self.trace(&host_name("far", n)),
                lun: 0,
                time: Duration::ZERO,
                before: Duration::ZERO,
                program: program.to_owned(),
                number: n,
            };
            return server.filled(|place| values.value(place));
        }
        let mut words = Words::new(program);
        match load.kind {
            LoadKind::Stream { .. } => {
                let listen = format!("{}:{STREAM_PORT}", self.far_address(n));
                words.push(["stream", "serve", "--json", "--listen", &listen]);
            }
            LoadKind::Bench(_) | LoadKind::Command(_) => {
                words.push(["target", "--json"]);
                for (number, lun) in self.luns.iter().enumerate() {
                    words.push(["--lun", &lun.argument(self.seed, &stores::path(self.run_dir, number))]);
                }
                let listen = format!("{}:{ISCSI_PORT}", self.far_address(n));
                words.push(["--listen", &listen, "--insecure", "--iqn", IQN]);
                if let Some(window) = self.cell.target.window {
                    words.push(["--window", &window.to_string()]);
                }
                if let Some(digest) = self.cell.target.digest {
                    words.push(["--digest", digest]);
                }
                let compat = self.cell.target.compat.to_string();
                if !compat.is_empty() {
                    words.push(["--compat", &compat]);
                }
                if let LoadKind::Bench(bench) = &load.kind {
                    policy_words(&mut words, bench);
                }
            }
        }
        let sends = !matches!(load.kind, LoadKind::Stream { direction: Direction::NearToFar });
        self.sockets(&mut words, load, &host_name("far", n), sends);
        quoted(&words.0)
    }

    /// The command of the n-th initiator of a load, from 0.
    fn near(&self, program: &str, role: &Roles<'_>, n: u32) -> Vec<String> {
        let (load, rtt) = (role.load, self.cell.path.rtt());
        let far = self.far_address(role.far + n % load.far_hosts());
        let is_measured = std::ptr::eq(load, &raw const self.cell.load);
        let time = match is_measured {
            true => load.time_on(&self.cell.path),
            false => Duration::from_secs(expected_time(self.cell).as_secs() + BACKGROUND_BEYOND_S),
        };
        let host = host_name("near", role.near + n);
        let mut words = Words::new(program);
        match &load.kind {
            LoadKind::Command(command) => {
                let values = Placeholders {
                    far,
                    dir: self.trace(&host),
                    lun: command.lun,
                    time,
                    before: command.before.on(rtt),
                    program: program.to_owned(),
                    number: n + 1,
                };
                let line = command.line.filled(|place| values.value(place));
                return ["sh", "-c", &line].map(str::to_owned).to_vec();
            }
            LoadKind::Stream { direction } => {
                let far = format!("{far}:{STREAM_PORT}");
                words.push(["stream", &far, "--json", "--time", &exact::time(time)]);
                if *direction == Direction::FarToNear {
                    words.push(["--reverse"]);
                }
            }
            LoadKind::Bench(bench) => {
                let url = format!("iscsi://{far}:{ISCSI_PORT}/{IQN}/{}", bench.lun);
                words.push(["bench", &url, "--json"]);
                bench_words(&mut words, bench);
                words.push(["--time", &exact::time(time)]);
                if is_measured {
                    let warmup = bench.warmup.unwrap_or(load.start).on(rtt);
                    words.push(["--warmup", &exact::time(warmup)]);
                }
                if let Some(bulk) = bench.warm_bulk {
                    words.push(["--warm-bulk", &exact::time(bulk.on(rtt))]);
                }
                // Each initiator has chances of its own.
                words.push(["--seed", &(self.seed + u64::from(role.near + n) - 1).to_string()]);
            }
        }
        let sends = !matches!(load.kind, LoadKind::Stream { direction: Direction::FarToNear });
        self.sockets(&mut words, load, &host, sends);
        words.0
    }

    /// A far host's address, as it stands before a port; hosts of an end are counted from 1.
    fn far_address(&self, n: u32) -> String {
        let last = if n == 1 { 2 } else { 100 + n };
        match self.cell.path.ipv6 {
            true => format!("[2001:2::{last}]"),
            false => format!("198.18.0.{last}"),
        }
    }

    /// Adds the options of sockets and tables; `sends` is true for an end that sends data of the load.
    fn sockets(&self, words: &mut Words, load: &Load, host: &str, sends: bool) {
        if load.congestion != DEFAULT_CONGESTION {
            words.push(["--cc", &load.congestion]);
        }
        match load.pacing {
            Pacing::Follow => {}
            _ if !sends => {}
            Pacing::AtMost(rate) => words.push(["--pace", &exact::rate(rate)]),
            Pacing::Off => words.push(["--no-pacing"]),
        }
        words.push(["--trace", &self.trace(host)]);
        let has_pdus = !matches!(load.kind, LoadKind::Stream { .. });
        match [Table::AllPdus, Table::Pdus].map(|table| self.records(table)) {
            _ if !has_pdus => {}
            [true, _] => words.push(["--trace-pdus", "1"]),
            [false, true] => {}
            [false, false] => words.push(["--trace-pdus", "0"]),
        }
    }
}

/// Value for both directions of a path, or one for each.
fn both(path: &crate::plan::Path, said: impl Fn(Queue, link::Shape) -> String) -> String {
    let [near, far] = [true, false].map(|near| said(path.queue_of(near), path.shape(near)));
    if near == far { near } else { format!("near:{near},far:{far}") }
}

/// As `farlun wan` calls it: `near`, `near2`.
pub(in crate::run) fn host_name(end: &str, n: u32) -> String {
    match n {
        1 => end.to_owned(),
        n => format!("{end}{n}"),
    }
}

#[cfg(test)]
mod tests;
