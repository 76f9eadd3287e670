//! Impairments in virtual time: order, gaps, copies, and one seed giving one history.

use core::time::Duration;

use event::{BitRate, Fate, Instant};
use link::{Dice, Handle, JitterModel, Line, Packet, Path, Reordering, Shape, Stage, wire_bytes};

const DATA_BYTES: u32 = 1500;
const ACK_BYTES: u32 = 52;
const DELAY: Duration = Duration::from_millis(8);
/// Twice the time of a packet on the wire: nothing waits.
const GAP: Duration = Duration::from_nanos(2 * 12_304);

fn line() -> Line {
    Line::plain(Shape { delay: DELAY, rate: BitRate(1_000_000_000), queue_bytes: 1_000_000 })
}

fn packet(n: u64, now: Instant, ip_bytes: u32) -> Packet {
    Packet::new(Handle(n), now, ip_bytes, wire_bytes(ip_bytes, 1, 0), 1)
}

/// Fates of packets, in order of time.
#[derive(Default, PartialEq, Debug)]
struct History {
    arrivals: Vec<(Instant, Packet)>,
    dropped: Vec<(u64, Fate)>,
}

/// Sends packets of the given sizes, each `gap` after the one before, and asks for them whenever one is due.
fn send(line: &Line, seed: u64, gap: Duration, sizes: impl Iterator<Item = u32>) -> History {
    let mut path = Path::of(line, Dice::new(seed, 0));
    path.begin(Instant::ZERO);
    let mut history = History::default();
    let mut now = Instant::ZERO;
    for (n, ip_bytes) in (1..).zip(sizes) {
        take(&mut path, now, &mut history);
        if let Err(dropped) = path.push(now, packet(n, now, ip_bytes)) {
            history.dropped.push((dropped.packet.number, dropped.fate));
        }
        now += gap;
    }
    take(&mut path, Instant::FAR_FUTURE, &mut history);
    history
}

fn take(path: &mut Path, until: Instant, history: &mut History) {
    while let Some(next) = path.next_at().filter(|next| *next <= until) {
        history.arrivals.extend(path.pop(next));
    }
}

fn data(count: usize) -> impl Iterator<Item = u32> {
    std::iter::repeat_n(DATA_BYTES, count)
}

impl History {
    fn numbers(&self) -> Vec<u64> {
        self.arrivals.iter().map(|(_, packet)| packet.number).collect()
    }

    fn delays(&self) -> Vec<Duration> {
        self.arrivals.iter().map(|(at, packet)| at.since(packet.arrived)).collect()
    }

    fn gaps(&self, small: bool) -> Vec<Duration> {
        let of_kind = self.arrivals.iter().filter(|(_, packet)| (packet.ip_bytes == ACK_BYTES) == small);
        let times: Vec<Instant> = of_kind.map(|(at, _)| *at).collect();
        times.windows(2).map(|pair| pair[1].since(pair[0])).collect()
    }
}

#[test]
fn jitter_keeps_the_order_unless_asked() {
    let most = Duration::from_millis(1);
    let base = DELAY + Duration::from_nanos(12_304);
    for overtaking in [false, true] {
        let mut line = line();
        line.jitter = Some(JitterModel { most, overtaking });
        let history = send(&line, 1, GAP, data(10_000));
        let numbers = history.numbers();
        assert_eq!(numbers.is_sorted(), !overtaking);
        assert!(history.arrivals.is_sorted_by_key(|(at, _)| *at));
        let delays = history.delays();
        assert!(delays.iter().all(|delay| (base..base + most).contains(delay)));
        if overtaking {
            let mean = delays.iter().sum::<Duration>() / delays.len() as u32;
            // Standard deviation of the mean: 2.9 µs.
            assert!((base + most / 2).abs_diff(mean) < Duration::from_micros(12), "{mean:?}");
        }
        let sorted: Vec<u64> = {
            let mut sorted = numbers;
            sorted.sort_unstable();
            sorted
        };
        assert_eq!(sorted, (1..=10_000).collect::<Vec<u64>>(), "nothing is lost or made");
    }
}

#[test]
fn packets_that_are_held_back_are_overtaken_by_those_of_that_time() {
    let mut line = line();
    let share = "1%".parse().expect("a share");
    line.reorder = Some(Reordering { share, hold: 5 * GAP / 2 });
    let history = send(&line, 2, GAP, data(20_000));
    let late: Vec<u64> =
        history.numbers().windows(2).filter(|pair| pair[1] < pair[0]).map(|pair| pair[1]).collect();
    // 200 expected, standard deviation 14.
    assert!((140..260).contains(&late.len()), "{}", late.len());
    let held = history.delays().iter().filter(|delay| **delay > DELAY + GAP).count();
    assert!(held >= late.len(), "{held}");
    assert!(history.arrivals.is_sorted_by_key(|(at, _)| *at));
}

#[test]
fn a_copy_comes_right_behind_its_original_which_says_so() {
    let mut line = line();
    line.duplicate = Some("10%".parse().expect("a share"));
    line.jitter = Some(JitterModel { most: DELAY, overtaking: true });
    let history = send(&line, 3, GAP, data(10_000));
    let originals = history.arrivals.iter().filter(|(_, packet)| packet.again).count();
    // 1 000 expected, standard deviation 30.
    assert!((880..1_120).contains(&originals), "{originals}");
    assert_eq!(history.arrivals.len(), 10_000 + originals);
    for pair in history.arrivals.windows(2).filter(|pair| pair[0].1.again) {
        let copy = Packet { again: true, ..pair[1].1 };
        assert_eq!((pair[0].0, pair[0].1), (pair[1].0, copy));
    }
}

#[test]
fn small_frames_are_packed_together_and_data_are_left_alone() {
    let period = Duration::from_micros(125);
    let mut line = line();
    line.merge = Some(period);
    // Acknowledgements alone: bunches without a gap, on the lattice of the period.
    let history = send(&line, 4, GAP, std::iter::repeat_n(ACK_BYTES, 2_000));
    assert_eq!(history.numbers(), (1..=2_000).collect::<Vec<u64>>());
    let gaps = history.gaps(true);
    assert!(gaps.iter().all(|gap| gap.is_zero() || *gap == period), "{gaps:?}");
    let together = gaps.iter().filter(|gap| gap.is_zero()).count();
    assert!(together * 10 > gaps.len() * 7, "five in a period: {together} of {} gaps vanish", gaps.len());
    // Data alone leave as they came; among data, a small frame leaves with the next large one.
    let plain = send(&self::line(), 4, GAP, data(500)).arrivals;
    assert_eq!(send(&line, 4, GAP, data(500)).arrivals, plain);
    let mixed = send(&line, 4, GAP, (0..3_000).map(|n| if n % 3 == 0 { ACK_BYTES } else { DATA_BYTES }));
    assert!(mixed.numbers().is_sorted(), "nothing is reordered");
    let data_gaps = mixed.gaps(false);
    assert!(data_gaps.iter().all(|gap| *gap == GAP || *gap == 2 * GAP), "data keep their gaps");
    assert!(mixed.delays().iter().all(|delay| *delay <= DELAY + period + GAP));
}

#[test]
fn a_queue_of_packets_holds_so_many() {
    let mut line = line();
    line.queue_packets = Some(3);
    for ip_bytes in [ACK_BYTES, DATA_BYTES] {
        let mut path = Path::of(&line, Dice::new(0, 0));
        let taken =
            (0..9).filter(|n| path.push(Instant::ZERO, packet(*n, Instant::ZERO, ip_bytes)).is_ok()).count();
        assert_eq!(taken, 4, "one is on the wire, three wait, whatever their size");
    }
}

#[test]
fn a_line_that_is_down_takes_nothing_and_delivers_what_it_has() {
    let mut line = line();
    line.outages = vec!["10ms+5ms".parse().expect("an outage")];
    let history = send(&line, 0, Duration::from_millis(1), data(20));
    let down: Vec<(u64, Fate)> = (11..16).map(|n| (n, Fate::LineDown)).collect();
    assert_eq!(history.dropped, down, "packet n comes at n - 1 ms");
    assert_eq!(history.arrivals.len(), 15);
}

#[test]
fn the_seed_decides_for_the_nth_packet_whatever_the_load() {
    let mut line = line();
    line.loss = Some("burst:2%/3".parse().expect("a model"));
    let lost = |seed, gap: Duration, sizes: u32| -> Vec<u64> {
        let history = send(&line, seed, gap, std::iter::repeat_n(sizes, 20_000));
        history.dropped.iter().filter(|(_, fate)| *fate == Fate::Lost).map(|(n, _)| *n).collect()
    };
    let calm = lost(7, GAP, DATA_BYTES);
    // A load that overflows the queue, and other sizes: the same packets are lost on the line.
    assert_eq!(calm, lost(7, GAP / 10, DATA_BYTES));
    assert_eq!(calm, lost(7, GAP, ACK_BYTES));
    assert_ne!(calm, lost(8, GAP, DATA_BYTES));
}

#[test]
fn everything_at_once_repeats_exactly_and_loses_nothing_unasked() {
    let mut line = line();
    let share = |text: &str| text.parse().expect("a share");
    line.loss = Some("0.5%".parse().expect("a model"));
    line.jitter = Some(JitterModel { most: Duration::from_micros(300), overtaking: true });
    line.reorder = Some(Reordering { share: share("1%"), hold: Duration::from_millis(1) });
    line.duplicate = Some(share("1%"));
    line.merge = Some(Duration::from_micros(100));
    line.outages = vec!["20ms+2ms/50ms".parse().expect("an outage")];
    let run = |seed| {
        send(&line, seed, GAP, (0..30_000u32).map(|n| if n % 7 == 0 { ACK_BYTES } else { DATA_BYTES }))
    };
    let history = run(11);
    assert_eq!(history, run(11));
    assert_ne!(history, run(12));
    let copies = history.arrivals.iter().filter(|(_, packet)| packet.again).count();
    assert_eq!(history.arrivals.len() - copies + history.dropped.len(), 30_000);
}
