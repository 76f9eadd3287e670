//! A device that takes so much, and those who hand it all that they may.

use super::*;

const LINE: u64 = 117_000_000;
const RTT: Duration = Duration::from_millis(16);
const LOOK: Duration = Duration::from_millis(9);

fn at(now: Instant, arrived_bytes_per_s: u64, has_refused: bool) -> Seen {
    Seen { now, arrived_bytes_per_s, rtt: RTT, waits: Duration::ZERO, has_refused }
}

/// A device that takes so much and has a ring of so many packets, and those who hand it all that they may.
struct Device {
    ring: Ring,
    now: Instant,
    line: u64,
    ring_bytes: u64,
    /// What is in it; who sees it, a round trip later.
    waiting_bytes: u64,
    waits: std::collections::VecDeque<Duration>,
    /// What windows let out beside what the ring does.
    window: u64,
    /// What arrives is seen to be so much more or less, in percent.
    noise_percent: u64,
    /// And so much more all the time.
    overcount_percent: u64,
    /// Of what they may hand over they do so much, in thousandths.
    used_permille: u64,
    /// For each so many looks the machine is late, by half a millisecond for five of them.
    late_looks: Option<u64>,
    refusals: u32,
    looks: u64,
}

impl Device {
    fn new(ring_packets: u64) -> Device {
        Device {
            ring: Ring::default(),
            now: Instant::ZERO,
            line: LINE,
            ring_bytes: ring_packets * 1448,
            waiting_bytes: 0,
            waits: [Duration::ZERO; 2].into(),
            window: 2 * LINE,
            noise_percent: 0,
            overcount_percent: 0,
            used_permille: 1000,
            late_looks: None,
            refusals: 0,
            looks: 0,
        }
    }

    /// A look later; whether it refused something.
    fn look(&mut self, is_refused_anyway: bool) -> bool {
        self.now += LOOK;
        self.looks += 1;
        let may = self.ring.bytes_per_s().unwrap_or(u64::MAX);
        let handed = (may / 1000).saturating_mul(self.used_permille).min(self.window);
        let of = |rate: u64| rate * LOOK.as_micros() as u64 / 1_000_000;
        let (came, left) = (self.waiting_bytes + of(handed), of(self.line));
        let arrived = came.min(left) * 1_000_000 / LOOK.as_micros() as u64;
        let still = came.saturating_sub(left);
        self.waiting_bytes = still.min(self.ring_bytes);
        let has_refused = still > self.ring_bytes || is_refused_anyway;
        self.refusals += u32::from(has_refused && self.now >= self.ring.settled_at);
        let wait_ns = self.waiting_bytes as u128 * 1_000_000_000 / u128::from(self.line);
        self.waits.push_back(Duration::from_nanos(wait_ns as u64));
        let is_late = self.late_looks.is_some_and(|looks| self.looks % looks < 5);
        let late = Duration::from_micros(if is_late { 500 } else { 0 });
        let waits = self.waits.pop_front().unwrap_or_default() + late;
        let noise = [0, 1, 2, 1, 0][self.looks as usize % 5] * self.noise_percent;
        let arrived_bytes_per_s =
            arrived / 100 * (100 + self.overcount_percent + noise - self.noise_percent * 4 / 5);
        self.ring.observe(&Seen { waits, ..at(self.now, arrived_bytes_per_s, has_refused) });
        has_refused
    }

    fn run(&mut self, seconds: u64) -> &mut Device {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            self.look(false);
        }
        self
    }

    /// The least and the most that it is taken for in so many seconds, if it refuses something each five for no reason.
    fn stalled(&mut self, seconds: u64) -> (u64, u64) {
        let end = self.now + Duration::from_secs(seconds);
        let (mut least, mut most) = (u64::MAX, 0);
        while self.now < end {
            self.look(self.looks.is_multiple_of(555));
            let taken = self.ring.bytes_per_s().unwrap_or(0);
            (least, most) = (least.min(taken), most.max(taken));
        }
        (least, most)
    }
}

fn percent(taken: u64, of: u64) -> u64 {
    taken * 100 / of
}

#[test]
fn it_is_found_at_once_and_refuses_next_to_nothing_after_that() {
    for (ring_packets, noise_percent) in [(80, 0), (80, 8), (256, 0), (256, 8)] {
        let mut device = Device { noise_percent, ..Device::new(ring_packets) };
        let taken = device.run(5).ring.bytes_per_s;
        assert!((95..=100).contains(&percent(taken, LINE)), "{taken}: {ring_packets}, {noise_percent}");
        device.run(55);
        assert!(device.refusals <= 6, "{}: {ring_packets}, {noise_percent}", device.refusals);
        device.run(540);
        let taken = device.ring.bytes_per_s;
        assert!((95..=100).contains(&percent(taken, LINE)), "{taken}: {ring_packets}, {noise_percent}");
        assert!(device.refusals <= 12, "{}: {ring_packets}, {noise_percent}", device.refusals);
    }
}

#[test]
fn what_arrives_may_be_counted_for_more_than_it_is() {
    for overcount_percent in [1, 2, 3, 5, 8] {
        let mut device = Device { overcount_percent, ..Device::new(80) };
        device.run(60);
        assert!(device.refusals <= 64, "{}: {overcount_percent}", device.refusals);
        let before = device.refusals;
        device.run(300);
        let (refusals, taken) = (device.refusals - before, percent(device.ring.bytes_per_s, LINE));
        assert!(refusals <= 16 && (95..=100).contains(&taken), "{refusals}, {taken}: {overcount_percent}");
    }
}

#[test]
fn what_was_refused_because_of_a_burst_is_not_what_it_takes() {
    for part in [4, 10] {
        let mut device = Device { window: LINE / part, ..Device::new(80) };
        device.run(1);
        device.look(true);
        device.window = 2 * LINE;
        // In small steps, since as much arrived after it as before.
        let taken = device.run(60).ring.bytes_per_s;
        assert!((93..=100).contains(&percent(taken, LINE)), "{taken}: a {part}th");
    }
}

#[test]
fn what_was_never_reached_is_not_kept() {
    let mut device = Device::new(80);
    device.run(3);
    (device.ring.bytes_per_s, device.ring.is_known) = (LINE * 6 / 5, true);
    device.ring.step_at = device.now + PAUSE_MAX;
    device.window = LINE / 100 * 98;
    device.run(2);
    device.look(true);
    assert_eq!(device.ring.bytes_per_s, LINE * 6 / 5, "one refusal may be a moment's");
    for _ in 0..20 {
        (0..10).for_each(|_| _ = device.look(false));
        device.look(true);
    }
    let taken = device.ring.bytes_per_s;
    assert!((94..=100).contains(&percent(taken, LINE)), "{taken}");
}

#[test]
fn a_ring_that_fills_is_seen_before_it_is_full() {
    let mut device = Device::new(256);
    device.run(1);
    let before = device.refusals;
    device.run(400);
    assert_eq!(device.refusals, before, "steps were tried and taken back");
    assert!(device.ring.pause >= 2 * PAUSE_MIN, "{:?}", device.ring.pause);
}

#[test]
fn on_a_machine_that_is_late_now_and_then_it_is_found_as_well() {
    for (late_looks, ring_packets) in [(80, 80), (160, 80), (330, 80), (80, 256), (160, 256), (330, 256)] {
        let late_looks = Some(late_looks);
        let mut device = Device { late_looks, used_permille: 988, ..Device::new(ring_packets) };
        device.run(2);
        (device.ring.bytes_per_s, device.ring.is_known) = (LINE / 100 * 94, true);
        let taken = device.run(30).ring.bytes_per_s;
        assert!(percent(taken, LINE) >= 97, "{taken}: late each {late_looks:?}, ring {ring_packets}");
        let before = device.refusals;
        device.run(600);
        let (refusals, taken) = (device.refusals - before, device.ring.bytes_per_s);
        assert!(percent(taken, LINE) >= 97, "{taken}: late each {late_looks:?}, ring {ring_packets}");
        assert!(refusals <= 6, "{refusals}: late each {late_looks:?}, ring {ring_packets}");
    }
}

#[test]
fn bursts_are_not_slower_and_slower_where_others_keep_it_full() {
    let mut ring = Ring::default();
    ring.begin(Instant::ZERO, RTT, LINE);
    for look in 1..1000 {
        let now = Instant::ZERO + LOOK * look;
        if look > 200 {
            ring.was_full_for_a_moment(now, RTT);
        }
        ring.observe(&at(now, ring.bytes_per_s.min(LINE), false));
    }
    assert!((75..100).contains(&percent(ring.bytes_per_s, LINE)), "{}", ring.bytes_per_s);
}

#[test]
fn what_arrived_before_it_was_full_is_not_what_it_takes() {
    let mut ring = Ring::default();
    (0..20).for_each(|look| ring.observe(&at(Instant::ZERO + LOOK * look, 2 * LINE, false)));
    ring.observe(&at(Instant::ZERO + LOOK * 20, LINE, true));
    assert_eq!(ring.bytes_per_s(), Some(LINE / 100 * KEPT_PERCENT));
}

#[test]
fn what_it_reached_before_a_long_rest_is_forgotten() {
    let mut ring = Ring::default();
    let mut looks = |from: Instant, rate| {
        (0..200).for_each(|look| ring.observe(&at(from + LOOK * look, rate, false)));
        ring.reached()
    };
    assert_eq!(looks(Instant::ZERO, LINE), LINE);
    assert!(looks(Instant::ZERO + Duration::from_secs(600), LINE / 10) < LINE / 9);
}

#[test]
fn what_is_not_used_is_not_raised() {
    let mut device = Device::new(80);
    let taken = device.run(1).ring.bytes_per_s;
    device.window = LINE / 2;
    assert_eq!(device.run(100).ring.bytes_per_s, taken);
}

#[test]
fn a_device_that_stands_still_now_and_then_is_no_slower_for_it() {
    let mut device = Device::new(80);
    device.stalled(150);
    let (least, most) = device.stalled(450);
    assert!(percent(least, LINE) >= 93 && percent(most, LINE) <= 114, "{least}..{most}");
}

#[test]
fn a_device_that_has_become_slower_or_faster_is_found_again() {
    let mut device = Device::new(80);
    device.stalled(120);
    device.line = LINE / 10;
    device.stalled(150);
    let (least, most) = device.stalled(210);
    assert!(percent(least, LINE / 10) >= 93 && percent(most, LINE / 10) <= 114, "slower: {least}..{most}");
    (device.line, device.window) = (2 * LINE, 4 * LINE);
    let (_, most) = device.stalled(720);
    assert!(percent(most, 2 * LINE) >= 96, "faster: {most}");
}

#[test]
fn who_was_refused_once_and_went_away_has_found_nothing() {
    let mut ring = Ring::default();
    ring.observe(&at(Instant::ZERO + RTT, LINE / 20, true));
    ring.observe(&at(Instant::ZERO + Duration::from_secs(9), 0, false));
    assert_eq!(ring.bytes_per_s(), None);
}

#[test]
fn several_refusals_of_one_round_trip_are_one() {
    let mut ring = Ring::default();
    for ms in 0..60 {
        ring.observe(&at(Instant::ZERO + RTT + Duration::from_millis(ms), LINE, true));
    }
    assert_eq!(ring.bytes_per_s(), Some(LINE / 100 * KEPT_PERCENT));
    assert_eq!(ring.pause, Duration::ZERO);
}
