//! The sender: transmission, pacing, and the fields of TCP_INFO.

mod input;

use core::time::Duration;

use event::{CongestionState, Instant};

use super::board::{Board, Slot};
use super::congestion::{Control, Kind};
use super::rate::Delivery;
use super::recovery::{Rack, View, Window};
use super::timers::{Timer, Timing};
use super::{FIRST_CWND, MSS_BYTES, NO_THRESHOLD, bbr};

/// Packets of a paced burst: those of a millisecond, at least two, at most a super-packet.
const BURST_TIME_S: f64 = 0.001;
const BURST_LEAST: f64 = 2.0;
const BURST_MOST: f64 = 45.0;

/// One end that sends.
#[derive(Clone, Debug)]
pub struct Sender {
    board: Board,
    window: Window,
    rack: Rack,
    delivery: Delivery,
    control: Control,
    pace: Pace,
    timing: Timing,
    usage: Usage,
    counts: Counts,
    /// One past the last packet that the application has written.
    written: u64,
    probe: Probe,
    last_sent_at: Instant,
    seed: u64,
}

/// Pacing.
#[derive(Clone, Copy, Debug)]
struct Pace {
    is_on: bool,
    packets_per_s: f64,
    /// `SO_MAX_PACING_RATE`.
    most: f64,
    next_at: Instant,
    /// Packets left of the burst.
    credit: u32,
}

/// Use of the window, which grows only where it limits.
#[derive(Clone, Copy, Default, Debug)]
struct Usage {
    is_limited: bool,
    max_out: u32,
    until: u64,
}

/// A tail loss probe.
#[derive(Clone, Copy, Default, Debug)]
struct Probe {
    /// To be sent whatever the window says.
    due: Option<u64>,
    /// One past the last packet when it was sent.
    high: Option<u64>,
    /// It was a retransmission.
    is_again: bool,
}

/// Counters of TCP_INFO that never fall.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Packets sent, retransmissions included.
    pub sent: u64,
    /// Retransmissions (`tcpi_total_retrans`).
    pub resent: u32,
    /// Duplicates that the receiver reported (`tcpi_dsack_dups`).
    pub duplicates: u32,
    /// Events of reordering (`tcpi_reord_seen`).
    pub reorderings: u32,
    /// Retransmission timeouts (`tcpi_total_rto`).
    pub timeouts: u32,
    /// Entries into recovery.
    pub recoveries: u32,
}

/// TCP_INFO of a sender.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// Congestion window.
    pub cwnd: u32,
    /// Slow-start threshold.
    pub ssthresh: u32,
    /// Packets sent and not acknowledged cumulatively.
    pub unacked: u32,
    /// Packets marked lost and not repaired.
    pub lost: u32,
    /// Retransmissions in flight.
    pub resent_out: u32,
    /// Packets that have arrived, those behind a gap included.
    pub delivered: u64,
    /// Smoothed round trip.
    pub rtt: Duration,
    /// Least round trip.
    pub min_rtt: Option<Duration>,
    /// State of recovery.
    pub state: CongestionState,
    /// Pacing rate, in bytes per second; `u64::MAX` if it is not paced.
    pub pacing_bytes_per_s: u64,
    /// Last delivery rate.
    pub delivery_rate_bytes_per_s: u64,
    /// It was application-limited.
    pub is_app_limited: bool,
    /// Packets written and not sent.
    pub unsent: u64,
    /// Counters.
    pub counts: Counts,
}

impl Sender {
    /// A connection that has just been made; its handshake gave no round trip.
    pub fn new(kind: Kind, seed: u64) -> Sender {
        let mut window = Window::new();
        let pace = Pace {
            is_on: kind == Kind::Bbr,
            packets_per_s: f64::INFINITY,
            most: f64::INFINITY,
            next_at: Instant::ZERO,
            credit: 0,
        };
        let (board, delivery, timing) = (Board::default(), Delivery::default(), Timing::default());
        let view = view(Instant::ZERO, &board, &delivery, &timing, &pace);
        let control = Control::new(kind, &view, &mut window, seed);
        Sender {
            board,
            window,
            rack: Rack::new(),
            delivery,
            control,
            pace,
            timing,
            usage: Usage::default(),
            counts: Counts::default(),
            written: 0,
            probe: Probe::default(),
            last_sent_at: Instant::ZERO,
            seed,
        }
    }

    /// The application writes `packets` more.
    pub fn write(&mut self, packets: u64) {
        self.written = self.written.saturating_add(packets);
    }

    /// Changes the congestion control in the middle, as `setsockopt(TCP_CONGESTION)` does. The same one is no change.
    pub fn set_congestion(&mut self, now: Instant, kind: Kind) {
        if self.control.is_rate_based() && kind == Kind::Bbr {
            return;
        }
        // Nothing ever takes pacing away again.
        self.pace.is_on |= kind == Kind::Bbr;
        let view = self.view(now);
        self.control = Control::new(kind, &view, &mut self.window, self.seed);
    }

    /// Forgets the slow-start threshold, as a moment of BBR does.
    pub fn forget_threshold(&mut self, now: Instant, kind: Kind) {
        self.window.ssthresh = NO_THRESHOLD;
        let view = self.view(now);
        self.control = Control::new(kind, &view, &mut self.window, self.seed);
    }

    /// Sets `SO_MAX_PACING_RATE`, which paces the socket from then on.
    pub fn pace_at_most(&mut self, bytes_per_s: u64) {
        self.pace.is_on = true;
        self.pace.most = match bytes_per_s {
            rate if rate >= u64::MAX - 1 => f64::INFINITY,
            rate => rate as f64 / f64::from(MSS_BYTES),
        };
        self.pace.packets_per_s = self.pace.packets_per_s.min(self.pace.most);
    }

    /// Returns true if BBR is in force.
    pub fn paces_itself(&self) -> bool {
        self.control.is_rate_based()
    }

    /// State of BBR and its pacing gain.
    pub fn bbr(&self) -> Option<(bbr::Mode, f64)> {
        match &self.control {
            Control::Bbr(bbr) => Some((bbr.mode(), bbr.pacing_gain())),
            Control::Cubic(_) => None,
        }
    }

    /// Returns the fields of TCP_INFO.
    pub fn info(&self) -> Info {
        let bytes = |packets: f64| (packets * f64::from(MSS_BYTES)) as u64;
        Info {
            cwnd: self.window.cwnd,
            ssthresh: self.window.ssthresh,
            unacked: self.board.packets_out(),
            lost: self.board.lost_out,
            resent_out: self.board.resent_out,
            delivered: self.delivery.delivered,
            rtt: self.timing.srtt.unwrap_or_default(),
            min_rtt: self.timing.min_rtt,
            state: self.window.state,
            pacing_bytes_per_s: if self.pace.is_on { bytes(self.pace.packets_per_s) } else { u64::MAX },
            delivery_rate_bytes_per_s: bytes(self.delivery.packets_per_s),
            is_app_limited: self.delivery.is_app_limited,
            unsent: self.written.saturating_sub(self.board.nxt()),
            counts: Counts { reorderings: self.rack.reorderings, ..self.counts },
        }
    }

    /// The next packet that may go out now; it counts as sent.
    pub fn send(&mut self, now: Instant) -> Option<u64> {
        if let Some(seq) = self.probe.due.take() {
            return if seq < self.board.nxt() { Some(self.resend(now, seq)) } else { self.send_new(now) };
        }
        if self.board.packets_out() == 0 && self.written > self.board.nxt() {
            self.starts(now);
        }
        let (is_full, resend) = (self.is_full(), self.board.to_resend());
        if is_full || self.is_held(now) {
            self.used(is_full);
            return None;
        }
        if let Some(seq) = resend {
            return Some(self.resend(now, seq));
        }
        let sent = self.send_new(now);
        if sent.is_none() {
            self.used(false);
            // `tcp_rate_check_app_limited`: nothing unsent, room in the window, all losses sent again.
            self.delivery.app_limited_until =
                Some(self.delivery.delivered + u64::from(self.board.in_flight()));
        }
        sent
    }

    fn is_full(&self) -> bool {
        self.board.in_flight() >= self.window.cwnd
    }

    fn is_held(&self, now: Instant) -> bool {
        self.pace.is_on && self.pace.credit == 0 && now < self.pace.next_at
    }

    fn send_new(&mut self, now: Instant) -> Option<u64> {
        let seq = self.board.nxt();
        if seq >= self.written {
            return None;
        }
        if self.board.packets_out() == 0 {
            (self.delivery.first_sent_at, self.delivery.delivered_at) = (now, now);
        }
        let slot = self.slot(now);
        self.board.sent(slot);
        self.goes_out(now, false);
        Some(seq)
    }

    fn resend(&mut self, now: Instant, seq: u64) -> u64 {
        let slot = self.slot(now);
        self.board.resent(seq, slot);
        self.counts.resent += 1;
        self.goes_out(now, true);
        seq
    }

    fn slot(&self, now: Instant) -> Slot {
        Slot {
            sent_at: now,
            delivered: self.delivery.delivered,
            delivered_at: self.delivery.delivered_at,
            first_sent_at: self.delivery.first_sent_at,
            is_app_limited: self.delivery.app_limited_until.is_some(),
            is_sacked: false,
            is_lost: false,
            is_resent: false,
            was_resent: false,
        }
    }

    fn goes_out(&mut self, now: Instant, is_again: bool) {
        self.window.sends(now, is_again);
        self.counts.sent += 1;
        self.last_sent_at = now;
        // The first window is not paced.
        if self.pace.is_on && self.pace.packets_per_s.is_finite() && self.counts.sent > u64::from(FIRST_CWND)
        {
            if self.pace.credit == 0 {
                self.pace.credit = burst(self.pace.packets_per_s);
            }
            self.pace.credit -= 1;
            let gap = Duration::from_secs_f64(1.0 / self.pace.packets_per_s);
            self.pace.next_at = self.pace.next_at.max(now) + gap;
        }
        if !is_again || self.timing.armed.is_none() {
            self.arm(now, None);
        }
    }

    /// `tcp_cwnd_validate`.
    fn used(&mut self, is_limited: bool) {
        let out = self.board.packets_out();
        let usage = &mut self.usage;
        if self.board.una >= usage.until || is_limited || (!usage.is_limited && out > usage.max_out) {
            *usage = Usage { is_limited, max_out: out, until: self.board.nxt() };
        }
    }

    /// Begins to send after all was acknowledged.
    fn starts(&mut self, now: Instant) {
        let idle = now.since(self.last_sent_at);
        let mut timeout = self.timing.timeout();
        if !self.control.is_rate_based() && idle > timeout && self.counts.sent > 0 {
            // `tcp_cwnd_restart`.
            self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 4 * 3);
            let floor = self.window.cwnd.min(FIRST_CWND);
            while idle > timeout && self.window.cwnd > floor {
                self.window.cwnd /= 2;
                timeout += self.timing.timeout();
            }
            self.window.cwnd = self.window.cwnd.max(floor);
        }
        let view = self.view(now);
        if let Some(rate) = self.control.restarts(&view, &mut self.window, idle) {
            self.pace.packets_per_s = rate;
        }
    }

    fn view(&self, now: Instant) -> View {
        view(now, &self.board, &self.delivery, &self.timing, &self.pace)
    }

    /// Time of the next call of [`Sender::wake`] or [`Sender::send`], if no acknowledgement comes before.
    pub fn wake_at(&self) -> Option<Instant> {
        let has_some = self.board.to_resend().is_some() || self.written > self.board.nxt();
        let may_send = (has_some && !self.is_full()).then_some(self.pace.next_at);
        let armed = self.timing.armed.map(|(at, _)| at);
        may_send.into_iter().chain(armed).min()
    }
}

fn view(now: Instant, board: &Board, delivery: &Delivery, timing: &Timing, pace: &Pace) -> View {
    View {
        now,
        una: board.una,
        nxt: board.nxt(),
        in_flight: board.in_flight(),
        delivered: delivery.delivered,
        lost: board.lost,
        srtt: timing.srtt,
        min_rtt: timing.min_rtt,
        is_paced: pace.is_on,
        paced: pace.packets_per_s,
        paced_most: pace.most,
        burst: burst(pace.packets_per_s),
        app_limited_until: delivery.app_limited_until,
    }
}

fn burst(packets_per_s: f64) -> u32 {
    (packets_per_s * BURST_TIME_S).clamp(BURST_LEAST, BURST_MOST) as u32
}
