//! `auto` in bulk behind a device that takes packets one by one: several senders whose windows a short ring must not cut,
//! each modelled by the kernel's rules (`testing/sender.rs`) and handed its data as the target does it.

use core::time::Duration;

use event::Instant;

use crate::lone::space::worth_bytes;
use crate::policy::Observation;
use crate::testing::sender::{Congestion, LINE, MSS, Sender, Setting, TICK};
use crate::{Choice, Sharing};

const LOOK_EVERY: Duration = Duration::from_millis(9);
const LOOK_LEAST: Duration = Duration::from_millis(2);
/// What the kernel holds unsent of a connection whose rate is not known.
const NOTSENT_BYTES: u64 = 256 << 10;

/// A sender that always has something to send.
struct Bulk {
    sender: Sender,
    policy: Box<dyn crate::Policy>,
    filled_bytes: u64,
    was_short: bool,
    forgotten: u32,
}

impl Bulk {
    fn new(sender: Sender) -> Bulk {
        let policy = Choice::Auto.policy();
        Bulk { sender, policy, filled_bytes: 0, was_short: false, forgotten: 0 }
    }

    /// Hands over what may be, of no more than `gate_bytes`; how much.
    fn step(&mut self, gate_bytes: u64) -> u64 {
        let decision = self.policy.decide();
        let notsent_bytes = self.sender.info().backlog_bytes;
        let room_bytes = decision.held_bytes.unwrap_or(NOTSENT_BYTES).saturating_sub(notsent_bytes);
        let bytes = match decision.burst_bytes_per_s {
            None => room_bytes.min(gate_bytes),
            Some(rate) => {
                let gained = rate * TICK.as_micros() as u64 / 1_000_000;
                self.filled_bytes = (self.filled_bytes + gained).min(decision.burst_depth_bytes);
                let least = worth_bytes(decision.burst_depth_bytes, Some(rate));
                self.was_short |= self.filled_bytes < least;
                if self.filled_bytes < least { 0 } else { self.filled_bytes.min(room_bytes).min(gate_bytes) }
            }
        };
        let packets = bytes / MSS;
        self.filled_bytes = self.filled_bytes.saturating_sub(packets * MSS);
        self.sender.hand(packets as u32);
        self.sender.step();
        packets * MSS
    }

    fn look(&mut self) {
        let info = self.sender.info();
        self.policy.observe(&Observation {
            app_limited: self.was_short && info.backlog_bytes == 0,
            backlog_bytes: 8 << 20,
            burst_bytes: 8 << 20,
            was_spaced: core::mem::take(&mut self.was_short),
            paced_one_by_one: true,
            request_bytes: 1 << 20,
            ..info
        });
        let decision = self.policy.decide();
        if decision.thresholds_forgotten > self.forgotten {
            self.forgotten = decision.thresholds_forgotten;
            self.sender.forget_threshold();
        }
    }
}

/// Senders of one process, and what it knows of them.
struct Process {
    senders: Vec<Bulk>,
    sharing: Sharing,
    /// What they may hand over together.
    gate_bytes: u64,
    next_look: Instant,
}

impl Process {
    fn new(setting: Setting, count: usize) -> Process {
        let first = Sender::new(setting);
        let others: Vec<Sender> = (1..count).map(|_| first.beside()).collect();
        let senders = others.into_iter().chain([first]).map(Bulk::new).collect();
        Process { senders, sharing: Sharing::new(), gate_bytes: 0, next_look: Instant::ZERO }
    }

    /// One more, from now on.
    fn join(&mut self) {
        let newcomer = self.senders[0].sender.beside();
        self.senders.push(Bulk::new(newcomer));
    }

    /// What each has carried until then.
    fn until(&mut self, end: Duration) -> Vec<u64> {
        while self.senders[0].sender.now < Instant::ZERO + end {
            let now = self.senders[0].sender.now;
            if now >= self.next_look {
                self.look(now);
            }
            self.step();
        }
        self.senders.iter().map(|bulk| u64::from(bulk.sender.info().delivered_packets) * MSS).collect()
    }

    fn step(&mut self) {
        let Some((rate, depth_bytes)) = self.sharing.ring() else {
            self.senders.iter_mut().for_each(|bulk| _ = bulk.step(u64::MAX));
            return;
        };
        self.gate_bytes = (self.gate_bytes + rate * TICK.as_micros() as u64 / 1_000_000).min(depth_bytes);
        for bulk in &mut self.senders {
            let is_worth_it = self.gate_bytes >= worth_bytes(depth_bytes, None);
            self.gate_bytes -= bulk.step(if is_worth_it { self.gate_bytes } else { 0 });
        }
    }

    fn look(&mut self, now: Instant) {
        self.senders.iter_mut().for_each(Bulk::look);
        let claims: Vec<_> =
            self.senders.iter().map(|bulk| bulk.policy.claim().unwrap_or_default()).collect();
        for (bulk, part) in self.senders.iter_mut().zip(self.sharing.share(now, &claims)) {
            bulk.policy.grant(part);
        }
        let soonest = self.senders.iter().map(|bulk| bulk.policy.decide().look_again).min();
        self.next_look = now + soonest.unwrap_or(LOOK_EVERY).clamp(LOOK_LEAST, LOOK_EVERY);
    }
}

/// How much of the line they have together between two times, and Jain's index of what each has of it.
fn shares(process: &mut Process, from: Duration, until: Duration) -> (f64, f64) {
    let before = process.until(from);
    let each: Vec<f64> =
        process.until(until).iter().zip(before).map(|(end, begin)| (end - begin) as f64).collect();
    let all: f64 = each.iter().sum();
    let squares: f64 = each.iter().map(|bytes| bytes * bytes).sum();
    (all / (LINE as f64 * (until - from).as_secs_f64()), all * all / (squares * each.len() as f64))
}

#[test]
fn behind_any_ring_all_together_fill_the_line_and_share_it() {
    // Under Reno a window that was cut takes one packet a round trip: half a minute over 64 ms.
    let least = |congestion, rtt_ms| match (congestion, rtt_ms) {
        (Congestion::Cubic, ..=16) => 0.95,
        (Congestion::Reno, ..=16) => 0.85,
        (Congestion::Cubic, _) => 0.85,
        (Congestion::Reno, _) => 0.5,
    };
    let paths = [(4, 1), (4, 4), (16, 1), (16, 2), (16, 3), (16, 4), (16, 8), (64, 1), (64, 4)];
    for congestion in [Congestion::Cubic, Congestion::Reno] {
        let rings = [80, 256, 4096].into_iter().flat_map(|ring| [(ring, false), (ring, true)]);
        for ((ring_packets, forgets_freely), (rtt_ms, count)) in
            rings.flat_map(|ring| paths.map(|path| (ring, path)))
        {
            let rtt = Duration::from_millis(rtt_ms);
            let setting = Setting { forgets_freely, ..Setting::new(congestion, rtt, ring_packets) };
            let mut process = Process::new(setting, count);
            let begun = 20 * rtt;
            let (_, fairness) = shares(&mut process, begun, begun + Duration::from_secs(2));
            assert!(fairness >= 0.9, "{count} after twenty round trips: {fairness:.3}: {setting:?}");
            let (line, fairness) = shares(&mut process, Duration::from_secs(20), Duration::from_secs(40));
            assert!(line >= least(congestion, rtt_ms), "{count}: {line:.3} of the line: {setting:?}");
            assert!(fairness >= 0.98, "{count}: {fairness:.3}: {setting:?}");
        }
    }
}

/// Somebody comes when the others have had the line to themselves, at any time of what they do then.
#[test]
fn a_newcomer_has_its_share_after_twenty_round_trips() {
    let (rtt, window) = (Duration::from_millis(16), Duration::from_secs(2));
    for (ring_packets, others) in
        [80, 256, 1024, 4096].into_iter().flat_map(|ring| [1, 2, 3, 7].map(|others| (ring, others)))
    {
        let setting = Setting { forgets_freely: true, ..Setting::new(Congestion::Cubic, rtt, ring_packets) };
        for comes in (0..8).map(|n| Duration::from_millis(5000 + 37 * n)) {
            let mut process = Process::new(setting, others);
            process.until(comes);
            process.join();
            let before = process.until(comes + 20 * rtt)[others];
            let bytes = process.until(comes + 20 * rtt + window)[others] - before;
            let part = LINE as f64 * window.as_secs_f64() / (others + 1) as f64;
            let share = bytes as f64 / part;
            assert!(share >= 0.9, "{share:.2} beside {others} after {comes:?}: {setting:?}");
        }
    }
}

/// Each stop fills the ring and cuts every window. Those grow back, and what the ring is taken for stays what it was. One
/// window alone behind the shortest ring takes longer to grow back than it is left, unless its threshold is forgotten.
#[test]
fn a_ring_that_stands_still_now_and_then_is_no_slower_for_it() {
    let (rtt, stops_every) = (Duration::from_millis(16), Some(Duration::from_millis(3300)));
    let paced = [(80, 1, 0.3), (80, 4, 0.8), (256, 1, 0.8), (256, 2, 0.8), (256, 4, 0.8)];
    let free = [80, 256].into_iter().flat_map(|ring| [1, 2, 4].map(|count| (ring, count, 0.95)));
    let cases = paced.into_iter().map(|case| (false, case)).chain(free.map(|case| (true, case)));
    for (forgets_freely, (ring_packets, count, least)) in cases {
        let setting =
            Setting { stops_every, forgets_freely, ..Setting::new(Congestion::Cubic, rtt, ring_packets) };
        let mut process = Process::new(setting, count);
        for begun in [20, 40, 60, 80, 100].map(Duration::from_secs) {
            let (line, fairness) = shares(&mut process, begun, begun + Duration::from_secs(20));
            assert!(line >= least, "{count}: {line:.3} of the line after {begun:?}: {setting:?}");
            assert!(fairness >= 0.98, "{count}: {fairness:.3} after {begun:?}: {setting:?}");
        }
    }
}
