//! First what counts as a session that losses hold down, one condition after the other; then sessions over paths in
//! virtual time, with windows that grow and are cut as CUBIC's.

use super::*;

const RTT: Duration = Duration::from_millis(100);
const MSS: u32 = 1448;

/// Twenty looks a second at a session that moves as much as 200 packets a round trip, and is told once a second that a
/// loss has left it a window of 150.
fn held_down() -> (Traffic, WindowNotice) {
    let traffic = Traffic {
        now: Instant::ZERO,
        rtt: RTT,
        rtt_var: Duration::ZERO,
        min_rtt: Some(RTT),
        received_bytes: 0,
        acked_bytes: 0,
        outstanding_bytes: 64 << 20,
        connections: 1,
    };
    (traffic, WindowNotice { kind: WindowKind::CutByLoss, cwnd_packets: 150, mss_bytes: MSS })
}

/// Whether it wants one more within a minute of reading, if the other end tells of its window.
fn grows(agreed: u16, traffic: Traffic, notice: WindowNotice, falls: bool) -> bool {
    let (mut connections, mut seen) = (Connections::new(agreed), traffic);
    let mut rate = 200.0 * f64::from(MSS) * 10.0;
    for step in 1..1200u32 {
        seen.now += Duration::from_millis(50);
        seen.received_bytes += (rate / 20.0) as u64;
        connections.observe(&seen);
        if step.is_multiple_of(20) {
            connections.told(Host::Far, &notice);
        }
        if falls {
            rate *= 0.99;
        }
        if connections.wants_more() {
            return true;
        }
    }
    false
}

#[test]
fn losses_that_hold_a_window_down_are_a_reason() {
    let (traffic, notice) = held_down();
    assert!(grows(4, traffic, notice, false));
    let scattered = Duration::from_millis(5);
    assert!(grows(4, Traffic { rtt: RTT + scattered, rtt_var: scattered, ..traffic }, notice, false));
    assert!(!grows(1, traffic, notice, false), "the target agreed to one");
    assert!(!grows(4, traffic, notice, true), "what slow start overshot is being given back");
}

/// Whether it grows over round trips that are longer than the shortest by so much, look by look.
fn grows_over(longer_ms: impl Fn(u64) -> u64, var_ms: u64) -> bool {
    let (mut seen, notice) = held_down();
    let (mut connections, told) = (Connections::new(4), [(Host::Far, notice)]);
    seen.rtt_var = Duration::from_millis(var_ms);
    (0..60 * 20_u64).any(|look| {
        seen.rtt = RTT + Duration::from_millis(longer_ms(look));
        let told = if look.is_multiple_of(20) { &told[..] } else { &[] };
        goes_on_for(&mut connections, &mut seen, Host::Far, told, 1)
    })
}

#[test]
fn round_trips_that_scatter_are_no_queue_and_one_that_stands_now_and_then_is() {
    // As measured where a window of ten packets crossed 40 ms: two looks in five are far off.
    assert!(grows_over(|look| if look % 5 < 2 { 9 + look % 7 } else { 2 }, 2));
    assert!(!grows_over(|look| if look % 5 < 2 { 9 + look % 7 } else { 7 }, 2), "it never goes");
    assert!(!grows_over(|look| if look % 100 < 50 { 10 } else { 0 }, 1), "half of the time");
    assert!(grows_over(|look| if look % 400 < 16 { 10 } else { 0 }, 1), "once in twenty seconds");
}

#[test]
fn nothing_else_is() {
    let (traffic, notice) = held_down();
    let stays = |what: &str, traffic: Traffic, notice: WindowNotice| {
        assert!(!grows(4, traffic, notice, false), "{what}");
    };
    let short = Duration::from_millis(4);
    stays("a queue", Traffic { rtt: RTT + Duration::from_millis(5), ..traffic }, notice);
    stays("a short path", Traffic { rtt: short, min_rtt: Some(short), ..traffic }, notice);
    stays("nobody has seen the path", Traffic { min_rtt: None, ..traffic }, notice);
    stays("a caller who wants little", Traffic { outstanding_bytes: 3 << 20, ..traffic }, notice);
    for kind in [WindowKind::CutHere, WindowKind::CutByTimeout, WindowKind::Limit] {
        stays(kind.name(), traffic, WindowNotice { kind, ..notice });
    }
    // The other end's window, a store or a cap of ours is what limits.
    stays("windows that nobody fills", traffic, WindowNotice { cwnd_packets: 300, ..notice });
}

/// Lets such a session go on for so many seconds while `sender` sends its payload, and once a second this is told, by
/// whom; whether it wants one more then.
fn goes_on(
    connections: &mut Connections,
    seen: &mut Traffic,
    sender: Host,
    told: &[(Host, WindowNotice)],
    seconds: u32,
) -> bool {
    for _ in 0..seconds {
        goes_on_for(connections, seen, sender, &[], 19);
        goes_on_for(connections, seen, sender, told, 1);
    }
    connections.wants_more()
}

/// The same for so many looks, after each of which this is told.
fn goes_on_for(
    connections: &mut Connections,
    seen: &mut Traffic,
    sender: Host,
    told: &[(Host, WindowNotice)],
    looks: u32,
) -> bool {
    for _ in 0..looks {
        seen.now += Duration::from_millis(50);
        let (data, little) = (100 * u64::from(MSS), 480);
        let (received, acked) = if sender == Host::Far { (data, little) } else { (little, data) };
        seen.received_bytes += received;
        seen.acked_bytes += acked;
        connections.observe(seen);
        told.iter().for_each(|(host, notice)| connections.told(*host, notice));
    }
    connections.wants_more()
}

#[test]
fn windows_that_carry_no_data_are_cut_in_vain() {
    let (traffic, notice) = held_down();
    let small = WindowNotice { cwnd_packets: 7, ..notice };
    let large = WindowNotice { cwnd_packets: 300, ..notice };
    let cut_here = WindowNotice { kind: WindowKind::CutHere, ..notice };
    for (sender, other) in [(Host::Near, Host::Far), (Host::Far, Host::Near)] {
        let grows = |told: &[(Host, WindowNotice)]| {
            goes_on(&mut Connections::new(4), &mut { traffic }, sender, told, 60)
        };
        assert!(grows(&[(sender, notice)]), "{sender:?} sends");
        assert!(!grows(&[(other, notice)]) && !grows(&[(other, small)]), "{other:?} sends hardly anything");
        assert!(!grows(&[(sender, small)]), "a window that nobody fills");
        assert!(
            !grows(&[(sender, large), (sender, small), (sender, small)]),
            "one that is not filled either"
        );
        assert!(!grows(&[(sender, notice), (sender, cut_here)]), "the device of {sender:?} cuts it");
        assert!(grows(&[(sender, notice), (other, cut_here)]), "that of {other:?} does not matter");
    }
}

#[test]
fn after_a_pause_it_begins_anew() {
    let (mut seen, notice) = held_down();
    let told = [(Host::Far, notice)];
    let mut connections = Connections::new(4);
    assert!(!goes_on(&mut connections, &mut seen, Host::Far, &told, 6), "one span counts");
    connections.restart();
    seen.now += Duration::from_secs(100);
    assert!(!goes_on(&mut connections, &mut seen, Host::Far, &told, 6), "one span of another load");
    assert!(goes_on(&mut connections, &mut seen, Host::Far, &told, 6));
    connections.restart();
    assert!(!connections.wants_more(), "nor is one opened that was wanted before");
}

#[test]
fn reads_are_no_measure_for_writes() {
    let (mut seen, notice) = held_down();
    let mut connections = Connections::new(4);
    assert!(!goes_on(&mut connections, &mut seen, Host::Far, &[(Host::Far, notice)], 6));
    let told = [(Host::Near, notice)];
    assert!(!goes_on(&mut connections, &mut seen, Host::Near, &told, 6), "one span of reads, one of writes");
    assert!(goes_on(&mut connections, &mut seen, Host::Near, &told, 6));
}

#[test]
fn a_session_that_is_made_again_does_not_try_again_what_was_useless() {
    let (mut seen, notice) = held_down();
    let told = [(Host::Far, WindowNotice { cwnd_packets: 100, ..notice })];
    let mut connections = Connections::new(4);
    assert!(goes_on(&mut connections, &mut seen, Host::Far, &told, 30));
    // The second brings nothing.
    seen.connections = 2;
    assert!(!goes_on(&mut connections, &mut seen, Host::Far, &told, 60));
    assert!(!goes_on(&mut connections.again(4), &mut seen, Host::Far, &told, 60));
    assert!(goes_on(&mut Connections::new(4).again(4), &mut seen, Host::Far, &told, 60));
    assert!(
        !goes_on(&mut Connections::new(4).again(2), &mut seen, Host::Far, &told, 60),
        "no more agreed to"
    );
}

#[test]
fn one_that_cannot_be_had_is_the_last_that_is_tried() {
    let (traffic, notice) = held_down();
    let (mut connections, mut seen) = (Connections::new(4), traffic);
    let mut asked = 0;
    for step in 1..6000u32 {
        seen.now += Duration::from_millis(50);
        seen.received_bytes += 140_000;
        connections.observe(&seen);
        if step.is_multiple_of(20) {
            connections.told(Host::Far, &notice);
        }
        if connections.wants_more() {
            asked += 1;
            connections.stay();
        }
    }
    assert_eq!(asked, 1);
}

/// A path that a session shares with flows of others.
#[derive(Clone, Copy, Debug)]
struct Path {
    loss: f64,
    rtt_s: f64,
    line_bytes_per_s: f64,
    queue_s: f64,
    others: usize,
}

const PATH: Path = Path { loss: 0.0, rtt_s: 0.1, line_bytes_per_s: 117e6, queue_s: 0.1, others: 0 };

/// CUBIC, a round trip at a time.
#[derive(Clone, Debug)]
struct Flow {
    cwnd: f64,
    ssthresh: f64,
    top: f64,
    epoch_s: f64,
    reno: f64,
    cut_until_s: f64,
}

impl Flow {
    fn new(now_s: f64) -> Flow {
        Flow { cwnd: 10.0, ssthresh: f64::INFINITY, top: 0.0, epoch_s: now_s, reno: 0.0, cut_until_s: now_s }
    }

    /// A round trip is over; whether the window was cut.
    fn round(&mut self, now_s: f64, rtt_s: f64, has_lost: bool) -> bool {
        if has_lost && now_s >= self.cut_until_s {
            self.top = if self.cwnd < self.top { self.cwnd * 0.85 } else { self.cwnd };
            self.cwnd = (self.cwnd * 0.7).max(2.0);
            (self.ssthresh, self.reno) = (self.cwnd, self.cwnd);
            (self.epoch_s, self.cut_until_s) = (now_s, now_s + rtt_s);
            return true;
        }
        if self.cwnd < self.ssthresh {
            self.cwnd = (self.cwnd * 2.0).min(self.ssthresh);
            return false;
        }
        let k_s = ((self.top - self.ssthresh).max(0.0) / 0.4).cbrt();
        let target = self.top + 0.4 * (now_s + rtt_s - self.epoch_s - k_s).powi(3);
        self.reno += 0.53;
        self.cwnd = self.cwnd.max(target.min(1.5 * self.cwnd)).max(self.reno);
        false
    }
}

/// How a session fared.
#[derive(Debug)]
struct Outcome {
    /// When its connections came.
    opened_s: Vec<f64>,
}

/// A session in bulk for so many seconds.
fn session(path: Path, seconds: f64, seed: u64) -> Outcome {
    let Path { loss, rtt_s, line_bytes_per_s: line, queue_s, others } = path;
    let (mut now_s, mut queue, mut random) = (0.0, 0.0, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut ours, mut theirs) = (vec![Flow::new(0.0)], vec![Flow::new(0.0); others]);
    let (mut connections, mut outcome) = (Connections::new(64), Outcome { opened_s: vec![0.0] });
    let (mut moved, mut joins_s) = (0.0, None::<f64>);
    while now_s < seconds {
        let wanted: f64 = ours.iter().chain(&theirs).map(|flow| flow.cwnd).sum::<f64>() * f64::from(MSS);
        let round_s = rtt_s + queue / line;
        let room = line * queue_s;
        queue = (wanted - line * rtt_s).max(0.0);
        let dropped = ((queue - room) / wanted).max(0.0);
        queue = queue.min(room);
        let carried = (line * rtt_s / wanted).min(1.0);
        let mut cuts = Vec::new();
        for (at, flow) in ours.iter_mut().chain(&mut theirs).enumerate() {
            let arrive = ((1.0 - loss) * (1.0 - dropped)).powf(flow.cwnd);
            let is_ours = at < outcome.opened_s.len();
            moved += if is_ours { flow.cwnd * f64::from(MSS) * carried } else { 0.0 };
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let has_lost = (random >> 11) as f64 / (1u64 << 53) as f64 > arrive;
            if flow.round(now_s, rtt_s, has_lost) && is_ours {
                cuts.push(flow.cwnd as u32);
            }
        }
        for look in 0..10 {
            connections.observe(&Traffic {
                now: Instant::ZERO + Duration::from_secs_f64(now_s + round_s * f64::from(look) / 10.0),
                rtt: Duration::from_secs_f64(round_s),
                rtt_var: Duration::from_secs_f64(round_s / 50.0),
                min_rtt: Some(Duration::from_secs_f64(rtt_s)),
                received_bytes: moved as u64,
                acked_bytes: 0,
                outstanding_bytes: 1 << 30,
                connections: ours.len() as u16,
            });
            for cwnd_packets in cuts.drain(..) {
                let notice = WindowNotice { kind: WindowKind::CutByLoss, cwnd_packets, mss_bytes: MSS };
                connections.told(Host::Far, &notice);
            }
        }
        now_s += round_s;
        // A login takes some round trips.
        let joins = connections.wants_more().then(|| *joins_s.get_or_insert(now_s + 4.0 * round_s));
        if joins.is_some_and(|joins| now_s >= joins) {
            ours.push(Flow::new(now_s));
            outcome.opened_s.push(now_s);
            joins_s = None;
        }
    }
    outcome
}

/// How many of twenty sessions end with one connection, two, three, four.
fn ends(path: Path, seconds: f64) -> [usize; 4] {
    let mut ends = [0; 4];
    for seed in 1..=20 {
        let opened_s = session(path, seconds, seed).opened_s;
        // One at a time, each after the one before was measured.
        assert!(opened_s.windows(2).all(|two| two[1] - two[0] > 3.0), "{path:?} {seed}: {opened_s:?}");
        ends[opened_s.len() - 1] += 1;
    }
    ends
}

#[test]
fn losses_by_chance_are_carried_by_four_in_the_end() {
    for (loss, rtt_s) in [(1e-4, 0.1), (1e-3, 0.1), (1e-2, 0.1), (1e-4, 0.02), (1e-3, 0.02)] {
        let ends = ends(Path { loss, rtt_s, ..PATH }, 300.0);
        assert!(ends[0] == 0 && ends[3] >= 12, "{loss} over {rtt_s} s: {ends:?}");
    }
}

#[test]
fn a_path_that_loses_nothing_stays_at_one() {
    for rtt_s in [0.002, 0.006, 0.02, 0.1, 0.25] {
        let path = Path { rtt_s, queue_s: rtt_s, ..PATH };
        assert_eq!(ends(path, 120.0), [20, 0, 0, 0], "{rtt_s}");
    }
}

#[test]
fn a_queue_that_others_fill_is_left_to_them() {
    for others in [1, 3] {
        assert_eq!(ends(Path { others, ..PATH }, 200.0), [20, 0, 0, 0], "{others}");
    }
}

#[test]
fn where_a_line_has_no_queue_one_is_tried_and_no_more() {
    for (line_bytes_per_s, rtt_s) in [(117e6, 0.1), (117e6, 0.02), (10e6, 0.1)] {
        let path = Path { line_bytes_per_s, rtt_s, queue_s: 0.0, ..PATH };
        assert_eq!(ends(path, 300.0), [0, 20, 0, 0], "{path:?}");
    }
}

#[test]
fn a_neighbour_on_such_a_line_is_hardly_ever_outnumbered_by_four() {
    let ends = ends(Path { others: 1, queue_s: 0.0, ..PATH }, 300.0);
    assert!(ends[3] <= 1 && ends[0] + ends[1] > ends[2], "{ends:?}");
}
