//! A path whose sender doubles its rate every round trip, and the cap that it meets.

use super::*;
use crate::loss::rounds::Rounds;
use crate::testing::QUIET;

const LINE: u64 = 117_000_000;
const RTT: Duration = Duration::from_millis(100);

/// A path whose sender doubles its rate every round trip until the line is full, then builds a queue
/// with what it sends too much.
struct Path {
    product: Product,
    cap: Cap,
    now: Instant,
    rate: u64,
    moved: u64,
    queue_bytes: u64,
    room_bytes: u64,
    lost: u64,
    /// Share of packets that random loss takes, and the bytes of the next one to be lost.
    random_loss_percent: u64,
    random_loss_bytes: u64,
    rounds_lost: Rounds,
    arrived_bytes: u64,
    sent_bytes: u64,
    /// How much of the next arrivals is seen at every third look already.
    early_bytes: u64,
    /// So many of a hundred packets more than if all were full.
    small_percent: u64,
    others: bool,
    /// The kernel sends so much of what it is told, in percent.
    sent_percent: u64,
    line: u64,
    paces_itself: bool,
    has_threshold: bool,
    paced_one_by_one: bool,
    elsewhere: Elsewhere,
    peer_window_bytes: u64,
    /// The kernel's round trips are so much longer than the least; at each so many looks only, if that is said.
    noise: Duration,
    noisy_looks: Option<u32>,
    /// The device refuses something now, that is at the next look.
    is_refused: bool,
    /// The least round trip that the kernel has seen.
    min_rtt: Duration,
}

impl Path {
    fn new() -> Path {
        Path {
            product: Product::new(),
            cap: Cap::new(BULK_BYTES),
            now: Instant::ZERO,
            rate: 145_000,
            moved: 0,
            queue_bytes: 0,
            room_bytes: u64::MAX,
            lost: 0,
            random_loss_percent: 0,
            random_loss_bytes: 0,
            rounds_lost: Rounds::default(),
            arrived_bytes: 0,
            sent_bytes: 0,
            early_bytes: 0,
            small_percent: 0,
            others: false,
            sent_percent: 100,
            line: LINE,
            paces_itself: false,
            has_threshold: false,
            paced_one_by_one: false,
            elsewhere: Elsewhere::default(),
            peer_window_bytes: 0,
            noise: Duration::ZERO,
            noisy_looks: None,
            is_refused: false,
            min_rtt: RTT,
        }
    }

    fn rounds(&mut self, rounds: u32) {
        self.looks(rounds * 10);
    }

    fn looks(&mut self, looks: u32) {
        for step in 0..looks {
            let early_bytes = if step % 3 == 2 { self.early_bytes } else { 0 };
            self.now += RTT / 10;
            self.rate = (self.rate as f64 * 1.0718) as u64;
            let paced = self.pacing().unwrap_or(UNCAPPED) / 100 * self.sent_percent;
            let peer = if self.peer_window_bytes == 0 { u64::MAX } else { self.peer_window_bytes * 10 };
            let part = self.elsewhere.part_bytes_per_s.unwrap_or(u64::MAX);
            let wanted = paced.min(self.rate).min(peer).min(part);
            self.rate = self.rate.min(2 * self.line);
            let delivered = if self.queue_bytes > 0 { self.line } else { wanted.min(self.line) };
            self.queue_bytes = (self.queue_bytes + wanted / 100).saturating_sub(self.line / 100);
            if self.queue_bytes > self.room_bytes {
                self.lost += (self.queue_bytes - self.room_bytes) / 1448;
                self.queue_bytes = self.room_bytes;
            }
            if self.others {
                self.queue_bytes = self.line / 10;
            }
            self.random_loss_bytes += delivered / 100 * self.random_loss_percent;
            self.lost += self.random_loss_bytes / 144_800;
            self.random_loss_bytes %= 144_800;
            self.moved += delivered / 100;
            self.sent_bytes += wanted / 100;
            self.arrived_bytes += delivered / 100;
            let queueing = Duration::from_nanos(self.queue_bytes * 1_000_000_000 / self.line);
            let is_noisy = self.noisy_looks.is_none_or(|looks| step % looks == 0);
            let noise = if is_noisy { self.noise } else { Duration::ZERO };
            let cut = Cut { kind: WindowKind::CutHere, from_packets: 2, to_packets: 1 };
            let cut = core::mem::take(&mut self.is_refused).then_some(cut);
            let seen = Observation {
                now: self.now,
                rtt: RTT + queueing + noise,
                min_rtt: Some(self.min_rtt),
                moved_bytes: self.moved,
                delivery_rate_bytes_per_s: delivered,
                app_limited: false,
                retransmitted_packets: self.lost,
                delivered_packets: ((self.arrived_bytes + early_bytes) * (100 + self.small_percent) / 144_800)
                    as u32,
                // What is on the line arrives at once here, but for the last.
                unacked_packets: 1 + (self.sent_bytes.saturating_sub(self.arrived_bytes) / 1448) as u32,
                mss_bytes: 1448,
                cwnd_packets: u32::MAX,
                peer_window_bytes: self.peer_window_bytes,
                paces_itself: self.paces_itself,
                ssthresh_packets: if self.has_threshold { 1000 } else { i32::MAX as u32 },
                paced_one_by_one: self.paced_one_by_one,
                backlog_bytes: 64 << 20,
                burst_bytes: 64 << 20,
                request_bytes: 1 << 20,
                ..QUIET
            };
            self.product.observe(&seen);
            if self.paces_itself {
                let base_rtt = self.cap.base_rtt().unwrap_or(RTT);
                self.elsewhere.random_loss = self.rounds_lost.random_loss(base_rtt);
            }
            self.cap.observe(&seen, &self.product, cut, self.elsewhere);
            self.rounds_lost.observe(&seen, self.cap.has_lost());
        }
    }

    fn pacing(&self) -> Option<u64> {
        self.cap.pacing_bytes_per_s(&self.product)
    }

    /// The cap after so many rounds.
    fn cap(&mut self, rounds: u32) -> u64 {
        self.rounds(rounds);
        self.pacing().unwrap()
    }
}

#[test]
fn outstanding_keeps_ahead_of_a_doubling_window() {
    let mut path = Path::new();
    for _ in 0..12 {
        let product = path.rate.min(LINE) / 10;
        path.rounds(1);
        assert!(path.product.outstanding_bytes() >= 2 * product);
    }
    path.rounds(20);
    let end = path.product.outstanding_bytes();
    assert!((LINE / 10 * 19 / 10..LINE / 10 * 21 / 10).contains(&end), "{end}");
}

#[test]
fn what_is_handed_over_is_claimed_to_the_byte() {
    let mut path = Path { paced_one_by_one: true, small_percent: 3, ..Path::new() };
    path.rounds(30);
    let claimed = path.cap.claim().and_then(|claim| claim.rate_bytes_per_s).expect("it has arrived");
    assert!((LINE / 100 * 95..LINE / 1000 * 1005).contains(&claimed), "{claimed}");
}

#[test]
fn the_cap_finds_the_line_and_keeps_the_queue_short() {
    let mut path = Path::new();
    assert_eq!(path.cap(5), UNCAPPED, "no cap while it grows");
    path.rounds(200);
    let (mut least, mut most) = (u64::MAX, 0);
    for _ in 0..50 {
        let cap = path.cap(1);
        (least, most) = (least.min(cap), most.max(cap));
    }
    assert!(least >= LINE / 100 * 94 && most <= LINE / 100 * 106, "{least} {most}");
    assert!(path.queue_bytes < LINE / 10, "less than a round trip of queue");
}

#[test]
fn a_queue_does_not_grow_for_hours() {
    let mut path = Path::new();
    path.rounds(60);
    // As long as Linux remembers the least round trip.
    for minutes in (5..=120).step_by(5) {
        let least_bytes = (0..3000).map(|_| (path.rounds(1), path.queue_bytes).1).min().unwrap();
        path.min_rtt = RTT + Duration::from_nanos(least_bytes * 1_000_000_000 / LINE);
        assert!(path.queue_bytes < LINE / 10 / 5, "{} bytes after {minutes} minutes", path.queue_bytes);
    }
}

#[test]
fn a_path_that_has_become_longer_is_no_queue() {
    for longer_percent in [5, 50] {
        let mut path = Path { room_bytes: LINE / 10, ..Path::new() };
        path.rounds(60);
        path.noise = RTT * longer_percent / 100;
        path.rounds(3000);
        path.min_rtt = RTT + path.noise;
        path.rounds(300);
        let arrived_bytes = path.arrived_bytes;
        let caps: Vec<u64> = (0..100).map(|_| path.cap(1)).collect();
        let is_near = |cap: &u64| (LINE / 100 * 75..LINE / 100 * 110).contains(cap);
        assert!(caps.iter().all(is_near), "{longer_percent}: {caps:?}");
        assert!(path.arrived_bytes - arrived_bytes >= 10 * LINE / 100 * 98, "{longer_percent}");
    }
}

#[test]
fn a_round_trip_from_before_anything_was_sent_is_no_queue() {
    let mut path = Path::new();
    // As a login leaves it that waited for a processor.
    path.noise = RTT / 4;
    assert_eq!(path.cap(1), UNCAPPED);
    let claim = path.cap.claim().expect("it is in bulk");
    assert!(!claim.has_queue && !claim.had_queue, "nobody shares a line of ten packets: {claim:?}");
    path.noise = Duration::ZERO;
    assert_eq!(path.cap(4), UNCAPPED);
    path.noise = RTT / 4;
    assert!(path.cap(1) < UNCAPPED, "of what is sent now it tells");
}

#[test]
fn what_paces_itself_may_be_a_quarter_faster_than_the_line_and_not_much_more() {
    let mut path = Path::new();
    path.paces_itself = true;
    assert_eq!(path.cap(1), UNCAPPED, "no queue has shown yet");
    path.rounds(30);
    assert!(path.cap(1) < LINE / 100 * 110, "it is at its start");
    path.has_threshold = true;
    path.rounds(30);
    let caps: Vec<u64> = (0..100).map(|_| path.cap(1)).collect();
    assert!(caps.iter().all(|cap| (LINE / 100 * 125..LINE / 100 * 135).contains(cap)), "{caps:?}");
}

#[test]
fn a_kernel_that_sends_less_than_it_is_told_does_not_make_the_line_faster() {
    for sent_percent in 85..=100 {
        let mut path = Path::new();
        (path.sent_percent, path.room_bytes) = (sent_percent, LINE / 10);
        path.rounds(20);
        let (lost, arrived_bytes) = (path.lost, path.arrived_bytes);
        let caps: Vec<u64> = (0..200).map(|_| path.cap(1)).collect();
        assert!(caps.iter().all(|cap| *cap < LINE * 2), "{sent_percent}: {caps:?}");
        assert_eq!(path.lost, lost, "{sent_percent}");
        let carried = path.arrived_bytes - arrived_bytes;
        assert!(carried >= 20 * LINE / 100 * 99, "{sent_percent}: {carried}");
    }
}

#[test]
fn what_a_part_or_the_peer_holds_back_is_not_what_the_kernel_does() {
    let part = Elsewhere { part_bytes_per_s: Some(LINE / 100 * 85), ..Elsewhere::default() };
    for (elsewhere, peer_window_bytes) in [(part, 0), (Elsewhere::default(), LINE / 1000 * 85)] {
        let mut path = Path::new();
        path.rounds(30);
        (path.elsewhere, path.peer_window_bytes) = (elsewhere, peer_window_bytes);
        let caps: Vec<u64> = (0..4).map(|_| path.cap(1)).collect();
        assert!(caps.iter().all(|cap| *cap <= LINE / 100 * 106), "{caps:?}");
    }
}

#[test]
fn a_line_that_has_become_faster_is_found() {
    for (sent_percent, noise_us) in [(100, 0), (100, 1500), (95, 0), (95, 1500)] {
        let mut path = Path::new();
        (path.sent_percent, path.noise) = (sent_percent, Duration::from_micros(noise_us));
        path.rounds(40);
        path.line = 3 * LINE;
        let caps: Vec<u64> = (0..60).map(|_| path.cap(1)).collect();
        assert!(caps[59] >= 3 * LINE / 100 * 94, "{sent_percent} {noise_us}: {caps:?}");
    }
}

#[test]
fn after_a_small_queue_has_overflowed_it_does_not_again() {
    let mut path = Path::new();
    path.room_bytes = LINE / 160;
    path.rounds(12);
    let lost = path.lost;
    assert!(lost > 100, "doubling every round trip it must: {lost}");
    let caps: Vec<u64> = (0..60).map(|_| path.cap(1)).collect();
    assert!(path.lost - lost < lost, "{} and then {}", lost, path.lost - lost);
    let least = caps.iter().skip(4).min().unwrap();
    assert!((LINE / 100 * 95..LINE / 100 * 103).contains(least), "{caps:?}");
    // What the line carried while it overflowed is known within a few rounds, and not exceeded.
    let known = caps.iter().skip(4);
    assert!(known.clone().all(|cap| (LINE / 100 * 95..LINE).contains(cap)), "{caps:?}");
}

#[test]
fn behind_a_ring_the_way_is_felt_for_ever() {
    let mut path = Path::new();
    (path.room_bytes, path.paced_one_by_one) = (LINE / 160, true);
    path.rounds(30);
    let (lost, arrived_bytes) = (path.lost, path.arrived_bytes);
    path.rounds(1000);
    assert!(path.lost - lost < 16, "{} lost, then {} more", lost, path.lost - lost);
    let carried = path.arrived_bytes - arrived_bytes;
    assert!(carried >= 100 * LINE / 100 * 95, "{carried}");
}

#[test]
fn behind_a_ring_it_is_no_slower_for_looks_that_are_late() {
    for looks in [43, 97, 190] {
        let mut path = Path::new();
        (path.room_bytes, path.paced_one_by_one) = (LINE / 160, true);
        path.rounds(30);
        (path.noise, path.noisy_looks) = (Duration::from_micros(1_500), Some(looks));
        path.rounds(1000);
        let arrived_bytes = path.arrived_bytes;
        path.rounds(1000);
        let carried = path.arrived_bytes - arrived_bytes;
        assert!(carried >= 100 * LINE / 100 * 90, "{carried}: a look in {looks}");
    }
}

#[test]
fn a_device_that_refuses_something_in_the_middle_of_a_round_is_handed_less() {
    for look in 0..10 {
        let mut path = Path::new();
        (path.room_bytes, path.paced_one_by_one) = (LINE / 160, true);
        path.rounds(30);
        let before = path.cap(1);
        path.looks(look);
        path.is_refused = true;
        path.looks(11);
        assert!(path.pacing().unwrap() < before / 1000 * 995, "{before}, then {:?} at {look}", path.pacing());
    }
}

#[test]
fn a_small_queue_that_overflows_is_felt_again_when_the_way_was_free() {
    let mut path = Path::new();
    path.room_bytes = LINE / 160;
    path.rounds(30);
    let lost = path.lost;
    path.rounds(1000);
    let more = path.lost - lost;
    assert!(more < 5 * lost, "{lost} lost, then {more}: a few times in a hundred seconds");
}

#[test]
fn what_is_claimed_does_not_leap_when_a_path_turns_out_to_be_short() {
    let mut path = Path { paced_one_by_one: true, small_percent: 3, room_bytes: LINE / 20, ..Path::new() };
    path.rounds(100);
    path.min_rtt = LONG_MIN_RTT / 2;
    for _ in 0..300 {
        path.looks(1);
        let claimed = path.cap.claim().and_then(|claim| claim.rate_bytes_per_s).unwrap_or(0);
        assert!(claimed < LINE / 100 * 110, "{claimed}");
    }
}

#[test]
fn a_line_taken_for_more_than_it_is_comes_down_when_a_queue_shows() {
    let mut path = Path::new();
    path.room_bytes = LINE / 160;
    // Of what arrives a part is seen early: for a moment the line seems to carry four percent more.
    path.early_bytes = LINE / 25 * 4 / 100;
    path.rounds(11);
    // The window is cut.
    (path.rate, path.queue_bytes) = (LINE / 20, 0);
    let lost = path.lost;
    let cap = path.cap(100);
    assert!(path.lost - lost < 16, "another overflow: {lost} lost, then {} more", path.lost - lost);
    assert!((LINE / 100 * 93..=LINE).contains(&cap), "{cap}");
}

#[test]
fn the_cap_is_lifted_when_others_fill_a_small_queue() {
    let mut path = Path::new();
    path.room_bytes = LINE / 160;
    path.rounds(30);
    path.others = true;
    let caps: Vec<_> = (0..60).map(|_| path.cap(1)).collect();
    assert!(caps.contains(&UNCAPPED), "{caps:?}");
}

#[test]
fn a_packet_lost_by_chance_is_no_overflow() {
    let mut path = Path::new();
    for round in 0..9 {
        path.lost += 5;
        assert_eq!(path.cap(1), UNCAPPED, "{round}");
    }
}

#[test]
fn while_it_has_little_of_its_part_a_queue_is_that_of_others() {
    let is_capped = |part_bytes_per_s, paced_one_by_one| {
        let elsewhere = Elsewhere { part_bytes_per_s, ..Elsewhere::default() };
        let others = paced_one_by_one;
        let noise = if others { Duration::ZERO } else { RTT / 4 };
        let mut path = Path { others, noise, paced_one_by_one, elsewhere, ..Path::new() };
        path.rounds(12);
        path.pacing() != Some(UNCAPPED)
    };
    assert!(!is_capped(Some(3 * LINE), true));
    assert!(
        is_capped(Some(3 * LINE), false),
        "what the kernel lets out is a whole window: it goes on carefully"
    );
    assert!(is_capped(Some(LINE), true), "it has most of it");
    assert!(is_capped(None, true));
}

#[test]
fn a_newcomer_grows_beside_others_until_it_has_its_part() {
    let has_its_part = |part_bytes_per_s| {
        let elsewhere = Elsewhere { part_bytes_per_s, ..Elsewhere::default() };
        let mut path = Path { noise: RTT / 4, elsewhere, ..Path::new() };
        path.rounds(20);
        path.cap.delivered.max() >= LINE / 200 * 90
    };
    assert!(has_its_part(Some(LINE / 2)));
    assert!(!has_its_part(None), "that queue is its own, for all it knows");
}

#[test]
fn a_newcomer_with_little_of_its_part_goes_on_as_its_window_grows() {
    let cap = |part_bytes_per_s, queue| {
        let mut path = Path::new();
        path.rounds(6);
        path.elsewhere.part_bytes_per_s = part_bytes_per_s;
        path.noise = queue;
        path.cap(1)
    };
    assert_eq!(cap(Some(20 * LINE), RTT / 4), UNCAPPED);
    assert!(cap(None, RTT / 4) < UNCAPPED);
    assert!(cap(Some(20 * LINE), 2 * RTT) < UNCAPPED, "all drain so long a queue");
}

#[test]
fn what_a_newcomer_had_when_a_small_queue_overflowed_is_not_the_line() {
    let has_its_part = |part_bytes_per_s| {
        let elsewhere = Elsewhere { part_bytes_per_s, ..Elsewhere::default() };
        // What the others leave of it.
        let mut path = Path { line: LINE / 20, room_bytes: LINE / 2000, elsewhere, ..Path::new() };
        path.rounds(12);
        assert!(path.lost > 0);
        path.line = LINE;
        path.rounds(40);
        path.cap.delivered.max() >= LINE / 200 * 90
    };
    assert!(has_its_part(Some(LINE / 2)));
    assert!(!has_its_part(None), "it feels its way for 200 rounds");
}

#[test]
fn a_newcomer_waits_for_those_who_give_way_late() {
    let slowest = |part_bytes_per_s| {
        let elsewhere = Elsewhere { part_bytes_per_s, ..Elsewhere::default() };
        let peer_window_bytes = LINE / 100;
        let mut path = Path { noise: RTT / 4, elsewhere, peer_window_bytes, ..Path::new() };
        path.rounds(12);
        (0..5).map(|_| path.cap(1) * 100 / path.cap.delivered.max()).min()
    };
    assert!(slowest(Some(LINE / 2)) >= Some(99), "it keeps what it has");
    assert!(slowest(None) < Some(97), "it drains what is its own, for all it knows");
}

#[test]
fn one_that_is_held_to_its_part_does_not_take_the_line_for_a_faster_one() {
    let mut path = Path::new();
    path.rounds(60);
    path.elsewhere.part_bytes_per_s = Some(LINE / 2);
    path.rounds(20);
    let part = path.elsewhere.part_bytes_per_s.take();
    assert!(path.cap(1) <= part.unwrap() / 100 * 115, "it goes on from there");
}

#[test]
fn one_whose_own_line_is_slower_than_its_part_keeps_its_queue_short() {
    let elsewhere = Elsewhere { part_bytes_per_s: Some(20 * LINE), ..Elsewhere::default() };
    let mut path = Path { elsewhere, ..Path::new() };
    let mut longest_bytes = 0;
    for _ in 0..60 {
        path.rounds(1);
        longest_bytes = longest_bytes.max(path.queue_bytes);
    }
    let caps: Vec<_> = (0..40).map(|_| path.cap(1)).collect();
    assert!(caps.iter().all(|cap| *cap < LINE / 100 * 130), "{caps:?}");
    assert!(path.queue_bytes < LINE / 50, "{}", path.queue_bytes);
    assert!(longest_bytes < LINE / 5, "that of two round trips at most: {longest_bytes}");
}

#[test]
fn the_cap_is_lifted_when_others_fill_the_queue() {
    let mut path = Path::new();
    path.rounds(60);
    path.others = true;
    let caps: Vec<_> = (0..60).map(|_| path.cap(1)).collect();
    assert!(caps.contains(&UNCAPPED), "{caps:?}");
}

#[test]
fn others_who_stay_are_looked_for_less_and_less_until_they_go() {
    let capped_of = |path: &mut Path, rounds| (0..rounds).filter(|_| path.cap(1) < UNCAPPED).count();
    let mut path = Path { room_bytes: LINE / 10, ..Path::new() };
    path.rounds(60);
    path.others = true;
    assert!(capped_of(&mut path, 120) >= 60, "they might go soon");
    let capped = capped_of(&mut path, 4000);
    assert!((100..=1600).contains(&capped), "{capped} of 4000");
    path.others = false;
    path.rounds(400);
    let lost = path.lost;
    assert!((0..100).all(|_| path.cap(1) < LINE / 100 * 110), "they are gone");
    assert_eq!(path.lost, lost);
    path.others = true;
    assert!(capped_of(&mut path, 120) >= 60, "and come again");
}

#[test]
fn when_others_have_gone_the_next_queue_is_its_own() {
    let mut path = Path::new();
    path.others = true;
    path.rounds(1000);
    assert_eq!(path.cap(1), UNCAPPED);
    (path.others, path.peer_window_bytes) = (false, LINE / 20);
    assert_eq!(path.cap(30), UNCAPPED, "no queue has shown yet");
    path.peer_window_bytes = 0;
    assert!(path.cap(5) < UNCAPPED);
}

#[test]
fn random_loss_does_not_throttle_the_startup_of_a_rate_based_sender() {
    for random_loss_percent in [0, 1, 2, 5, 10] {
        let mut path = Path { random_loss_percent, paces_itself: true, ..Path::new() };
        // Ten rounds of doubling fill the line.
        let caps: Vec<u64> = (0..9).map(|_| path.cap(1)).collect();
        assert_eq!(caps, [UNCAPPED; 9], "{random_loss_percent} %");
        path.rounds(3);
        let arrived_bytes = path.arrived_bytes;
        path.rounds(1);
        let carried = path.arrived_bytes - arrived_bytes;
        assert!(carried >= LINE / 10 * 95 / 100, "{random_loss_percent} %: {carried}");
    }
}

#[test]
fn a_small_queue_that_overflows_is_found_beside_random_loss() {
    for random_loss_percent in [0, 1, 5] {
        let mut path =
            Path { random_loss_percent, paces_itself: true, room_bytes: LINE / 1600, ..Path::new() };
        path.rounds(13);
        let caps: Vec<u64> = (0..20).map(|_| path.cap(1)).collect();
        assert!(caps.iter().all(|cap| *cap < LINE / 100 * 115), "{random_loss_percent} %: {caps:?}");
    }
}
