//! `auto` beside `none` where a caller has one block outstanding: it must not cost anything, whatever the window does.
//!
//! Two things could make it slower. Data that are handed over in portions fill a window less, and a window that is not
//! filled does not grow; and a train that is handed over slower than the line ends CUBIC's slow start sooner. Both
//! senders are modelled by the kernel's rules (`testing/sender.rs`) and compared with each other; several at a time too,
//! whose bursts take turns or do not (`crowd.rs`).

use core::cell::RefCell;
use core::time::Duration;
use std::collections::BTreeMap;
use std::rc::Rc;

use event::Instant;

use crate::lone::space::worth_bytes;
use crate::policy::Observation;
use crate::testing::sender::{Congestion, LINE, MSS, Sender, Setting, TICK};
use crate::{Burst, BurstStart, Choice, Crowd, Met, Order, Sharing};

const BLOCK_PACKETS: u32 = 724;
/// The longest time between two looks, likewise.
const LOOK_EVERY: Duration = Duration::from_millis(9);

/// How often their process looks at all of them.
const SHARE_EVERY: Duration = Duration::from_millis(2);

/// What a process knows of those whom it serves, and the bucket that all go through behind a device that takes packets one by
/// one.
#[derive(Default)]
struct Process {
    is_one_by_one: bool,
    crowd: Crowd,
    sharing: Sharing,
    met: BTreeMap<usize, Met>,
    order: Order,
    /// Of the bucket, if there is one: how fast it fills, and how full it is at most.
    ring: Option<(u64, u64)>,
    filled_bytes: u64,
    was_short: bool,
    next_look: Instant,
}

impl Process {
    fn step(&mut self, now: Instant) {
        if now >= self.next_look {
            self.next_look = now + SHARE_EVERY;
            let met: Vec<(usize, Met)> = self.met.iter().map(|(number, met)| (*number, *met)).collect();
            self.sharing.meet(now, &met, std::mem::take(&mut self.was_short));
            self.ring = self.sharing.ring();
            self.crowd.go_through(self.ring.map(|(rate, _)| rate));
        }
        let Some((rate, depth_bytes)) = self.ring else { return };
        self.filled_bytes = (self.filled_bytes + rate * TICK.as_micros() as u64 / 1_000_000).min(depth_bytes);
    }

    /// How much of what waits may go on.
    fn room(&mut self, number: usize, now: Instant, waiting_bytes: u64) -> u64 {
        let Some((_, depth_bytes)) = self.ring else { return u64::MAX };
        let least = worth_bytes(depth_bytes, None).min(waiting_bytes);
        if !self.order.ask(number, now) {
            return 0;
        }
        self.was_short |= self.filled_bytes < least;
        if self.filled_bytes < least { 0 } else { self.filled_bytes }
    }

    fn take(&mut self, number: usize, bytes: u64) {
        self.filled_bytes = self.filled_bytes.saturating_sub(bytes);
        self.order.take(number, bytes);
    }
}

/// A sender under a policy whose receiver asks for the next block when it has the one before.
struct Lone {
    sender: Sender,
    policy: Box<dyn crate::Policy>,
    /// That serves it among others, and which of them it is.
    process: Rc<RefCell<Process>>,
    number: usize,
    start: Option<BurstStart>,
    /// Of the block, what was not handed to TCP.
    held_packets: u32,
    filled_bytes: u64,
    was_short: bool,
    burst_bytes: u64,
    /// Of the burst at hand, what went out after its beginning, which was then, and when the last of it did.
    handed: (u64, Instant, Instant),
    next_look: Instant,
    forgotten: u32,
}

impl Lone {
    fn new(setting: Setting, choice: Choice) -> Lone {
        Lone::of(Sender::new(setting), choice, 0, &Rc::default())
    }

    fn of(sender: Sender, choice: Choice, number: usize, process: &Rc<RefCell<Process>>) -> Lone {
        Lone {
            sender,
            policy: choice.policy(),
            process: Rc::clone(process),
            number,
            start: None,
            held_packets: 0,
            filled_bytes: 0,
            was_short: false,
            burst_bytes: 0,
            handed: (0, Instant::ZERO, Instant::ZERO),
            next_look: Instant::ZERO,
            forgotten: 0,
        }
    }

    /// Payload that arrives until then.
    fn until(&mut self, end: Duration) -> u64 {
        while self.sender.now < Instant::ZERO + end {
            self.step();
        }
        self.arrived()
    }

    fn arrived(&self) -> u64 {
        u64::from(self.sender.info().delivered_packets) * MSS
    }

    fn step(&mut self) {
        if self.held_packets == 0 && self.sender.is_done() {
            self.held_packets = BLOCK_PACKETS;
            self.begin();
        }
        if self.start.is_none_or(|start| self.sender.now >= start.at) {
            self.hand();
        }
        self.sender.step();
        if self.sender.now >= self.next_look {
            self.look();
        }
    }

    fn begin(&mut self) {
        let process = &mut *self.process.borrow_mut();
        process.order.leave(self.number);
        self.handed = (0, Instant::ZERO, Instant::ZERO);
        let rate = self.policy.decide().burst_bytes_per_s;
        self.start = rate.map(|bytes_per_s| {
            let burst = Burst { bytes: u64::from(self.held_packets) * MSS, bytes_per_s };
            process.crowd.begin(self.number, self.sender.now, burst)
        });
    }

    fn hand(&mut self) {
        let waiting_bytes = u64::from(self.held_packets) * MSS;
        self.burst_bytes = self.burst_bytes.max(waiting_bytes);
        let decision = self.policy.decide();
        let Some(rate) = decision.burst_bytes_per_s else {
            self.sender.hand(std::mem::take(&mut self.held_packets));
            return;
        };
        let rate = self.start.map_or(rate, |start| rate.max(start.least_bytes_per_s));
        let process = &mut *self.process.borrow_mut();
        let depth_bytes = decision.burst_depth_bytes;
        let gained = rate * TICK.as_micros() as u64 / 1_000_000;
        self.filled_bytes = (self.filled_bytes + gained).min(depth_bytes);
        let least = worth_bytes(depth_bytes, process.ring.map(|_| rate));
        if self.filled_bytes < waiting_bytes.min(least) {
            self.was_short = true;
            if !self.start.is_some_and(|start| start.keeps_others) {
                process.order.pause(self.number);
            }
            return;
        }
        let notsent_bytes = self.sender.info().backlog_bytes;
        let room_bytes = decision.held_bytes.map_or(u64::MAX, |held| held.saturating_sub(notsent_bytes));
        if self.held_packets == 0 || room_bytes < MSS {
            return process.order.pause(self.number);
        }
        let gate_bytes = process.room(self.number, self.sender.now, self.filled_bytes);
        self.was_short |= gate_bytes == 0;
        let packets = self.held_packets.min((self.filled_bytes.min(room_bytes).min(gate_bytes) / MSS) as u32);
        process.take(self.number, u64::from(packets) * MSS);
        self.filled_bytes -= u64::from(packets) * MSS;
        self.held_packets -= packets;
        if packets > 0 {
            let now = self.sender.now;
            let (bytes, begun, _) = self.handed;
            self.handed = if begun == Instant::ZERO {
                (0, now, now)
            } else {
                (bytes + u64::from(packets) * MSS, begun, now)
            };
        }
        self.sender.hand(packets);
    }

    /// How fast the burst at hand went out.
    fn handed_bytes_per_s(&self) -> u64 {
        let (bytes, begun, last) = self.handed;
        let us = last.since(begun).as_micros() as u64;
        if us < 3_000 { 0 } else { bytes * 1_000_000 / us }
    }

    fn look(&mut self) {
        let info = self.sender.info();
        let backlog_bytes = info.backlog_bytes + u64::from(self.held_packets) * MSS;
        let handed_bytes_per_s = self.handed_bytes_per_s();
        let process = &mut *self.process.borrow_mut();
        self.policy.observe(&Observation {
            backlog_bytes,
            burst_bytes: std::mem::take(&mut self.burst_bytes).max(backlog_bytes),
            was_spaced: std::mem::take(&mut self.was_short),
            paced_one_by_one: process.is_one_by_one,
            handed_bytes_per_s,
            request_bytes: 1 << 20,
            ..info
        });
        if let Some(train) = self.policy.arrived() {
            process.crowd.arrived(self.number, self.sender.now, train);
        }
        process.met.remove(&self.number);
        process.met.extend(self.policy.met().map(|met| (self.number, met)));
        let decision = self.policy.decide();
        if decision.thresholds_forgotten > self.forgotten {
            self.forgotten = decision.thresholds_forgotten;
            self.sender.forget_threshold();
        }
        self.next_look = self.sender.now + decision.look_again.min(LOOK_EVERY);
    }
}

/// Packets that a ring has room for, and whether a threshold is forgotten freely.
fn rings() -> impl Iterator<Item = (usize, bool)> {
    [80, 256, 4096].into_iter().flat_map(|ring| [(ring, false), (ring, true)])
}

/// What arrives under `none` and under `auto` in the first two seconds, and in the four after that.
fn compare(setting: Setting) -> [[u64; 2]; 2] {
    [Choice::None, Choice::Auto].map(|choice| {
        let mut lone = Lone::new(setting, choice);
        let begun = lone.until(Duration::from_secs(2));
        [begun, lone.until(Duration::from_secs(6)) - begun]
    })
}

#[test]
fn spacing_costs_little_at_first_and_nothing_once_the_line_is_found() {
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        for (ring_packets, forgets_freely) in rings() {
            for rtt_ms in [2, 4, 8, 16, 32, 100] {
                let rtt = Duration::from_millis(rtt_ms);
                let setting = Setting { forgets_freely, ..Setting::new(congestion, rtt, ring_packets) };
                let [[none_begun, none], [auto_begun, auto]] = compare(setting);
                let behind = none_begun.saturating_sub(auto_begun) >> 20;
                assert!(behind <= 2, "{behind} blocks behind after two seconds: {setting:?}");
                assert!(auto * 100 >= none * 98, "{:.3} of none: {setting:?}", auto as f64 / none as f64);
            }
        }
    }
}

/// What a block each round trip comes to in four seconds.
fn bound(setting: Setting) -> u64 {
    let block_bytes = u64::from(BLOCK_PACKETS) * MSS;
    let serialisation = Duration::from_nanos(block_bytes * 1_000_000_000 / LINE);
    4 * block_bytes * 1_000_000_000 / (setting.rtt + serialisation).as_nanos() as u64
}

/// Twice and more of what there is without, and nearly all that a block each round trip can have where a threshold may be
/// forgotten freely: else the kernel paces it, and a window that is cut again waits longer.
#[test]
fn a_window_that_the_shortest_ring_has_cut_doubles_again() {
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        for (rtt_ms, forgets_freely) in [8, 16, 32].into_iter().flat_map(|ms| [(ms, false), (ms, true)]) {
            let rtt = Duration::from_millis(rtt_ms);
            let setting = Setting { forgets_freely, ..Setting::new(congestion, rtt, 80) };
            let [[_, none], [_, auto]] = compare(setting);
            let bound = bound(setting);
            assert!(auto >= 2 * none, "{auto} beside {none}, {bound} is the most: {setting:?}");
            let is_bound = auto * 100 >= bound * 95;
            assert!(is_bound || !forgets_freely, "{auto} of {bound}: {setting:?}");
        }
    }
}

/// What several carry together in four seconds, after six in which they find the line.
fn together(senders: Vec<Sender>, choice: Choice, is_one_by_one: bool) -> u64 {
    let process = Rc::new(RefCell::new(Process { is_one_by_one, ..Process::default() }));
    let numbered = senders.into_iter().enumerate();
    let mut all: Vec<Lone> =
        numbered.map(|(number, sender)| Lone::of(sender, choice, number, &process)).collect();
    let mut until = |seconds| {
        while all[0].sender.now < Instant::ZERO + Duration::from_secs(seconds) {
            process.borrow_mut().step(all[0].sender.now);
            all.iter_mut().for_each(Lone::step);
        }
        all.iter().map(Lone::arrived).sum::<u64>()
    };
    let begun = until(6);
    until(10) - begun
}

/// So many behind one device.
fn beside(setting: Setting, count: usize) -> Vec<Sender> {
    let first = Sender::new(setting);
    let others: Vec<Sender> = (1..count).map(|_| first.beside()).collect();
    others.into_iter().chain([first]).collect()
}

#[test]
fn several_that_ask_for_a_block_each_carry_as_much_with_any_queue() {
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        let paths = [(16, 2), (16, 3), (16, 4), (32, 2), (32, 4)];
        let cases = rings().flat_map(|ring| paths.map(|path| (ring, path)));
        for ((ring_packets, forgets_freely), (rtt_ms, count)) in cases.chain([((4096, false), (16, 8))]) {
            let rtt = Duration::from_millis(rtt_ms);
            let setting = Setting { forgets_freely, ..Setting::new(congestion, rtt, ring_packets) };
            let [none, auto] =
                [Choice::None, Choice::Auto].map(|choice| together(beside(setting, count), choice, false));
            let share = auto as f64 / none as f64;
            assert!(share >= 0.98, "{count}: {share:.3} of {none}: {setting:?}");
        }
    }
}

/// So much that several carry together behind a device that takes packets one by one, of what they could: a block each in a
/// round trip, or the line.
fn share_of_most(setting: Setting, count: usize) -> f64 {
    let most = (count as u64 * bound(setting)).min(4 * LINE);
    together(beside(setting, count), Choice::Auto, true) as f64 / most as f64
}

#[test]
fn several_together_do_not_fill_a_ring() {
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        for (ring_packets, count) in
            [80, 256, 1024].into_iter().flat_map(|ring| [2, 3, 4, 8].map(|count| (ring, count)))
        {
            let setting = Setting {
                forgets_freely: true,
                ..Setting::new(congestion, Duration::from_millis(16), ring_packets)
            };
            let share = share_of_most(setting, count);
            assert!(share >= 0.88, "{count}: {share:.3}: {setting:?}");
        }
    }
}

#[test]
fn lines_of_their_own_are_left_to_their_own() {
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        for (ring_packets, forgets_freely) in rings() {
            let rtt = Duration::from_millis(16);
            let setting = Setting { forgets_freely, ..Setting::new(congestion, rtt, ring_packets) };
            for is_one_by_one in [false, true] {
                let alone = together(vec![Sender::new(setting)], Choice::Auto, is_one_by_one);
                let two = vec![Sender::new(setting), Sender::new(setting)];
                let both = together(two, Choice::Auto, is_one_by_one);
                let share = both as f64 / (2 * alone) as f64;
                // Behind two devices that are taken for one.
                let least = if is_one_by_one { 0.9 } else { 0.97 };
                assert!(share >= least, "{is_one_by_one}: {share:.3} of {alone} each: {setting:?}");
            }
        }
    }
}

#[test]
fn a_threshold_that_another_connection_left_starves_nobody() {
    let rtt = Duration::from_millis(16);
    let setting = Setting::new(Congestion::Reno, rtt, 4096);
    let [none, auto] = [Choice::None, Choice::Auto].map(|choice| {
        let mut lone = Lone::new(setting, choice);
        lone.sender.ssthresh_packets = 8;
        let begun = lone.until(Duration::from_secs(1));
        lone.until(Duration::from_secs(5)) - begun
    });
    let bound = bound(setting);
    assert!(none * 2 < bound, "{none} of {bound}: there is nothing to be mended");
    assert!(auto * 10 >= bound * 9, "{auto} of {bound}");
}

#[test]
fn a_short_ring_halves_a_long_line_for_none_and_not_for_auto() {
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        let rtt = Duration::from_millis(32);
        let setting = Setting::new(congestion, rtt, 256);
        let [[_, none], [_, auto]] = compare(setting);
        let bound = bound(setting);
        assert!(auto * 10 >= bound * 9, "{auto} of {bound}: {congestion:?}");
        assert!(auto * 10 >= none * 15, "{auto} beside {none}: {congestion:?}");
        let mut lone = Lone::new(setting, Choice::None);
        lone.until(Duration::from_secs(6));
        assert!(lone.sender.cuts > 0, "{congestion:?}");
    }
}
