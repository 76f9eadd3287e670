//! The command line of a cell: one `farlun wan` that a user can copy and run alone.
//!
//! Composes; runs nothing.

use std::path::Path;
use std::time::Duration;

use event::Direction;

use crate::exact;
use crate::plan::{Cell, DEFAULT_CONGESTION, Load, LoadKind, Lun, Pacing, Queue, Table};

use super::load_words::{bench_words, policy_words};
use super::places::Places;
use super::stores;
use super::words::{Words, quoted};

/// The program's name in a command line that is shown; the path it really has, in one that is run.
const SHOWN_PROGRAM: &str = "farlun";
pub(super) const ISCSI_PORT: u16 = 3260;
const STREAM_PORT: u16 = 5201;
pub(super) const IQN: &str = "iqn.2026-11.io.farlun:lab";
/// Competing traffic goes on for so long after the load should have ended; it is ended with the load.
const BACKGROUND_BEYOND_S: u64 = 60;

/// What a cell's command line is made of.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) luns: &'a [Lun],
    pub(crate) record: &'a [Table],
    /// Seed of what is left to chance.
    pub(crate) seed: u64,
    /// Where the run goes.
    pub(crate) run_dir: &'a Path,
    /// Where the tables go.
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
    pub(super) fn words(self, program: &str) -> Vec<String> {
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
                // It says of the jitter how that is, where there is any.
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

    /// Whether the load has such a table, or the plan where the load does not say.
    fn records(&self, table: Table) -> bool {
        self.cell.load.record.as_deref().unwrap_or(self.record).contains(&table)
    }

    /// The command line as it is shown: without secrets, quoted so that a shell takes it.
    pub(super) fn shown(self) -> String {
        quoted(&event::shown_words(self.words(SHOWN_PROGRAM)))
    }

    /// The load that is measured and what competes with it, each with hosts of its own.
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

    /// Where a host's tables go: those of the first at each end into the cell's directory, others below it.
    fn trace(&self, host: &str) -> String {
        match host {
            "near" | "far" => self.trace_dir.display().to_string(),
            other => self.trace_dir.join(other).display().to_string(),
        }
    }

    /// The command of the n-th far host, for a shell.
    fn far(&self, program: &str, load: &Load, n: u32) -> String {
        if let Some(server) = &load.server {
            let places = Places {
                far: self.far_address(n),
                dir: self.trace(&host_name("far", n)),
                lun: 0,
                time: Duration::ZERO,
                before: Duration::ZERO,
                program: program.to_owned(),
                number: n,
            };
            return server.filled(|place| places.value(place));
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
            false => Duration::from_secs(super::expected_time(self.cell).as_secs() + BACKGROUND_BEYOND_S),
        };
        let host = host_name("near", role.near + n);
        let mut words = Words::new(program);
        match &load.kind {
            LoadKind::Command(command) => {
                let places = Places {
                    far,
                    dir: self.trace(&host),
                    lun: command.lun,
                    time,
                    before: command.before.on(rtt),
                    program: program.to_owned(),
                    number: n + 1,
                };
                let line = command.line.filled(|place| places.value(place));
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

    /// `sends` says that data of the load goes out at this end.
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

/// What is said of both directions of a path, or of each.
fn both(path: &crate::plan::Path, said: impl Fn(Queue, link::Shape) -> String) -> String {
    let [near, far] = [true, false].map(|near| said(path.queue_of(near), path.shape(near)));
    if near == far { near } else { format!("near:{near},far:{far}") }
}

/// As `farlun wan` calls it: `near`, `near2`.
pub(super) fn host_name(end: &str, n: u32) -> String {
    match n {
        1 => end.to_owned(),
        n => format!("{end}{n}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::BitRate;

    use crate::plan::{Back, Plan, Source, Variant};
    use crate::run::words::quote;

    fn command_of(plan: &Plan, slug: &str) -> String {
        let cell = plan.cells().into_iter().find(|cell| cell.slug() == slug).unwrap();
        let (luns, record) = (&plan.luns, &plan.record);
        let (run_dir, trace_dir) = (Path::new("out"), Path::new("out/r1"));
        Parts { cell: &cell, luns, record, seed: 5, run_dir, trace_dir }.shown()
    }

    #[test]
    fn the_commands_of_the_tour() {
        let plan = Source::find("tour").unwrap().plan(Variant::Quick).unwrap();
        for (slug, command) in [
            (
                "stream-delay-0",
                "farlun wan --json --trace out/r1 --delay 0 --rate 1gbit --queue 1000000B --mtu 1500 \
                 --validity throughput --seed 5 --far 'farlun stream serve --json --listen 198.18.0.2:5201 --cc cubic --trace out/r1' -- farlun stream \
                 198.18.0.2:5201 --json --time 1.7s --reverse --cc cubic --trace out/r1",
            ),
            (
                "read-delay-8ms",
                "farlun wan --json --trace out/r1 --delay 8ms --rate 1gbit --queue 2000000B --mtu 1500 \
                 --validity throughput --seed 5 --far 'farlun target --json --lun memory:1GiB --listen 198.18.0.2:3260 --insecure --iqn \
                 iqn.2026-11.io.farlun:lab --cc cubic --trace out/r1' -- farlun bench \
                 iscsi://198.18.0.2:3260/iqn.2026-11.io.farlun:lab/0 --json --op read --block 1MiB --connections 1 \
                 --time 2.02s --warmup 820ms --seed 5 --cc cubic --trace out/r1",
            ),
            (
                "write1m-delay-50ms",
                "farlun wan --json --trace out/r1 --delay 50ms --rate 1gbit --queue 12500000B --mtu 1500 \
                 --validity latency --seed 5 --far 'farlun target --json --lun memory:1GiB --listen 198.18.0.2:3260 --insecure --iqn \
                 iqn.2026-11.io.farlun:lab --cc cubic --trace out/r1' -- farlun bench \
                 iscsi://198.18.0.2:3260/iqn.2026-11.io.farlun:lab/0 --json --op write --overwrite --block 1MiB --depth 1 \
                 --connections 1 --time 1.4s --warmup 200ms --warm-bulk 2.5s --seed 5 --cc cubic --trace out/r1",
            ),
        ] {
            assert_eq!(command_of(&plan, slug), command);
        }
    }

    const CROWD: &str = r#"
        name = "crowd"
        title = "two initiators, two targets, and a stream beside them"
        record = ["io"]
        [path]
        delay = "8ms"
        [target]
        window = 100
        digest = "crc32c"
        compat = "nagle, separate-status"
        [[lun]]
        kind = "memory"
        size = "1MiB"
        fault = "read:1%"
        [[load]]
        name = "read"
        kind = "bench"
        op = "read"
        block = "4KiB"
        queue_limit = 9
        sessions = 3
        initiators = 2
        targets = 2
        pacing = false
        window = "1s"
        [[background]]
        name = "noise"
        kind = "stream"
    "#;

    #[test]
    fn every_initiator_target_and_competitor_has_a_host() {
        let plan = Plan::parse(CROWD, Variant::Full).unwrap();
        let target = |n: &str, trace: &str| {
            format!(
                "--far 'farlun target --json --lun memory:1MiB,fault=read:1%,seed=5 --listen 198.18.0.{n}:3260 \
                 --insecure --iqn iqn.2026-11.io.farlun:lab --window 100 --digest crc32c --compat nagle,separate-status --cc cubic --no-pacing \
                 --trace {trace} --trace-pdus 0'"
            )
        };
        let bench = |n: &str, seed: u32, trace: &str| {
            format!(
                "farlun bench iscsi://198.18.0.{n}:3260/iqn.2026-11.io.farlun:lab/0 --json --op read --block 4KiB \
                 --queue-limit 9 --sessions 3 --connections 1 --time 1s --warmup 0 --seed {seed} --cc cubic --no-pacing --trace {trace} --trace-pdus 0"
            )
        };
        let expected = [
            "farlun wan --json --delay 8ms --rate 1gbit --queue 2000000B --mtu 1500 --validity throughput --seed 5",
            &target("2", "out/r1"),
            &target("102", "out/r1/far2"),
            "--far 'farlun stream serve --json --listen 198.18.0.103:5201 --cc cubic --trace out/r1/far3'",
            &format!("--near '{}'", bench("102", 6, "out/r1/near2")),
            "--near 'farlun stream 198.18.0.103:5201 --json --time 61s --cc cubic --trace out/r1/near3'",
            "--",
            &bench("2", 5, "out/r1"),
        ];
        assert_eq!(command_of(&plan, "read"), expected.join(" "));
        for (record, flag) in [("pdus", None), ("all-pdus", Some("--trace-pdus 1"))] {
            let text = CROWD.replace("\"io\"", &format!("\"{record}\""));
            let command = command_of(&Plan::parse(&text, Variant::Full).unwrap(), "read");
            // Two initiators and two targets.
            assert_eq!(
                command.matches(flag.unwrap_or("--trace-pdus")).count(),
                if flag.is_some() { 4 } else { 0 }
            );
        }
    }

    const FOREIGN: &str = r#"
        name = "foreign"
        title = "a program of others at one end each"
        [[lun]]
        kind = "memory"
        size = "1MiB"
        [[load]]
        name = "theirs"
        kind = "command"
        op = "read"
        command = "perf -t {seconds}+{before} {host}/{iqn}/{lun} >{dir}/out-{number}; {farlun} --version"
        initiators = 2
        before = "1500ms"
        start = "500ms"
        window = "1s"
        [[load]]
        name = "ours"
        kind = "bench"
        op = "read"
        block = 512
        lun = 7
        server = "serve {host}:{port}"
        window = "1s"
    "#;

    #[test]
    fn commands_of_others_are_filled_in() {
        let plan = Plan::parse(FOREIGN, Variant::Full).unwrap();
        let command = command_of(&plan, "theirs");
        assert!(command.contains(" --far 'farlun target --json --lun memory:1MiB "), "{command}");
        let perf = |dir: &str, n: u32| {
            format!("perf -t 2+2 198.18.0.2/iqn.2026-11.io.farlun:lab/0 >{dir}/out-{n}; farlun --version")
        };
        assert!(command.ends_with(&format!(" -- sh -c '{}'", perf("out/r1", 1))), "{command}");
        let second = quote(&format!("sh -c '{}'", perf("out/r1/near2", 2)));
        assert!(command.contains(&format!(" --near {second} ")), "{command}");
        let command = command_of(&plan, "ours");
        assert!(command.contains(" --far 'serve 198.18.0.2:3260' "), "{command}");
        assert!(
            command.contains(" -- farlun bench iscsi://198.18.0.2:3260/iqn.2026-11.io.farlun:lab/7 "),
            "{command}"
        );
    }

    #[test]
    fn faults_of_the_path_are_flags() {
        let mut plan = Source::find("tour").unwrap().plan(Variant::Quick).unwrap();
        plan.path.queue = Queue::Packets(256);
        plan.path.faults = [("loss", "0.01%".to_owned()), ("ring", "80".to_owned())].into();
        let command = command_of(&plan, "stream-delay-0");
        assert!(command.contains(" --queue 256 --mtu 1500 "), "{command}");
        assert!(command.contains(" --loss 0.01% --ring 80 --seed 5 --far "), "{command}");
        plan.path.back =
            Back { delay: None, rate: Some(BitRate(123_456_789)), queue: Some(Queue::Bytes(5_000)) };
        let command = command_of(&plan, "stream-delay-0");
        let said = " --delay 0 --rate near:1gbit,far:123456789bit --queue near:256,far:5000B --mtu ";
        assert!(command.contains(said), "{command}");
        plan.path.back = Back::default();
        plan.path.segment = true;
        plan.path.faults = [("jitter", "1ms".to_owned()), ("jitter-overtakes", String::new())].into();
        let command = command_of(&plan, "stream-delay-0");
        assert!(
            command.contains(" throughput --segment --jitter 1ms --jitter-overtakes --seed "),
            "{command}"
        );
        plan.path.faults.remove("jitter");
        assert!(
            !command_of(&plan, "stream-delay-0").contains("overtakes"),
            "there is nothing to overtake by"
        );
    }

    #[test]
    fn the_default_congestion_control_is_no_flag_of_the_commands() {
        let mut plan = Source::find("tour").unwrap().plan(Variant::Quick).unwrap();
        plan.path.faults = [("congestion", "cubic".to_owned())].into();
        for load in &mut plan.loads {
            load.congestion = DEFAULT_CONGESTION.to_owned();
        }
        for slug in ["stream-delay-0", "read-delay-8ms"] {
            let command = command_of(&plan, slug);
            assert!(command.contains(" --congestion cubic ") && !command.contains("--cc"), "{command}");
        }
    }

    #[test]
    fn a_load_may_have_other_tables_than_the_plan() {
        let mut plan = Plan::parse(CROWD, Variant::Full).unwrap();
        let command = command_of(&plan, "read");
        assert!(!command.starts_with("farlun wan --json --trace "), "{command}");
        plan.loads[0].record = Some(vec![Table::Pdus, Table::Kernel]);
        let command = command_of(&plan, "read");
        assert!(
            command.starts_with("farlun wan --json --trace out/r1 --trace-kernel --delay 8ms "),
            "{command}"
        );
        assert!(!command.contains("--trace-pdus 0"), "{command}");
    }

    #[test]
    fn an_ipv6_path_has_ipv6_addresses_everywhere() {
        let mut plan = Plan::parse(CROWD, Variant::Full).unwrap();
        (plan.path.ipv6, plan.path.segment) = (true, true);
        let command = command_of(&plan, "read");
        assert!(
            command.contains(" --mtu 1500 --validity throughput --ipv6 --segment --seed 5 "),
            "{command}"
        );
        assert!(!command.contains("198.18."), "{command}");
        for part in [
            "--listen '\\''[2001:2::2]:3260'\\'' ",
            "--listen '\\''[2001:2::102]:3260'\\'' ",
            "stream '\\''[2001:2::103]:5201'\\'' ",
            "-- farlun bench 'iscsi://[2001:2::2]:3260/iqn.2026-11.io.farlun:lab/0' ",
        ] {
            assert!(command.contains(part), "{part} in {command}");
        }
        let mut plan = Plan::parse(FOREIGN, Variant::Full).unwrap();
        plan.path.ipv6 = true;
        let command = command_of(&plan, "ours");
        assert!(command.contains(r"--far 'serve '\''[2001:2::2]'\'':3260' "), "{command}");
    }
}
