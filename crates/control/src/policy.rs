//! What every policy sees and decides, and the policies, a file each.

pub(crate) mod auto;
pub(crate) mod choice;
pub(crate) mod none;
pub(crate) mod pace;
pub(crate) mod study;

use core::fmt;
use core::time::Duration;

use event::{CongestionDecision, CongestionState, Decided, Instant, MayChange, WindowNotice};

use crate::lone::crowd::Arrived;
use crate::loss::route::Remembered;
use crate::sharing::meeting::Met;
use crate::sharing::share::Claim;

/// What one end saw of one connection, a hundred times per second or more while it is busy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Observation {
    /// When.
    pub now: Instant,
    /// Smoothed round-trip time of TCP.
    pub rtt: Duration,
    /// Smallest round-trip time of TCP so far; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Application payload that has come in or whose arrival was acknowledged, in all.
    pub moved_bytes: u64,
    /// Application payload that has come in, in all.
    pub received_bytes: u64,
    /// Delivery rate of what this end sends, as the kernel measured it last.
    pub delivery_rate_bytes_per_s: u64,
    /// The delivery rate was measured while there was too little to send: it says nothing of the path.
    pub app_limited: bool,
    /// Packets that this end has sent again, in all.
    pub retransmitted_packets: u64,
    /// Of what is under way, thought lost.
    pub lost_packets: u32,
    /// Retransmission timeouts, in all.
    pub timeouts: u32,
    /// Packets of this end that the path had marked (ECN), in all; wraps.
    pub marked_packets: u32,
    /// Time with something to send or not acknowledged, in all; zero if that is not known.
    pub busy: Duration,
    /// Packets of this end that have arrived, those behind a gap included; wraps.
    pub delivered_packets: u32,
    /// Packets of this end that are under way.
    pub unacked_packets: u32,
    /// Payload of a packet.
    pub mss_bytes: u32,
    /// Congestion window of what this end sends.
    pub cwnd_packets: u32,
    /// What the other end has room for, beyond what has arrived; zero if that is not known.
    pub peer_window_bytes: u64,
    /// Its slow-start threshold; more than 2^30 while there is none.
    pub ssthresh_packets: u32,
    /// Congestion state.
    pub state: CongestionState,
    /// Payload waiting here to be sent, in the kernel's unsent queue or before it.
    pub backlog_bytes: u64,
    /// The most that has waited at one time since the last observation.
    pub burst_bytes: u64,
    /// Some of that was held back by [`Decision::burst_bytes_per_s`].
    pub was_spaced: bool,
    /// How fast what was held back really went out; 0 if that is not known.
    pub handed_bytes_per_s: u64,
    /// Other connections that go out here have moved data of late, perhaps through the same device.
    pub has_company: bool,
    /// Its congestion control knows itself how fast it may send (BBR).
    pub paces_itself: bool,
    /// Further knowledge of its congestion control.
    pub congestion: CongestionSeen,
    /// Its device takes packets one by one, so that the kernel's pacing needs a timer for each.
    pub paced_one_by_one: bool,
    /// Its slow-start threshold can be forgotten and nothing else changes: it is not paced for it.
    pub forgets_freely: bool,
    /// Mean length of the requests of late; zero if there were none.
    pub request_bytes: u64,
}

/// Knowledge of a connection's congestion control besides TCP_INFO.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CongestionSeen {
    /// Permission to change it.
    pub may_change: MayChange,
    /// Packets that arrived twice (D-SACK), in all; wraps.
    pub duplicate_packets: u32,
    /// Reordering events, in all; wraps.
    pub reorderings: u32,
    /// Verdict of other connections of the same route.
    pub remembered: Remembered,
}

/// What to do until the next decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Length of the requests of a caller who leaves that open; `None` if the policy does not mind.
    pub block_bytes: Option<u64>,
    /// Payload that requests may have outstanding at once, if the caller leaves it open; one request always may be.
    pub outstanding_bytes: u64,
    /// Commands that the target should let be open at once.
    pub command_window: u32,
    /// Cap of the pacing rate; `None` leaves the connection unpaced, [`UNCAPPED`] paces it without a
    /// cap of ours.
    pub pacing_bytes_per_s: Option<u64>,
    /// How fast a lone request's data are handed to TCP; `None` as fast as it takes them.
    pub burst_bytes_per_s: Option<u64>,
    /// The most of them that is handed over at one time, if there is such a rate.
    pub burst_depth_bytes: u64,
    /// Unsent bytes that the kernel may hold; `None` if that is as its rate is. What it holds goes out at the host's speed as
    /// soon as the window lets it.
    pub held_bytes: Option<u64>,
    /// How many times by now the slow-start threshold is to have been forgotten.
    pub thresholds_forgotten: u32,
    /// Congestion control to use.
    pub congestion: CongestionDecision,
    /// How soon the policy wants to see the connection again, if it is busy.
    pub look_again: Duration,
}

/// Pacing without a cap.
pub const UNCAPPED: u64 = u64::MAX - 1;

impl Decision {
    /// As tables have it.
    pub fn recorded(&self) -> Decided {
        Decided {
            block_bytes: self.block_bytes.unwrap_or(0),
            outstanding_bytes: self.outstanding_bytes,
            commands: self.command_window,
            pacing_bytes_per_s: self.pacing_bytes_per_s.unwrap_or(u64::MAX),
            burst_bytes_per_s: self.burst_bytes_per_s.unwrap_or(u64::MAX),
            burst_depth_bytes: self.burst_depth_bytes,
            held_bytes: self.held_bytes.unwrap_or(u64::MAX),
            thresholds_forgotten: self.thresholds_forgotten,
            congestion: self.congestion,
            look_ns: u64::try_from(self.look_again.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

/// A policy of one connection.
pub trait Policy: fmt::Debug {
    /// Takes what was seen.
    fn observe(&mut self, observation: &Observation);

    /// Takes what the sender of the payload tells of its window: the other end, if it is of our own kind, or this one.
    fn told(&mut self, _notice: &WindowNotice) {}

    /// What to do now.
    fn decide(&self) -> Decision;

    /// The measured bandwidth-delay product.
    fn product_bytes(&self) -> u64;

    /// What it claims of the line, if it follows that and has a lot to send.
    fn claim(&self) -> Option<Claim> {
        None
    }

    /// Whether it ever paces what is sent, so that it matters how the device takes packets.
    fn paces(&self) -> bool {
        false
    }

    /// Whether it ever wants a threshold to be forgotten, so that it matters whether that is free.
    fn forgets(&self) -> bool {
        false
    }

    /// Whether what is sent in bulk is handed to TCP at its time.
    fn hands_over(&self) -> bool {
        self.claim().is_some_and(|claim| claim.handed.is_some())
    }

    /// What it shows of a device that takes packets one by one, if the bursts of lone requests are spaced.
    fn met(&self) -> Option<Met> {
        None
    }

    /// What the other end claims of the line by what it sends here, if the policy follows that.
    fn claim_of_peer(&self) -> Option<Claim> {
        None
    }

    /// The last train of a lone request's data, if there was one.
    fn arrived(&self) -> Option<Arrived> {
        None
    }

    /// What the process that serves it, or the other end, leaves it of the line; everything if `None`.
    fn grant(&mut self, _bytes_per_s: Option<u64>) {}

    /// What the other end leaves it of the line, which knows of all that comes there and not of what goes out here.
    fn left(&mut self, _bytes_per_s: Option<u64>) {}
}
