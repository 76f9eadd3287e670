//! Limiters of a storage path: one name for one cause, in every instrument, table, plan and document.
//!
//! `docs/reference/limiters.md` is this table for users; `tests/reference.rs` keeps the two alike.

use serde::{Serialize, Serializer};

use self::Instrument::{Analyze, Doctor, Stream, Top};

/// Cause that keeps a load or a connection from going faster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Limiter {
    /// No traffic in either direction.
    Idle,
    /// Traffic inbound to this end; the limiter shows at the sender.
    Receiving,
    /// Nothing more to send: the sender waits for requests, answers or its application.
    AppLimited,
    /// Too few requests outstanding at the caller.
    QueueDepth,
    /// The initiator's limit on requests handed to iSCSI.
    QueueLimit,
    /// The target's command window (MaxCmdSN).
    CommandWindow,
    /// Writes waiting for R2Ts: round trips for data beyond FirstBurstLength, MaxBurstLength and MaxOutstandingR2T.
    R2t,
    /// Requests too short for the number of them that can be outstanding.
    BlockSize,
    /// Too few connections for limits that hold per connection.
    Connections,
    /// Nagle's algorithm holding back a last small segment until a delayed acknowledgement.
    Nagle,
    /// Status in a PDU of its own, after the data.
    SeparateStatus,
    /// The sender's socket buffer.
    SendBuffer,
    /// The window that the receiver's socket buffer lets it offer.
    ReceiveWindow,
    /// The memory that a host gives to all of its TCP.
    TcpMemory,
    /// The largest window that a TCP header can express, 1 GiB.
    WindowScale,
    /// The congestion window, cut by losses on the path.
    Loss,
    /// Packets above the path's MTU, dropped without an ICMP message that the sender believes.
    PathMtu,
    /// The congestion window, cut by the sending host: its device or queueing discipline had no room (CWR).
    DeviceQueue,
    /// The congestion window, full and not cut: still opening, or closed by a pause.
    CongestionWindow,
    /// The sender's pacing rate, below the rate of the path.
    Pacing,
    /// The path: the line's rate or TCP's estimate of it.
    Path,
    /// The line's rate.
    LinkRate,
    /// The sending host: device, queueing discipline or CPU.
    SenderHost,
    /// A CPU of the end that sends data.
    SenderCpu,
    /// A CPU of the end that receives data.
    ReceiverCpu,
    /// An application that reads too slowly from its socket.
    ReceiverApplication,
    /// Too few commands in execution at the target: further ones wait there, or are refused (BUSY, TASK SET FULL).
    TargetQueue,
    /// The store's latency for one request.
    StoreLatency,
    /// The store's bandwidth.
    StoreBandwidth,
    /// One round trip per request, which no setting shortens.
    RoundTrip,
}

/// Every limiter, from the caller down to the store, then the round trip.
pub const LIMITERS: &[Limiter] = &[
    Limiter::Idle,
    Limiter::Receiving,
    Limiter::AppLimited,
    Limiter::QueueDepth,
    Limiter::QueueLimit,
    Limiter::CommandWindow,
    Limiter::R2t,
    Limiter::BlockSize,
    Limiter::Connections,
    Limiter::Nagle,
    Limiter::SeparateStatus,
    Limiter::SendBuffer,
    Limiter::ReceiveWindow,
    Limiter::TcpMemory,
    Limiter::WindowScale,
    Limiter::Loss,
    Limiter::PathMtu,
    Limiter::DeviceQueue,
    Limiter::CongestionWindow,
    Limiter::Pacing,
    Limiter::Path,
    Limiter::LinkRate,
    Limiter::SenderHost,
    Limiter::SenderCpu,
    Limiter::ReceiverCpu,
    Limiter::ReceiverApplication,
    Limiter::TargetQueue,
    Limiter::StoreLatency,
    Limiter::StoreBandwidth,
    Limiter::RoundTrip,
];

/// Layer that a limiter belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimiterLayer {
    /// The program above the block device, or above the socket.
    Application,
    /// iSCSI, at either end.
    Iscsi,
    /// TCP and its sockets.
    Tcp,
    /// A host: CPU, device, queueing discipline.
    Host,
    /// The network between the hosts.
    Path,
    /// SCSI execution at the target, and its store.
    Target,
}

/// Instrument that names limiters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instrument {
    /// `farlun doctor`: tables of a run.
    Doctor,
    /// `farlun analyze`: packets.
    Analyze,
    /// `farlun top`: TCP_INFO of live connections.
    Top,
    /// `farlun stream`: both ends of a raw stream.
    Stream,
}

/// Properties of one limiter.
struct Entry {
    name: &'static str,
    title: &'static str,
    layer: LimiterLayer,
    seen_by: &'static [Instrument],
    next_step: &'static str,
}

const fn entry(
    name: &'static str,
    title: &'static str,
    layer: LimiterLayer,
    seen_by: &'static [Instrument],
    next_step: &'static str,
) -> Entry {
    Entry { name, title, layer, seen_by, next_step }
}

impl Limiter {
    /// Name in tables, plans, JSON and terminal columns; stable.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// Meaning, as a phrase for people.
    pub const fn title(self) -> &'static str {
        self.entry().title
    }

    /// Title with the name behind it, as reports show it.
    pub fn label(self) -> String {
        format!("{} ({})", self.title(), self.name())
    }

    /// Layer of the cause.
    pub const fn layer(self) -> LimiterLayer {
        self.entry().layer
    }

    /// Instruments that can name it.
    pub const fn seen_by(self) -> &'static [Instrument] {
        self.entry().seen_by
    }

    /// Change that helps, as a phrase without code marks.
    pub const fn next_step(self) -> &'static str {
        self.entry().next_step
    }

    /// True where no setting gains more: the path itself is the limit.
    pub const fn is_final(self) -> bool {
        matches!(self, Limiter::LinkRate | Limiter::RoundTrip)
    }

    /// Limiter with this name.
    pub fn named(name: &str) -> Option<Limiter> {
        LIMITERS.iter().copied().find(|limiter| limiter.name() == name)
    }

    const fn entry(self) -> Entry {
        match self {
            Limiter::Idle => {
                entry("idle", "nothing is sent or received", LimiterLayer::Application, &[Top], "a load")
            }
            Limiter::Receiving => entry(
                "receiving",
                "this end receives: the limiter shows at the sender",
                LimiterLayer::Application,
                &[Top],
                "farlun top on the other host",
            ),
            Limiter::AppLimited => entry(
                "app-limited",
                "the application has nothing more to send",
                LimiterLayer::Application,
                &[Top],
                "more requests outstanding, longer requests, longer bursts of writes; a faster store at a target",
            ),
            Limiter::QueueDepth => entry(
                "queue-depth",
                "the caller keeps too few requests outstanding",
                LimiterLayer::Application,
                &[Doctor, Analyze],
                "more requests outstanding",
            ),
            Limiter::QueueLimit => entry(
                "queue-limit",
                "the initiator's queue limit",
                LimiterLayer::Iscsi,
                &[Doctor],
                "a larger queue limit at the initiator",
            ),
            Limiter::CommandWindow => entry(
                "command-window",
                "the target's command window (MaxCmdSN)",
                LimiterLayer::Iscsi,
                &[Doctor, Analyze],
                "a larger command window at the target, or more sessions",
            ),
            Limiter::R2t => entry(
                "r2t",
                "writes wait for R2Ts",
                LimiterLayer::Iscsi,
                &[Doctor, Analyze],
                "longer bursts, more R2Ts at a time, InitialR2T=No",
            ),
            Limiter::BlockSize => entry(
                "block-size",
                "requests are too short",
                LimiterLayer::Application,
                &[Doctor],
                "longer requests",
            ),
            Limiter::Connections => entry(
                "connections",
                "one connection is not enough",
                LimiterLayer::Iscsi,
                &[Doctor],
                "more connections per session",
            ),
            Limiter::Nagle => entry(
                "nagle",
                "Nagle's algorithm waits for delayed acknowledgements",
                LimiterLayer::Tcp,
                &[Doctor, Analyze],
                "TCP_NODELAY at the sender, or immediate acknowledgements at the receiver",
            ),
            Limiter::SeparateStatus => entry(
                "separate-status",
                "status comes in a PDU of its own",
                LimiterLayer::Iscsi,
                &[Doctor, Analyze],
                "status in the last Data-In PDU",
            ),
            Limiter::SendBuffer => entry(
                "send-buffer",
                "the sender's socket buffer",
                LimiterLayer::Tcp,
                &[Doctor, Analyze, Top, Stream],
                "a larger net.ipv4.tcp_wmem at the sender",
            ),
            Limiter::ReceiveWindow => entry(
                "receive-window",
                "the receiver's window",
                LimiterLayer::Tcp,
                &[Doctor, Analyze, Top, Stream],
                "a larger net.ipv4.tcp_rmem at the receiver",
            ),
            Limiter::TcpMemory => entry(
                "tcp-memory",
                "the memory that a host gives to all of its TCP",
                LimiterLayer::Tcp,
                &[Stream],
                "a larger net.ipv4.tcp_mem at that host",
            ),
            Limiter::WindowScale => entry(
                "window-scale",
                "the largest window of TCP, 1 GiB",
                LimiterLayer::Tcp,
                &[Stream],
                "more streams, or more connections",
            ),
            Limiter::Loss => entry(
                "loss",
                "the congestion window, cut by losses",
                LimiterLayer::Path,
                &[Doctor, Analyze, Top],
                "no losses: a longer queue on the path; BBR at the sender; more connections",
            ),
            Limiter::PathMtu => entry(
                "path-mtu",
                "large packets do not get through the path",
                LimiterLayer::Path,
                &[Analyze, Top],
                "one MTU at both ends that the path carries; MSS clamping at a router; net.ipv4.tcp_mtu_probing=1 at the sender",
            ),
            Limiter::DeviceQueue => entry(
                "device-queue",
                "the congestion window, cut by the sender's own device (CWR)",
                LimiterLayer::Host,
                &[Doctor, Analyze, Top],
                "pacing, or a longer queue of the device (ethtool -G, txqueuelen)",
            ),
            Limiter::CongestionWindow => entry(
                "congestion-window",
                "the congestion window is still opening",
                LimiterLayer::Tcp,
                &[Doctor, Analyze, Top],
                "pacing from the start; net.ipv4.tcp_slow_start_after_idle=0 at the sender",
            ),
            Limiter::Pacing => entry(
                "pacing",
                "the sender paces itself",
                LimiterLayer::Tcp,
                &[Doctor, Top],
                "a higher pacing rate, unless it is the rate of the line",
            ),
            Limiter::Path => entry(
                "path",
                "the rate of the line, or TCP's estimate of it",
                LimiterLayer::Path,
                &[Doctor, Analyze, Stream],
                "farlun capture or farlun top, which tell the two apart",
            ),
            Limiter::LinkRate => entry(
                "link-rate",
                "the line is full",
                LimiterLayer::Path,
                &[Doctor, Analyze],
                "a faster line",
            ),
            Limiter::SenderHost => entry(
                "sender-host",
                "the sending host: its device, queueing discipline or CPU",
                LimiterLayer::Host,
                &[Top],
                "a longer queue of the device, another queueing discipline, a faster CPU",
            ),
            Limiter::SenderCpu => entry(
                "sender-cpu",
                "a CPU of the sender",
                LimiterLayer::Host,
                &[Doctor, Analyze, Stream],
                "a faster CPU there; several sessions or streams; no digests, a larger MTU",
            ),
            Limiter::ReceiverCpu => entry(
                "receiver-cpu",
                "a CPU of the receiver",
                LimiterLayer::Host,
                &[Doctor, Stream],
                "a faster CPU there; several sessions or streams; no digests, a larger MTU",
            ),
            Limiter::ReceiverApplication => entry(
                "receiver-application",
                "the receiving application reads too slowly",
                LimiterLayer::Application,
                &[Stream],
                "a receiver that reads sooner; time, if the window still grows",
            ),
            Limiter::TargetQueue => entry(
                "target-queue",
                "the target takes on too few commands at a time",
                LimiterLayer::Target,
                &[Doctor, Analyze],
                "more I/O threads, a longer queue at the target; fewer requests outstanding where it refuses some",
            ),
            Limiter::StoreLatency => entry(
                "store-latency",
                "the store's time for a request",
                LimiterLayer::Target,
                &[Doctor, Analyze],
                "a cache in front of the store, or more requests outstanding",
            ),
            Limiter::StoreBandwidth => entry(
                "store-bandwidth",
                "the store's bandwidth",
                LimiterLayer::Target,
                &[Doctor],
                "a faster store, or several",
            ),
            Limiter::RoundTrip => entry(
                "round-trip",
                "the bare round trip",
                LimiterLayer::Path,
                &[Doctor, Analyze],
                "a shorter path, or more requests at a time",
            ),
        }
    }
}

impl LimiterLayer {
    /// Name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            LimiterLayer::Application => "application",
            LimiterLayer::Iscsi => "iSCSI",
            LimiterLayer::Tcp => "TCP",
            LimiterLayer::Host => "host",
            LimiterLayer::Path => "path",
            LimiterLayer::Target => "target",
        }
    }
}

impl Instrument {
    /// Name of its command.
    pub const fn name(self) -> &'static str {
        match self {
            Doctor => "doctor",
            Analyze => "analyze",
            Top => "top",
            Stream => "stream",
        }
    }
}

impl Serialize for Limiter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_kebab_case() {
        for limiter in LIMITERS {
            assert_eq!(Limiter::named(limiter.name()), Some(*limiter));
            assert!(
                limiter.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b.is_ascii_digit())
            );
        }
        assert!(LIMITERS.windows(2).all(|pair| pair[0] < pair[1]), "in the order of the enum, each once");
    }

    #[test]
    fn every_limiter_is_listed() {
        // Consecutive discriminants: the list ends with the last variant and has no gap.
        let discriminants: Vec<usize> = LIMITERS.iter().map(|limiter| *limiter as usize).collect();
        assert_eq!(discriminants, (0..=Limiter::RoundTrip as usize).collect::<Vec<_>>());
    }
}
