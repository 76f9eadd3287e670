//! The window and its recovery: states, proportional rate reduction (RFC 6937), undo, RACK's reordering window.

use core::time::Duration;

use event::{CongestionState, Instant};

use super::{FIRST_CWND, NO_THRESHOLD};

/// Recoveries over which a wider reordering window is kept.
const PERSIST: u32 = 16;
/// Duplicates that mean a loss before any reordering was seen.
const DUPLICATES: u32 = 3;

/// View that a congestion control has of its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) now: Instant,
    pub(crate) una: u64,
    pub(crate) nxt: u64,
    pub(crate) in_flight: u32,
    pub(crate) delivered: u64,
    /// Marked lost in all.
    pub(crate) lost: u64,
    pub(crate) srtt: Option<Duration>,
    pub(crate) min_rtt: Option<Duration>,
    /// The socket is paced.
    pub(crate) is_paced: bool,
    /// Pacing rate in force, in packets per second.
    pub(crate) paced: f64,
    /// Upper bound of it that the application has set.
    pub(crate) paced_most: f64,
    /// Packets of a burst at that rate.
    pub(crate) burst: u32,
    /// Up to this count of delivered packets, samples are application-limited.
    pub(crate) app_limited_until: Option<u64>,
}

/// Congestion window and the state of recovery.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    pub(crate) state: CongestionState,
    /// Recovery is over when this is acknowledged.
    pub(crate) high_seq: u64,
    pub(crate) prior_cwnd: u32,
    /// Threshold before the cut; 0 if the cut cannot be undone.
    pub(crate) prior_ssthresh: u32,
    prr_delivered: u32,
    prr_out: u32,
    /// Retransmissions since the cut that no DSACK has named; -1 before the first.
    undo_resent: i64,
    /// Time of the first retransmission since the state was Open.
    resent_at: Option<Instant>,
    /// First packet of the cut that may be undone.
    undo_from: Option<u64>,
}

impl Window {
    pub(crate) fn new() -> Window {
        Window {
            cwnd: FIRST_CWND,
            ssthresh: NO_THRESHOLD,
            state: CongestionState::Open,
            high_seq: 0,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            prr_delivered: 0,
            prr_out: 0,
            undo_resent: -1,
            resent_at: None,
            undo_from: None,
        }
    }

    /// Returns true while the window is being cut.
    pub(crate) fn is_reducing(&self) -> bool {
        matches!(self.state, CongestionState::Cwr | CongestionState::Recovery)
    }

    /// Begins a cut to `ssthresh`.
    pub(crate) fn reduce(&mut self, nxt: u64, ssthresh: u32) {
        (self.high_seq, self.prior_cwnd) = (nxt, self.cwnd);
        (self.prr_delivered, self.prr_out) = (0, 0);
        self.ssthresh = ssthresh;
    }

    /// Notes what is needed to undo the cut that begins; before [`Window::reduce`].
    pub(crate) fn may_undo_from(&mut self, una: u64, was_reducing: bool, resent_out: u32) {
        self.prior_ssthresh = if was_reducing { 0 } else { self.ssthresh };
        let resent = if resent_out == 0 { -1 } else { resent_out.into() };
        (self.undo_from, self.undo_resent) = (Some(una), resent);
    }

    /// A packet goes out.
    pub(crate) fn sends(&mut self, now: Instant, is_again: bool) {
        self.prr_out += u32::from(self.is_reducing());
        if is_again {
            self.undo_resent = self.undo_resent.max(0) + 1;
            self.resent_at.get_or_insert(now);
        }
    }

    /// A retransmission was not needed.
    pub(crate) fn spurious(&mut self) {
        if self.undo_from.is_some() && self.undo_resent > 0 {
            self.undo_resent -= 1;
        }
    }

    /// No retransmission since the cut was needed.
    pub(crate) fn was_spurious(&self) -> bool {
        self.undo_from.is_some() && self.undo_resent == 0
    }

    /// The packet that is acknowledged in order was sent before the first retransmission: it was late, not lost.
    pub(crate) fn was_late(&self, echo: Instant) -> bool {
        self.undo_from.is_some() && self.resent_at.is_some_and(|resent_at| echo < resent_at)
    }

    /// Everything is repaired.
    pub(crate) fn opens(&mut self) {
        self.resent_at = None;
    }

    /// Undoes the cut.
    pub(crate) fn undo(&mut self, cwnd: u32) {
        if self.prior_ssthresh != 0 {
            self.cwnd = cwnd;
            self.ssthresh = self.ssthresh.max(self.prior_ssthresh);
        }
        self.undo_from = None;
    }

    /// Moves the window while it is cut: `tcp_cwnd_reduction`.
    pub(crate) fn proportional(&mut self, acked: u32, has_advanced: bool, losses: u32, in_flight: u32) {
        if acked == 0 || self.prior_cwnd == 0 {
            return;
        }
        self.prr_delivered += acked;
        let room = i64::from(self.ssthresh) - i64::from(in_flight);
        let mut send = if room < 0 {
            let due = u64::from(self.ssthresh) * u64::from(self.prr_delivered);
            due.div_ceil(u64::from(self.prior_cwnd)) as i64 - i64::from(self.prr_out)
        } else {
            let owed = (i64::from(self.prr_delivered) - i64::from(self.prr_out)).max(acked.into());
            (owed + i64::from(has_advanced && losses == 0)).min(room)
        };
        // Fast retransmit on entry.
        send = send.max(i64::from(self.prr_out == 0));
        self.cwnd = in_flight + send as u32;
    }

    /// The cut has been made.
    pub(crate) fn reduced(&mut self) {
        if self.ssthresh < NO_THRESHOLD && (self.state == CongestionState::Cwr || self.undo_from.is_some()) {
            self.cwnd = self.ssthresh;
        }
    }
}

/// RACK (RFC 8985): the latest packet that has arrived, and how late others may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// Time of its transmission, and its number.
    pub(crate) latest: (Instant, u64),
    /// Its round trip.
    pub(crate) rtt: Duration,
    /// Reordering window in quarters of the least round trip.
    steps: u32,
    /// Recoveries for which it stays so.
    persist: u32,
    /// It has grown in this round, which ends when so much is acknowledged.
    grown_until: u64,
    /// Events of reordering, see TCP_INFO.
    pub(crate) reorderings: u32,
}

impl Rack {
    pub(crate) fn new() -> Rack {
        let latest = (Instant::ZERO, 0);
        Rack { latest, rtt: Duration::ZERO, steps: 1, persist: 0, grown_until: 0, reorderings: 0 }
    }

    /// Takes a packet that has arrived.
    pub(crate) fn arrived(
        &mut self,
        now: Instant,
        sent_at: Instant,
        seq: u64,
        was_resent: bool,
        min_rtt: Option<Duration>,
    ) {
        let rtt = now.since(sent_at);
        // The acknowledgement of the original, probably.
        if was_resent && min_rtt.is_some_and(|least| rtt < least) {
            return;
        }
        self.rtt = rtt;
        self.latest = self.latest.max((sent_at, seq));
    }

    /// A packet came twice: others may be later than was thought.
    pub(crate) fn duplicate(&mut self, una: u64, nxt: u64) {
        if una >= self.grown_until {
            self.steps = (self.steps + 1).min(0xff);
            self.persist = PERSIST;
            self.grown_until = nxt;
        }
    }

    /// A recovery is over.
    pub(crate) fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// Returns the reordering window.
    pub(crate) fn wait(
        &self,
        state: CongestionState,
        sacked: u32,
        min_rtt: Option<Duration>,
        srtt: Option<Duration>,
    ) -> Duration {
        let is_recovering = matches!(state, CongestionState::Recovery | CongestionState::Loss);
        if self.reorderings == 0 && (is_recovering || sacked >= DUPLICATES) {
            return Duration::ZERO;
        }
        (min_rtt.unwrap_or_default() / 4 * self.steps).min(srtt.unwrap_or_default())
    }
}
