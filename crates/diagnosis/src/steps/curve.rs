//! Figures of all steps of one load: the base of latency and round trip, the best rates by role, and the best of all.

use super::{StepEnd, StepObservation, StepRole};

/// Gain from more requests outstanding below which the nominal load is saturated.
pub(super) const SATURATED: f64 = 1.25;
/// Gain of more sessions from which on a limit is one of each connection. Several flows use a full line with a short queue
/// better than one, by up to a fifth: the window of one CUBIC flow moves between 0.7 and 1 of the product (RFC 9438).
const OF_CONNECTION: f64 = 1.25;
/// The same where neither a queue nor losses show: nothing but the connections' own limits differs then.
const OF_QUIET_CONNECTION: f64 = 1.12;
/// Packets behind a gap from which on losses are meant: one loss has a round trip's worth of packets behind it.
pub(super) const BEHIND_GAP: f64 = 8.0;
/// Latency, in base latencies, below which requests do not wait for each other.
const WAITS: f64 = 1.25;
/// Requests outstanding at most, over all sessions, and bytes: those of an iSCSI initiator on a large host.
pub(super) const DEPTH_MAX: f64 = 1024.0;
pub(super) const OUTSTANDING_MAX_BYTES: f64 = (128 << 20) as f64;
/// Gain of a whole step from which on a rate still rises.
const STILL_RISING: f64 = 1.1;
/// The same for four times as many sessions: a limit of each of them rises fourfold.
const STILL_SPREADING: f64 = 2.4;
/// Growth of round trips below which it is noise: of the smallest one, and in seconds, a tick of a busy host.
pub(super) const QUEUE: (f64, f64) = (0.25, 0.001);
/// A rate so near to the best of its kind is reached.
const REACHED: f64 = 0.93;

/// Steps of one load, seen from the nominal one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Curve<'a> {
    pub(super) asked: &'a StepObservation,
    pub(super) seen: &'a [StepObservation],
}

/// A rate that was measured, where, and whether it still rose there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peak<'a> {
    pub(super) at: &'a StepObservation,
    pub(super) is_rising: bool,
}

impl<'a> Curve<'a> {
    /// `None` without the nominal load.
    pub(super) fn of(seen: &'a [StepObservation]) -> Option<Curve<'a>> {
        let asked = seen.iter().find(|step| step.load.role == StepRole::Nominal)?;
        Some(Curve { asked, seen })
    }

    pub(super) fn all(&self, role: StepRole) -> impl DoubleEndedIterator<Item = &'a StepObservation> {
        self.seen.iter().filter(move |step| step.load.role == role)
    }

    /// The step with one request in each session, which may be the nominal one.
    pub(super) fn low(&self) -> Option<&'a StepObservation> {
        let is_low = self.asked.load.depth == Some(1);
        self.all(StepRole::Low).next().or(Some(self.asked).filter(|_| is_low))
    }

    /// Round trip without a load: the smallest that any step saw.
    pub(super) fn rtt_s(&self) -> f64 {
        let least = self.seen.iter().filter_map(|step| step.facts.path.rtt_s);
        least.reduce(f64::min).unwrap_or(0.0)
    }

    /// Best rate with more requests outstanding, and the fewest that reach it; the last step if none reaches the nominal rate.
    pub(super) fn more(&self) -> Option<Peak<'a>> {
        let best = self.all(StepRole::More).map(StepObservation::rate).fold(self.asked.rate(), f64::max);
        let last = self.all(StepRole::More).next_back()?;
        let at = self.all(StepRole::More).find(|step| step.rate() >= REACHED * best).unwrap_or(last);
        let before = self.all(StepRole::More).rev().nth(1).unwrap_or(self.asked);
        // One that was ended because requests became slow does not rise any more.
        let is_rising = last.end == StepEnd::Whole && last.rate() >= STILL_RISING * before.rate();
        Some(Peak { at, is_rising })
    }

    /// Best rate with the same requests over more sessions, and the fewest that reach it.
    pub(super) fn spread(&self) -> Option<Peak<'a>> {
        let best = self.all(StepRole::Spread).map(StepObservation::rate).fold(0.0, f64::max);
        let at = self.all(StepRole::Spread).find(|step| step.rate() >= REACHED * best)?;
        let last = self.all(StepRole::Spread).next_back()?;
        let before = self.all(StepRole::Spread).rev().nth(1).unwrap_or(self.asked);
        Some(Peak { at, is_rising: last.rate() >= STILL_SPREADING * before.rate() })
    }

    /// Best rate of any step, and whether no step raised it any more.
    pub(super) fn best(&self) -> (f64, bool) {
        let rate = self.seen.iter().map(StepObservation::rate).fold(0.0, f64::max);
        let (more, spread) = (self.more(), self.spread());
        // A rate that more requests do not raise may still be one connection's.
        let is_flat = match (more, spread) {
            (_, Some(spread)) => !spread.is_rising,
            (Some(more), None) => !more.is_rising,
            (None, None) => false,
        };
        (rate, is_flat)
    }

    /// Gain of a peak over the nominal load.
    pub(super) fn gain(&self, peak: Peak<'_>) -> f64 {
        peak.at.rate() / self.asked.rate().max(1e-9)
    }

    /// The peak of more sessions, if they carry more: the limit is one of each connection, or of each session.
    pub(super) fn of_connections(&self) -> Option<Peak<'a>> {
        let facts = &self.asked.facts;
        let lost = facts.sender.map_or(0.0, |sender| sender.traffic.retransmitted);
        let behind_gap = facts.receiver.behind_gap_packets.unwrap_or(0.0);
        let is_quiet = lost + behind_gap < BEHIND_GAP && self.queue_s() < QUEUE.0 * self.rtt_s();
        let least = if is_quiet { OF_QUIET_CONNECTION } else { OF_CONNECTION };
        self.spread().filter(|spread| self.gain(*spread) >= least)
    }

    /// True if no plan goes beyond the nominal load.
    pub(super) fn is_at_most(&self) -> bool {
        let requests = self.asked.outstanding();
        let bytes = requests * self.asked.load.request_bytes as f64;
        requests >= DEPTH_MAX || bytes >= OUTSTANDING_MAX_BYTES
    }

    /// Growth of the round trip under the load, in seconds.
    pub(super) fn queue_s(&self) -> f64 {
        self.asked.facts.path.loaded_rtt_s.unwrap_or(0.0) - self.rtt_s()
    }

    /// True if requests wait for each other.
    pub(super) fn is_waiting(&self) -> bool {
        let own_s = match self.low() {
            Some(low) if !std::ptr::eq(low, self.asked) => low.latency_s(),
            _ => return true,
        };
        self.asked.latency_s() >= WAITS * own_s
    }

    /// The same steps, seen from another one.
    pub(super) fn seen_from(&self, step: &'a StepObservation) -> Curve<'a> {
        Curve { asked: step, ..*self }
    }
}
