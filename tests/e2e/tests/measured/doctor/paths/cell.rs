//! The paths: the limiter of each by construction, and the same path without it.

/// The target of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Server {
    /// `farlun target` with further flags.
    Ours(&'static str),
    /// tgt with parameters of its sessions, by name and value.
    Tgt(&'static [(&'static str, &'static str)]),
}

/// Limiter of a path beside its line; shares are of the bandwidth-delay product, or of the line's rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Extra {
    Nothing,
    /// Receive buffer of the end that the data go to.
    ReceiveBuffer(f64),
    /// Send buffer of the end that sends them.
    SendBuffer(f64),
    /// Share of the packets lost, in percent.
    Loss(f64),
    /// Milliseconds that the store takes for each request.
    StoreTime(f64),
    /// Rate of a store that serves one request after the other.
    StoreRate(f64),
}

/// A load over a path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Cell {
    pub(super) name: &'static str,
    pub(super) server: Server,
    pub(super) mbit: f64,
    pub(super) rtt_ms: f64,
    /// 0 follows the path.
    pub(super) depth: u32,
    pub(super) kib: u32,
    pub(super) is_write: bool,
    pub(super) extra: Extra,
}

const OURS: Server = Server::Ours("");
const CUBIC: Server = Server::Ours("--cc cubic");
const BBR: Server = Server::Ours("--cc bbr");
const TGT: Server = Server::Tgt(&[]);
/// tgt that takes a whole request of these paths without an R2T.
const UNSOLICITED: Server = Server::Tgt(&[
    ("InitialR2T", "No"),
    ("ImmediateData", "Yes"),
    ("FirstBurstLength", "262144"),
    ("MaxRecvDataSegmentLength", "262144"),
]);

const fn read(
    name: &'static str,
    server: Server,
    (mbit, rtt_ms): (f64, f64),
    (depth, kib): (u32, u32),
    extra: Extra,
) -> Cell {
    Cell { name, server, mbit, rtt_ms, depth, kib, is_write: false, extra }
}

const fn write(cell: Cell) -> Cell {
    Cell { is_write: true, ..cell }
}

use Extra::{Loss, Nothing, ReceiveBuffer, SendBuffer, StoreRate, StoreTime};

pub(super) const CELLS: &[Cell] = &[
    read("line-ours-200m-40ms", OURS, (200.0, 40.0), (64, 64), Nothing),
    read("line-tgt-200m-40ms", TGT, (200.0, 40.0), (64, 64), Nothing),
    read("line-ours-50m-10ms-long", OURS, (50.0, 10.0), (8, 1024), Nothing),
    read("line-tgt-50m-2ms", TGT, (50.0, 2.0), (16, 64), Nothing),
    read("line-ours-1g-20ms", OURS, (1000.0, 20.0), (128, 64), Nothing),
    read("line-tgt-1g-8ms", TGT, (1000.0, 8.0), (64, 64), Nothing),
    read("line-ours-100m-200ms", OURS, (100.0, 200.0), (128, 64), Nothing),
    read("line-ours-200m-40ms-follow", OURS, (200.0, 40.0), (0, 1024), Nothing),
    read("line-bbr-200m-40ms", BBR, (200.0, 40.0), (64, 64), Nothing),
    read("line-tgt-50m-200us-short", TGT, (50.0, 0.2), (256, 4), Nothing),
    read("line-ours-5g-200us", OURS, (5000.0, 0.2), (32, 1024), Nothing),
    write(read("line-ours-200m-40ms-write", OURS, (200.0, 40.0), (64, 64), Nothing)),
    write(read("line-tgt-100m-20ms-write", TGT, (100.0, 20.0), (32, 64), Nothing)),
    read("depth-ours-200m-40ms", OURS, (200.0, 40.0), (1, 64), Nothing),
    read("depth-tgt-200m-40ms", TGT, (200.0, 40.0), (4, 64), Nothing),
    read("depth-ours-1g-20ms", OURS, (1000.0, 20.0), (4, 256), Nothing),
    read("depth-tgt-100m-100ms-short", TGT, (100.0, 100.0), (8, 4), Nothing),
    read("depth-ours-100m-200ms", OURS, (100.0, 200.0), (2, 64), Nothing),
    read("depth-ours-50m-10ms-short", OURS, (50.0, 10.0), (1, 4), Nothing),
    write(read("depth-tgt-200m-40ms-write", TGT, (200.0, 40.0), (2, 64), Nothing)),
    read("window-ours-200m-40ms", OURS, (200.0, 40.0), (64, 64), ReceiveBuffer(0.4)),
    read("window-tgt-200m-40ms", TGT, (200.0, 40.0), (64, 64), ReceiveBuffer(0.4)),
    read("window-ours-1g-20ms-sender", OURS, (1000.0, 20.0), (64, 64), SendBuffer(0.4)),
    read("window-tgt-100m-100ms-sender", TGT, (100.0, 100.0), (64, 64), SendBuffer(0.4)),
    write(read("window-ours-200m-40ms-write", OURS, (200.0, 40.0), (64, 64), ReceiveBuffer(0.4))),
    read("loss-ours-200m-40ms", CUBIC, (200.0, 40.0), (64, 64), Loss(0.1)),
    read("loss-tgt-100m-20ms", TGT, (100.0, 20.0), (64, 64), Loss(0.5)),
    write(read("loss-ours-200m-40ms-write", CUBIC, (200.0, 40.0), (64, 64), Loss(0.1))),
    read("store-ours-200m-10ms", OURS, (200.0, 10.0), (4, 64), StoreTime(40.0)),
    read("store-ours-1g-2ms", OURS, (1000.0, 2.0), (8, 64), StoreTime(20.0)),
    read("store-ours-200m-20ms-rate", OURS, (200.0, 20.0), (32, 64), StoreRate(0.2)),
    write(read("store-ours-200m-10ms-write", OURS, (200.0, 10.0), (4, 64), StoreTime(40.0))),
];

/// Part by which a seed moves rates and round trips, up or down.
const MOVES: f64 = 0.2;

impl Cell {
    pub(super) fn is_tgt(&self) -> bool {
        matches!(self.server, Server::Tgt(_))
    }

    /// The path as a seed draws it: other rates and round trips, the same limiter. The first one is as listed.
    pub(super) fn drawn(self, seed: u64) -> Cell {
        let name: u64 =
            self.name.bytes().fold(7, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let draw = |n: u64| {
            let mixed =
                (name ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(2 * n + 0x2545_f491_4f6c_dd1d);
            if seed == 1 {
                1.0
            } else {
                1.0 + MOVES * ((mixed >> 32) as f64 / f64::from(u32::MAX) * 2.0 - 1.0)
            }
        };
        Cell { mbit: (self.mbit * draw(1)).round(), rtt_ms: self.rtt_ms * draw(2), ..self }
    }

    /// Payload per second that the line carries.
    pub(super) fn line_bytes_per_s(&self) -> f64 {
        self.mbit * 1e6 / 8.0 * 0.9415
    }

    /// Bandwidth-delay product in bytes.
    fn product_bytes(&self) -> f64 {
        self.line_bytes_per_s() * self.rtt_ms / 1e3
    }

    /// Flags of `farlun wan`.
    pub(super) fn path_flags(&self, seed: u64) -> Vec<String> {
        let sender = if self.is_write { "near" } else { "far" };
        let bytes = |share: f64| (self.product_bytes() * share).max(16_384.0) as u64;
        let mut flags = vec![
            "--delay".to_owned(),
            format!("{}us", (self.rtt_ms * 500.0).round()),
            "--rate".to_owned(),
            format!("{}mbit", self.mbit),
            "--seed".to_owned(),
            seed.to_string(),
        ];
        let more = match self.extra {
            ReceiveBuffer(share) => ["--rcvbuf".to_owned(), format!("{}B", bytes(share))],
            SendBuffer(share) => ["--sndbuf".to_owned(), format!("{}B", bytes(share))],
            Loss(percent) => ["--loss".to_owned(), format!("{sender}:{percent}%")],
            Nothing | StoreTime(_) | StoreRate(_) => return flags,
        };
        flags.extend(more);
        flags
    }

    /// The LUN of a target of ours.
    pub(super) fn lun(&self) -> String {
        match self.extra {
            StoreTime(ms) => format!("memory:64MiB,delay={}us", (ms * 1e3) as u64),
            StoreRate(share) => format!("memory:64MiB,rate={}kbit", (self.mbit * share * 1e3) as u64),
            _ => "memory:64MiB".to_owned(),
        }
    }

    /// Flags of the load, for `farlun bench` and `farlun doctor`.
    pub(super) fn load_flags(&self) -> String {
        let depth = if self.depth > 0 { format!(" --depth {}", self.depth) } else { String::new() };
        let op = if self.is_write { " --op write" } else { "" };
        let cc = if self.is_write && self.server == CUBIC { " --cc cubic" } else { "" };
        format!("--block {}KiB{depth}{op}{cc}", self.kib)
    }

    /// The path with something taken away, by the names of limiters that would be right for it.
    pub(super) fn relieved(&self) -> Vec<(&'static [&'static str], Cell)> {
        let store_s = if let StoreTime(ms) = self.extra { ms / 1e3 } else { 0.0 };
        let bytes = self.product_bytes() + self.line_bytes_per_s() * store_s;
        let enough = (3.0 * bytes / f64::from(self.kib * 1024)).ceil() as u32;
        let deep = enough.max(4 * self.depth).clamp(16, 1024);
        let mut found: Vec<(&'static [&'static str], Cell)> = Vec::new();
        if self.depth > 0 {
            found.push((&["queue-depth"], Cell { depth: deep, ..*self }));
        }
        if self.is_write && self.server == TGT {
            found.push((&["r2t"], Cell { server: UNSOLICITED, ..*self }));
        }
        found.push((&["link-rate"], Cell { mbit: 4.0 * self.mbit, extra: self.fixed(), ..*self }));
        let without = Cell { extra: Nothing, ..*self };
        match self.extra {
            Nothing => {}
            ReceiveBuffer(_) => found.push((&["receive-window"], without)),
            SendBuffer(_) => found.push((&["send-buffer"], without)),
            Loss(_) => found.push((&["loss"], without)),
            StoreTime(_) => found.push((&["store-latency", "target-queue"], without)),
            StoreRate(_) => found.push((&["store-bandwidth", "target-queue"], without)),
        }
        found
    }

    /// Limiter in shares of a line that is four times as fast: the same buffer, the same store.
    fn fixed(&self) -> Extra {
        match self.extra {
            ReceiveBuffer(share) => ReceiveBuffer(share / 4.0),
            SendBuffer(share) => SendBuffer(share / 4.0),
            StoreRate(share) => StoreRate(share / 4.0),
            same => same,
        }
    }

    /// True if the line is full by construction.
    pub(super) fn is_full_line(&self) -> bool {
        self.name.starts_with("line-")
    }
}
