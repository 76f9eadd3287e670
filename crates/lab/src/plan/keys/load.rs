//! A `[[load]]` of a plan: traffic of the near hosts over the path that is measured.

use std::time::Duration;

use control::Choice;
use document::Scalar;
use event::{BitRate, Direction, Op};

use super::need::LoadNeeds;
use super::path::{self, Path};
use super::recording::Table;
use super::shell_line::ShellLine;
use super::time::PathTime;

/// One load. At every point of the matrix that concerns it, it becomes one cell.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// Name, by which expectations refer to it: letters, digits, `_`.
    pub name: String,
    /// Kind of traffic.
    pub kind: LoadKind,
    /// Keys of `[path]` that the load overrides, with their values.
    pub path: Vec<(String, Scalar)>,
    /// Start of the window, relative to the start of the load.
    pub start: PathTime,
    /// Length of the window.
    pub window: PathTime,
    /// Which rule of validity the emulator must hold.
    pub validity: Validity,
    /// Congestion control of both ends' sockets, or [`DEFAULT_CONGESTION`].
    pub congestion: String,
    /// Pacing at both ends.
    pub pacing: Pacing,
    /// Number of near hosts that run it at the same time.
    pub initiators: u32,
    /// Server instead of `farlun target`.
    pub server: Option<ShellLine>,
    /// Tables to record, instead of the plan's.
    pub record: Option<Vec<Table>>,
    /// Requirements without which it is left out.
    pub needs: LoadNeeds,
    /// True for a load whose purpose is throughput, though its depth is fixed or its program is foreign.
    pub for_throughput: bool,
}

/// Pacing of outgoing data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacing {
    /// At the rate of the path as the policy estimates it.
    Follow,
    /// The same, at most at this rate for each connection.
    AtMost(BitRate),
    /// None: TCP sends as its window allows.
    Off,
}

/// Kind of a load.
#[derive(Clone, PartialEq, Debug)]
pub enum LoadKind {
    /// A raw TCP stream, as a baseline.
    Stream {
        /// Direction of the bytes.
        direction: Direction,
    },
    /// Reads or writes of a LUN.
    Bench(Bench),
    /// Reads or writes of a LUN by a foreign program, measured at our end alone.
    Command(Command),
}

/// Reads or writes of a LUN.
#[derive(Clone, PartialEq, Debug)]
pub struct Bench {
    /// Read or write.
    pub op: Op,
    /// Bytes of one request.
    pub block_bytes: u64,
    /// Requests outstanding; `None` follows the path.
    pub depth: Option<u32>,
    /// Random offsets instead of a sequence.
    pub random: bool,
    /// Which LUN, counted from 0.
    pub lun: u32,
    /// Queue limit of a session towards iSCSI; `None` for unlimited.
    pub queue_limit: Option<u32>,
    /// Sessions of each initiator.
    pub sessions: u32,
    /// Connections of each session; `None` leaves them to the policy.
    pub connections: Option<u32>,
    /// Policy of both ends for block size, depth and pacing.
    pub policy: Choice,
    /// Number of far hosts that serve; initiators use them in turn.
    pub targets: u32,
    /// Requested limits on data of writes.
    pub bursts: Bursts,
    /// Time that the program leaves out of its own figures; `None` means until the window opens.
    pub warmup: Option<PathTime>,
    /// Length of bulk writes on the same session before, so that TCP is warm.
    pub warm_bulk: Option<PathTime>,
}

/// Login keys for data of writes; `None` for the cheapest value.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Bursts {
    /// FirstBurstLength.
    pub first_bytes: Option<u64>,
    /// MaxBurstLength.
    pub max_bytes: Option<u64>,
    /// MaxOutstandingR2T.
    pub r2ts: Option<u32>,
    /// InitialR2T: without an R2T the target gets only immediate data.
    pub initial_r2t: bool,
}

/// Reads or writes by a foreign program.
#[derive(Clone, PartialEq, Debug)]
pub struct Command {
    /// Command line.
    pub line: ShellLine,
    /// Operation.
    pub op: Op,
    /// LUN, counted from 0.
    pub lun: u32,
    /// Time for which some of its initiators run before the measured time.
    pub before: PathTime,
}

/// Which rule of validity applies to a cell (limits on the emulator's lateness).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validity {
    /// p99 of lateness at most min(2 ms, a quarter of the queue's drain time).
    Throughput,
    /// p50 at most 1 % of the RTT or 20 µs, p99 at most 5 % or 200 µs.
    Latency,
    /// None: for the capacity of this machine, with any lateness.
    Off,
    /// None, against the plan (`--validity off`): the figures count for no check.
    Waived,
}

/// In a smoke run, time from the start of a load to its window: the login and the first requests.
const SMOKE_START: PathTime = PathTime { fixed: Duration::from_millis(200), round_trips: 4.0 };
/// In a smoke run, length of a window: some requests, also where each is a long one and waits for slow start.
const SMOKE_WINDOW: PathTime = PathTime { fixed: Duration::from_millis(600), round_trips: 8.0 };
/// In a smoke run, time for which some initiators of a `command` work alone. Shell arithmetic takes whole seconds.
const SMOKE_BEFORE: PathTime = PathTime { fixed: Duration::from_secs(1), round_trips: 0.0 };

/// Hosts that a path has at most at each end.
pub(in crate::plan) const MOST_HOSTS: u32 = 16;

/// Value of a key that leaves a number to the policy.
pub(in crate::plan) const AUTO: &str = "auto";
/// Value of `congestion` without a choice: sockets have their host's default, or farlun's.
pub const DEFAULT_CONGESTION: &str = "default";

const COMMON_KEYS: &[&str] = &["start", "window", "validity", "congestion", "pacing", "initiators"];
const STREAM_KEYS: &[&str] = &["direction"];
const BENCH_KEYS: &[&str] = &[
    "op",
    "block",
    "depth",
    "queue_limit",
    "random",
    "lun",
    "sessions",
    "connections",
    "policy",
    "targets",
    "first_burst",
    "max_burst",
    "r2ts",
    "initial_r2t",
    "warmup",
    "warm_bulk",
    "server",
];
const COMMAND_KEYS: &[&str] = &["command", "op", "lun", "before", "server"];

/// Placeholders in the command of a server.
const SERVER_PLACES: &[&str] = &["host", "port", "iqn", "dir", "farlun"];
/// Placeholders in the command of a load.
const COMMAND_PLACES: &[&str] =
    &["host", "port", "iqn", "lun", "seconds", "before", "dir", "farlun", "number"];

/// The longest burst that `farlun bench` asks for: whole pages, and its length fits into 24 bits.
const LONGEST_BURST: u64 = (1 << 24) - 4096;

const DIRECTIONS: &[(&str, Direction)] = &[
    (Direction::NearToFar.name(), Direction::NearToFar),
    (Direction::FarToNear.name(), Direction::FarToNear),
];
const OPS: &[(&str, Op)] = &[(Op::Read.name(), Op::Read), (Op::Write.name(), Op::Write)];

/// The kinds, before the keys of a load are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::plan) enum Kind {
    Stream,
    Bench,
    Command,
}

/// The kinds of load by name.
pub(in crate::plan) const KINDS: &[(&str, Kind)] =
    &[("stream", Kind::Stream), ("bench", Kind::Bench), ("command", Kind::Command)];

impl Kind {
    fn empty(self) -> LoadKind {
        match self {
            Kind::Stream => LoadKind::Stream { direction: Direction::NearToFar },
            Kind::Bench => LoadKind::Bench(Bench {
                op: Op::Read,
                block_bytes: 0,
                depth: None,
                random: false,
                lun: 0,
                queue_limit: None,
                sessions: 1,
                connections: Some(1),
                policy: Choice::default(),
                targets: 1,
                bursts: Bursts::default(),
                warmup: None,
                warm_bulk: None,
            }),
            Kind::Command => LoadKind::Command(Command {
                line: ShellLine::default(),
                op: Op::Read,
                lun: 0,
                before: PathTime::default(),
            }),
        }
    }
}

impl LoadKind {
    /// As plans write it.
    pub(in crate::plan) const fn name(&self) -> &'static str {
        match self {
            LoadKind::Stream { .. } => "stream",
            LoadKind::Bench(_) => "bench",
            LoadKind::Command(_) => "command",
        }
    }
}

impl Validity {
    /// The name that plans and users see.
    pub const fn name(self) -> &'static str {
        match self {
            Validity::Throughput => "throughput",
            Validity::Latency => "latency",
            Validity::Off | Validity::Waived => "off",
        }
    }

    /// A rule applies, so that figures are validated.
    pub fn is_judged(self) -> bool {
        matches!(self, Validity::Throughput | Validity::Latency)
    }
}

impl Load {
    pub(in crate::plan) fn new(name: &str, kind: Kind) -> Load {
        Load {
            name: name.to_owned(),
            kind: kind.empty(),
            path: Vec::new(),
            start: PathTime::default(),
            window: PathTime::default(),
            validity: Validity::Throughput,
            congestion: String::new(),
            pacing: Pacing::Follow,
            initiators: 1,
            server: None,
            record: None,
            needs: LoadNeeds::default(),
            for_throughput: false,
        }
    }

    /// Shortens it to a smoke run. Windows of so few round trips carry no meaning, so no rule of validity applies.
    pub(in crate::plan) fn shorten(&mut self) {
        self.validity = Validity::Off;
        self.start = SMOKE_START;
        self.window = SMOKE_WINDOW;
        match &mut self.kind {
            LoadKind::Bench(bench) => {
                bench.warmup = bench.warmup.map(|_| SMOKE_START);
                bench.warm_bulk = bench.warm_bulk.map(|_| SMOKE_WINDOW);
            }
            LoadKind::Command(command) if command.before != PathTime::default() => {
                command.before = SMOKE_BEFORE;
            }
            LoadKind::Command(_) | LoadKind::Stream { .. } => {}
        }
    }

    /// True if it overrides this key of the path.
    pub fn has_own(&self, path_key: &str) -> bool {
        self.path.iter().any(|(key, _)| key == path_key)
    }

    /// Its path: `path` with its overrides.
    pub(in crate::plan) fn path_from(&self, path: &Path) -> Path {
        let mut path = path.clone();
        for (key, value) in &self.path {
            path.set(key, value).expect("values were checked when the plan was read");
        }
        path
    }

    /// Number of far hosts that it needs: one for each stream.
    pub fn far_hosts(&self) -> u32 {
        match &self.kind {
            LoadKind::Stream { .. } => self.initiators,
            LoadKind::Bench(bench) => bench.targets,
            LoadKind::Command(_) => 1,
        }
    }

    /// True if `farlun target` serves it.
    pub(in crate::plan) fn has_our_target(&self) -> bool {
        self.server.is_none() && !matches!(self.kind, LoadKind::Stream { .. })
    }

    /// Time on the command line: until the window closes.
    pub fn time_on(&self, path: &Path) -> Duration {
        self.start.on(path.rtt()) + self.window.on(path.rtt())
    }

    /// True if a load of this kind has the key.
    pub(in crate::plan) fn takes(&self, key: &str) -> bool {
        self.keys().any(|known| known == key)
    }

    /// The keys that a load of this kind has, besides `name` and `kind`.
    pub(in crate::plan) fn keys(&self) -> impl Iterator<Item = &'static str> + use<> {
        let own = match self.kind {
            LoadKind::Stream { .. } => STREAM_KEYS,
            LoadKind::Bench(_) => BENCH_KEYS,
            LoadKind::Command(_) => COMMAND_KEYS,
        };
        own.iter().chain(COMMON_KEYS).copied()
    }

    /// Sets a key that [`Load::takes`].
    pub(in crate::plan) fn set(&mut self, key: &str, value: &Scalar) -> Result<(), String> {
        match (key, &mut self.kind) {
            ("start", _) => self.start = PathTime::read(value)?,
            ("window", _) => {
                self.window = PathTime::read(value)?;
                if self.window == PathTime::default() {
                    return Err("a window of 0 measures nothing".to_owned());
                }
            }
            ("validity", _) => {
                let known = [Validity::Throughput, Validity::Latency, Validity::Off].map(|v| (v.name(), v));
                self.validity = value.word(&known)?;
            }
            ("congestion", _) => self.congestion = path::congestion(value)?,
            ("pacing", kind) => {
                self.pacing = match (value, kind) {
                    (Scalar::Bool(true), _) => Pacing::Follow,
                    (Scalar::Bool(false), _) => Pacing::Off,
                    (rate, LoadKind::Bench(_)) => Pacing::AtMost(rate.rate()?),
                    (other, LoadKind::Stream { .. } | LoadKind::Command(_)) => {
                        other.bool()?;
                        Pacing::Follow
                    }
                };
            }
            ("initiators", _) => self.initiators = value.number(1, MOST_HOSTS)?,
            ("direction", LoadKind::Stream { direction }) => *direction = value.word(DIRECTIONS)?,
            ("op", LoadKind::Bench(bench)) => bench.op = value.word(OPS)?,
            ("block", LoadKind::Bench(bench)) => bench.block_bytes = block_bytes(value)?,
            ("depth", LoadKind::Bench(bench)) => bench.depth = Some(value.number(1, 65_535)?),
            ("queue_limit", LoadKind::Bench(bench)) => bench.queue_limit = Some(value.number(1, 65_535)?),
            ("random", LoadKind::Bench(bench)) => bench.random = value.bool()?,
            ("lun", LoadKind::Bench(bench)) => bench.lun = value.number(0, 255)?,
            ("sessions", LoadKind::Bench(bench)) => bench.sessions = value.number(1, 1024)?,
            ("connections", LoadKind::Bench(bench)) => bench.connections = connections(value)?,
            ("policy", LoadKind::Bench(bench)) => bench.policy = value.text()?.parse()?,
            ("targets", LoadKind::Bench(bench)) => bench.targets = value.number(1, MOST_HOSTS)?,
            ("first_burst", LoadKind::Bench(bench)) => bench.bursts.first_bytes = Some(burst_bytes(value)?),
            ("max_burst", LoadKind::Bench(bench)) => bench.bursts.max_bytes = Some(burst_bytes(value)?),
            ("r2ts", LoadKind::Bench(bench)) => bench.bursts.r2ts = Some(value.number(1, 65_535)?),
            ("initial_r2t", LoadKind::Bench(bench)) => bench.bursts.initial_r2t = value.bool()?,
            ("warmup", LoadKind::Bench(bench)) => bench.warmup = Some(PathTime::read(value)?),
            ("warm_bulk", LoadKind::Bench(bench)) => bench.warm_bulk = Some(PathTime::read(value)?),
            ("server", _) => self.server = Some(ShellLine::read(value, SERVER_PLACES)?),
            ("command", LoadKind::Command(command)) => command.line = ShellLine::read(value, COMMAND_PLACES)?,
            ("op", LoadKind::Command(command)) => command.op = value.word(OPS)?,
            ("lun", LoadKind::Command(command)) => command.lun = value.number(0, 255)?,
            ("before", LoadKind::Command(command)) => command.before = PathTime::read(value)?,
            _ => unreachable!("'{key}' was checked with Load::takes"),
        }
        Ok(())
    }
}

fn connections(value: &Scalar) -> Result<Option<u32>, String> {
    match value {
        Scalar::Text(text) if text == AUTO => Ok(None),
        _ => value.number(1, 64).map(Some).map_err(|error| format!("{error}; or \"{AUTO}\"")),
    }
}

/// Every key that some load can have, for the names of matrix axes.
pub(in crate::plan) fn all_load_keys() -> impl Iterator<Item = &'static str> {
    BENCH_KEYS.iter().chain(STREAM_KEYS).chain(COMMON_KEYS).chain(&["command"]).copied()
}

fn burst_bytes(value: &Scalar) -> Result<u64, String> {
    let bytes = value.bytes()?;
    match (512..=LONGEST_BURST).contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("a burst has 512 to {LONGEST_BURST} bytes, found '{}'", value.label())),
    }
}

fn block_bytes(value: &Scalar) -> Result<u64, String> {
    let bytes = value.bytes()?;
    match bytes > 0 && bytes % 512 == 0 && bytes <= 64 << 20 {
        true => Ok(bytes),
        false => Err(format!("a block is a multiple of 512 bytes up to 64MiB, found '{}'", value.label())),
    }
}
