//! Input of the sender: acknowledgements, timers and a device that refuses packets.

use core::time::Duration;

use event::{CongestionState, Instant};

use super::super::bbr::Mode;
use super::super::board::Slot;
use super::super::rate::Sample;
use super::super::receiver::Ack;
use super::{Probe, Sender, Timer};

/// Packets that an acknowledgement covers.
#[derive(Default)]
struct Fresh {
    sample: Sample,
    /// Round trips of packets that were sent once: of the earliest and the latest.
    sacked: Option<(Duration, Duration)>,
    acknowledged: Option<(Duration, Duration)>,
    /// A retransmission was acknowledged cumulatively: Karn's rule.
    is_ambiguous: bool,
    is_reordered: bool,
}

impl Sender {
    /// Takes an acknowledgement.
    pub(crate) fn acknowledge(&mut self, now: Instant, ack: &Ack) {
        let (una, delivered, lost) = (self.board.una, self.delivery.delivered, self.board.lost);
        let fresh = self.scan(now, ack);
        let mut sample = fresh.sample;
        let has_advanced = self.board.una > una;
        self.rack.reorderings += u32::from(fresh.is_reordered);
        sample.acked = (self.delivery.delivered - delivered) as u32;
        let rtts = fresh.acknowledged.filter(|_| !fresh.is_ambiguous).or(fresh.sacked);
        if let Some((first, last)) = rtts {
            (sample.rtt, sample.first_rtt) = (Some(last), Some(first));
            self.timing.measured(first, last);
            let view = self.view(now);
            self.control.measured(&view, &mut self.window, last);
        }
        if has_advanced {
            self.timing.backoff = 0;
        }
        if ack.duplicate.is_some() {
            self.counts.duplicates += 1;
            self.rack.duplicate(self.board.una, self.board.nxt());
            self.window.spurious();
        }
        self.take_probe(now, ack);
        let is_late = has_advanced && self.window.was_late(ack.echo);
        let wait = self.alert(now, is_late);
        sample.losses = (self.board.lost - lost) as u32;
        self.delivery.complete(now, &mut sample, self.timing.min_rtt);
        self.control_window(now, &sample, has_advanced);
        if has_advanced || sample.acked > 0 {
            self.arm(now, wait);
        }
    }

    /// Marks the packets that `ack` covers.
    fn scan(&mut self, now: Instant, ack: &Ack) -> Fresh {
        let prior_in_flight = self.board.in_flight();
        let mut fresh = Fresh { sample: Sample { prior_in_flight, ..Sample::default() }, ..Fresh::default() };
        let highest = self.board.sacked.end();
        let mut sacked = std::mem::take(&mut self.board.sacked);
        for block in &ack.blocks {
            let above = block.start.max(self.board.una).max(ack.next)..block.end;
            let mut missing = Vec::new();
            sacked.insert(above, |range| missing.push(range));
            for seq in missing.into_iter().flatten() {
                let was = self.board.sack(seq);
                self.arrived(now, seq, &was, highest, false, &mut fresh);
            }
        }
        while self.board.una < ack.next {
            let seq = self.board.una;
            let was = self.board.acknowledge();
            if !was.is_sacked {
                self.arrived(now, seq, &was, highest, true, &mut fresh);
            }
        }
        sacked.remove_below(self.board.una);
        self.board.sacked = sacked;
        fresh
    }

    fn arrived(
        &mut self,
        now: Instant,
        seq: u64,
        was: &Slot,
        highest: Option<u64>,
        is_cumulative: bool,
        fresh: &mut Fresh,
    ) {
        if was.was_resent {
            fresh.is_ambiguous |= is_cumulative;
        } else {
            let rtt = now.since(was.sent_at);
            let rtts = if is_cumulative { &mut fresh.acknowledged } else { &mut fresh.sacked };
            *rtts = Some(rtts.map_or((rtt, rtt), |(first, last)| (first.max(rtt), last.min(rtt))));
            fresh.is_reordered |= highest.is_some_and(|highest| seq < highest);
        }
        self.rack.arrived(now, was.sent_at, seq, was.was_resent, self.timing.min_rtt);
        self.delivery.arrived(&mut fresh.sample, seq, was);
    }

    /// `tcp_process_tlp_ack`: a probe that repaired a loss costs a cut.
    fn take_probe(&mut self, now: Instant, ack: &Ack) {
        let Some(high) = self.probe.high else { return };
        if ack.next < high {
            return;
        }
        if !self.probe.is_again || ack.duplicate.is_some() {
            self.probe = Probe::default();
        } else if ack.next > high {
            self.probe = Probe::default();
            self.enter_cwr(now);
            self.end_reduction();
            self.keep_open(now);
        }
    }

    /// Begins a cut without a loss.
    fn enter_cwr(&mut self, now: Instant) {
        if matches!(self.window.state, CongestionState::Open | CongestionState::Disorder) {
            self.window.prior_ssthresh = 0;
            let ssthresh = self.control.ssthresh(&self.window);
            self.window.reduce(self.board.nxt(), ssthresh);
            self.set_state(now, CongestionState::Cwr);
        }
    }

    /// The device refused a packet.
    pub(crate) fn refused(&mut self, now: Instant) {
        self.enter_cwr(now);
    }

    fn set_state(&mut self, now: Instant, state: CongestionState) {
        if self.window.state != state {
            let view = self.view(now);
            self.control.enters(&view, state);
            self.window.state = state;
            if state == CongestionState::Open {
                self.window.opens();
            }
        }
    }

    fn keep_open(&mut self, now: Instant) {
        let has_left = self.board.sacked_out + self.board.lost_out + self.board.resent_out > 0;
        self.set_state(now, if has_left { CongestionState::Disorder } else { CongestionState::Open });
    }

    fn end_reduction(&mut self) {
        if !self.control.is_rate_based() {
            self.window.reduced();
        }
    }

    /// `tcp_fastretrans_alert`. Returns the time until the next packet counts as lost.
    fn alert(&mut self, now: Instant, is_late: bool) -> Option<Duration> {
        let una = self.board.una;
        let is_repaired = una >= self.window.high_seq;
        let is_undone = match self.window.state {
            // `tcp_try_undo_partial`: a hole was filled by a late packet.
            CongestionState::Recovery if is_late => {
                self.rack.reorderings += 1;
                is_repaired || self.board.resent_out == 0
            }
            CongestionState::Loss => is_repaired && (is_late || self.window.was_spurious()),
            _ => self.window.was_spurious(),
        };
        if is_undone {
            let cwnd = self.control.undo_cwnd(&self.window);
            self.window.undo(cwnd);
        }
        match self.window.state {
            CongestionState::Cwr if una > self.window.high_seq => {
                self.end_reduction();
                self.set_state(now, CongestionState::Open);
            }
            CongestionState::Recovery if is_repaired => {
                self.end_reduction();
                self.rack.recovered();
                self.set_state(now, CongestionState::Open);
            }
            CongestionState::Loss if is_repaired => {
                self.set_state(now, CongestionState::Open);
            }
            _ => {}
        }
        if is_undone {
            self.keep_open(now);
        }
        let wait = self.detect(now);
        match self.window.state {
            CongestionState::Recovery | CongestionState::Loss => {}
            _ if self.board.lost_out > 0 => self.enter_recovery(now),
            CongestionState::Cwr => {}
            _ if self.board.sacked_out > 0 => self.set_state(now, CongestionState::Disorder),
            _ => self.set_state(now, CongestionState::Open),
        }
        wait
    }

    fn detect(&mut self, now: Instant) -> Option<Duration> {
        let (min_rtt, srtt) = (self.timing.min_rtt, self.timing.srtt);
        let late = self.rack.wait(self.window.state, self.board.sacked_out, min_rtt, srtt);
        self.board.detect(now, self.rack.latest, self.rack.rtt + late).1
    }

    fn enter_recovery(&mut self, now: Instant) {
        let was_reducing = self.window.is_reducing();
        self.window.may_undo_from(self.board.una, was_reducing, self.board.resent_out);
        if !was_reducing {
            let ssthresh = self.control.ssthresh(&self.window);
            self.window.reduce(self.board.nxt(), ssthresh);
        }
        self.probe = Probe::default();
        self.counts.recoveries += 1;
        self.set_state(now, CongestionState::Recovery);
    }

    /// `tcp_cong_control`.
    fn control_window(&mut self, now: Instant, sample: &Sample, has_advanced: bool) {
        let view = self.view(now);
        let is_reducing = self.window.is_reducing() && !self.control.is_rate_based();
        if is_reducing {
            self.window.proportional(sample.acked, has_advanced, sample.losses, view.in_flight);
        }
        let is_slow_start = self.window.cwnd < self.window.ssthresh;
        let is_used = self.usage.is_limited || is_slow_start && self.window.cwnd < 2 * self.usage.max_out;
        let may_grow = !is_reducing && is_used && (has_advanced || self.rack.reorderings > 0);
        let rate = self.control.acknowledged(&view, &mut self.window, sample, may_grow);
        self.pace.packets_per_s = rate.min(self.pace.most);
        if self.bbr().is_some_and(|(mode, _)| mode == Mode::ProbeRtt) {
            self.delivery.app_limited_until = Some(self.delivery.delivered + u64::from(view.in_flight));
        }
    }

    /// Sets the timer, `late` being the time until the next packet counts as lost.
    pub(super) fn arm(&mut self, now: Instant, late: Option<Duration>) {
        let out = self.board.packets_out();
        let may_probe = self.board.sacked_out == 0
            && self.probe.high.is_none()
            && matches!(self.window.state, CongestionState::Open | CongestionState::Cwr);
        self.timing.armed = match late {
            _ if out == 0 => None,
            Some(late) => Some((now + late, Timer::Reordering)),
            None if may_probe => Some((now + self.timing.probe(out), Timer::Probe)),
            None => Some((now + self.timing.timeout(), Timer::Timeout)),
        };
    }

    /// Does what a timer wants.
    pub fn wake(&mut self, now: Instant) {
        let Some((_, timer)) = self.timing.armed.take_if(|(at, _)| *at <= now) else { return };
        match timer {
            Timer::Reordering => self.late(now),
            Timer::Probe => {
                let is_again = self.board.nxt() >= self.written;
                let due = self.board.nxt() - u64::from(is_again);
                self.probe = Probe { due: Some(due), high: Some(due + 1), is_again };
                self.arm(now, None);
            }
            Timer::Timeout => self.time_out(now),
        }
    }

    /// `tcp_rack_reo_timeout`.
    fn late(&mut self, now: Instant) {
        let before = self.board.in_flight();
        let wait = self.detect(now);
        if self.board.in_flight() < before {
            if !matches!(self.window.state, CongestionState::Recovery | CongestionState::Loss) {
                self.enter_recovery(now);
            }
            if self.window.is_reducing() && !self.control.is_rate_based() {
                self.window.proportional(1, false, 1, self.board.in_flight());
            }
        }
        self.arm(now, wait);
    }

    fn time_out(&mut self, now: Instant) {
        let is_new = matches!(self.window.state, CongestionState::Open | CongestionState::Disorder)
            || self.board.una >= self.window.high_seq;
        if is_new {
            self.window.may_undo_from(self.board.una, false, self.board.resent_out);
            let ssthresh = self.control.ssthresh(&self.window);
            self.window.reduce(self.board.nxt(), ssthresh);
        }
        let late = self.rack.wait(CongestionState::Loss, self.board.sacked_out, None, None);
        self.board.give_up(now, self.rack.rtt + late);
        self.window.cwnd = self.board.in_flight() + 1;
        self.window.high_seq = self.board.nxt();
        self.set_state(now, CongestionState::Loss);
        self.probe = Probe::default();
        self.timing.backoff += 1;
        self.counts.timeouts += 1;
        self.pace.next_at = now;
        self.arm(now, None);
    }
}
