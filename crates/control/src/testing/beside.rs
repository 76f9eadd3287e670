//! `auto` beside `none` where a caller has one block outstanding: it must not cost anything, whatever the window does.
//!
//! Two things could make it slower. Data that are handed over in portions fill a window less, and a window that is not
//! filled does not grow; and a train that is handed over slower than the line ends CUBIC's slow start sooner. Both
//! senders are modelled by the kernel's rules (`testing/sender.rs`) and compared with each other; several at a time too,
//! whose bursts take turns or do not (`crowd.rs`).

use core::cell::RefCell;
use core::time::Duration;
use std::rc::Rc;

use event::Instant;

use crate::policy::Observation;
use crate::testing::sender::{Congestion, LINE, MSS, Sender, Setting, TICK};
use crate::{Burst, BurstStart, Choice, Crowd};

const BLOCK_PACKETS: u32 = 724;
/// The longest time between two looks, likewise.
const LOOK_EVERY: Duration = Duration::from_millis(9);

/// A sender under a policy whose receiver asks for the next block when it has the one before.
struct Lone {
    sender: Sender,
    policy: Box<dyn crate::Policy>,
    /// Those that its process serves, and which of them it is.
    crowd: Rc<RefCell<Crowd>>,
    number: usize,
    start: Option<BurstStart>,
    /// Of the block, what was not handed to TCP.
    held_packets: u32,
    filled_bytes: u64,
    was_short: bool,
    burst_bytes: u64,
    next_look: Instant,
    forgotten: u32,
}

impl Lone {
    fn new(setting: Setting, choice: Choice) -> Lone {
        Lone::of(Sender::new(setting), choice, 0, &Rc::default())
    }

    fn of(sender: Sender, choice: Choice, number: usize, crowd: &Rc<RefCell<Crowd>>) -> Lone {
        Lone {
            sender,
            policy: choice.policy(),
            crowd: Rc::clone(crowd),
            number,
            start: None,
            held_packets: 0,
            filled_bytes: 0,
            was_short: false,
            burst_bytes: 0,
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
        if let Some(bytes_per_s) = self.policy.decide().burst_bytes_per_s {
            let burst = Burst { bytes: u64::from(self.held_packets) * MSS, bytes_per_s };
            self.start = Some(self.crowd.borrow_mut().begin(self.number, self.sender.now, burst));
        }
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
        let depth_bytes = decision.burst_depth_bytes;
        let gained = rate * TICK.as_micros() as u64 / 1_000_000;
        self.filled_bytes = (self.filled_bytes + gained).min(depth_bytes);
        if self.filled_bytes < waiting_bytes.min(depth_bytes / 3) {
            self.was_short = true;
            return;
        }
        let notsent_bytes = self.sender.info().backlog_bytes;
        let room_bytes = decision.held_bytes.map_or(u64::MAX, |held| held.saturating_sub(notsent_bytes));
        let packets = self.held_packets.min((self.filled_bytes.min(room_bytes) / MSS) as u32);
        self.filled_bytes -= u64::from(packets) * MSS;
        self.held_packets -= packets;
        self.sender.hand(packets);
    }

    fn look(&mut self) {
        let info = self.sender.info();
        let backlog_bytes = info.backlog_bytes + u64::from(self.held_packets) * MSS;
        self.policy.observe(&Observation {
            backlog_bytes,
            burst_bytes: std::mem::take(&mut self.burst_bytes).max(backlog_bytes),
            was_spaced: std::mem::take(&mut self.was_short),
            request_bytes: 1 << 20,
            ..info
        });
        if let Some(train) = self.policy.arrived() {
            self.crowd.borrow_mut().arrived(self.number, self.sender.now, train);
        }
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
fn together(senders: Vec<Sender>, choice: Choice) -> u64 {
    let crowd = Rc::default();
    let numbered = senders.into_iter().enumerate();
    let mut all: Vec<Lone> =
        numbered.map(|(number, sender)| Lone::of(sender, choice, number, &crowd)).collect();
    let mut until = |seconds| {
        while all[0].sender.now < Instant::ZERO + Duration::from_secs(seconds) {
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
                [Choice::None, Choice::Auto].map(|choice| together(beside(setting, count), choice));
            let share = auto as f64 / none as f64;
            assert!(share >= 0.98, "{count}: {share:.3} of {none}: {setting:?}");
        }
    }
}

#[test]
fn lines_of_their_own_are_left_to_their_own() {
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        for (ring_packets, forgets_freely) in rings() {
            let rtt = Duration::from_millis(16);
            let setting = Setting { forgets_freely, ..Setting::new(congestion, rtt, ring_packets) };
            let alone = together(vec![Sender::new(setting)], Choice::Auto);
            let both = together(vec![Sender::new(setting), Sender::new(setting)], Choice::Auto);
            let share = both as f64 / (2 * alone) as f64;
            assert!(share >= 0.97, "{share:.3} of {alone} each: {setting:?}");
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
