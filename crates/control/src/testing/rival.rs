//! `auto` in bulk beside somebody else's bulk in one queue: it must not have less of the line than without any policy, and
//! leave the other one its half.
//!
//! One queue as long as the path, which loses what it has no room for; a sender under a policy whose window follows CUBIC's
//! rules, with neither HyStart nor timeouts; and a rival, by the same rules or by those of BBR (net/ipv4/tcp_bbr.c) once it
//! has left its start. What is lost is known a round trip later, and nothing waits for it.

use core::time::Duration;
use std::collections::VecDeque;

use event::Instant;

use crate::Choice;
use crate::policy::{Observation, UNCAPPED};
use crate::testing::QUIET;
use crate::testing::sender::{Cubic, LINE, MSS, TICK};

const LOOK_EVERY: Duration = Duration::from_millis(9);
/// A segment of 64 KiB goes out whole.
const BURST_PACKETS: f64 = 45.0;
/// BBR sends faster than what arrived most of in so many round trips in one round trip of eight, and slower in the next; and
/// has twice its product under way at most.
const BBR_ROUNDS: usize = 10;
const BBR_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// So often, and for so long, it has next to nothing under way, to see the path without a queue.
const BBR_DRAINS_EVERY: Duration = Duration::from_secs(10);
const BBR_DRAINS_FOR: Duration = Duration::from_millis(200);
const BBR_DRAINED: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Congestion {
    Cubic,
    Bbr,
}

/// A sender that always has something to send.
struct Flow {
    congestion: Congestion,
    /// There and back, without a queue.
    rtt: Duration,
    now: Instant,
    cwnd_packets: u32,
    ssthresh_packets: u32,
    cubic: Cubic,
    /// Packets acknowledged towards the next step of the window.
    counted: u32,
    cut_until: Instant,
    out_packets: u32,
    arrived_packets: u32,
    lost_packets: u64,
    smoothed_rtt: Duration,
    least_rtt: Duration,
    /// When it is known what became of a packet, and how long that has waited in the queue; `None` if it was lost.
    under_way: VecDeque<(Instant, Option<Duration>)>,
    /// How much had arrived at each time of the last round trip.
    arrivals: VecDeque<(Instant, u32)>,
    /// What arrived in each of the last round trips, in bytes per second.
    rates: VecDeque<u64>,
    round_ends: Instant,
    pacing_bytes_per_s: Option<u64>,
    credit_packets: f64,
}

impl Flow {
    fn new(congestion: Congestion, rtt: Duration) -> Flow {
        Flow {
            congestion,
            rtt,
            now: Instant::ZERO,
            cwnd_packets: 10,
            ssthresh_packets: i32::MAX as u32,
            cubic: Cubic::default(),
            counted: 0,
            cut_until: Instant::ZERO,
            out_packets: 0,
            arrived_packets: 0,
            lost_packets: 0,
            smoothed_rtt: rtt,
            least_rtt: rtt,
            under_way: VecDeque::new(),
            arrivals: VecDeque::new(),
            rates: VecDeque::from([LINE]),
            round_ends: Instant::ZERO,
            pacing_bytes_per_s: None,
            credit_packets: 0.0,
        }
    }

    /// Learns what has become of its packets by now; how many more go out.
    fn step(&mut self, now: Instant) -> u32 {
        self.now = now;
        self.learn();
        let room_packets = self.window().saturating_sub(self.out_packets);
        let Some(pace) = self.pace() else { return room_packets };
        self.credit_packets =
            (self.credit_packets + pace as f64 * TICK.as_secs_f64() / MSS as f64).min(BURST_PACKETS);
        let packets = room_packets.min(self.credit_packets as u32);
        self.credit_packets -= f64::from(packets);
        packets
    }

    fn learn(&mut self) {
        let is_limited = self.out_packets >= self.cwnd_packets;
        while let Some((_, waited)) = self.under_way.pop_front_if(|(due, _)| *due <= self.now) {
            self.out_packets -= 1;
            match waited {
                Some(waited) => {
                    self.arrived_packets += 1;
                    self.smoothed_rtt = (7 * self.smoothed_rtt + self.rtt + waited) / 8;
                    self.least_rtt = self.least_rtt.min(self.rtt + waited);
                    if is_limited {
                        self.grow();
                    }
                }
                None => self.lose(),
            }
        }
        self.arrivals.push_back((self.now, self.arrived_packets));
        while self.arrivals.front().is_some_and(|(at, _)| self.now.since(*at) > self.smoothed_rtt) {
            self.arrivals.pop_front();
        }
        if self.now >= self.round_ends && self.out_packets > BBR_DRAINED {
            self.round_ends = self.now + self.smoothed_rtt;
            self.rates.push_back(self.delivery_rate());
            self.rates.drain(..self.rates.len().saturating_sub(BBR_ROUNDS));
        }
    }

    fn grow(&mut self) {
        self.counted += 1;
        let is_slow_start = self.cwnd_packets < self.ssthresh_packets;
        if is_slow_start
            || self.counted >= self.cubic.packets_per_step(self.now, self.cwnd_packets, self.smoothed_rtt)
        {
            (self.counted, self.cwnd_packets) = (0, self.cwnd_packets + 1);
        }
    }

    fn lose(&mut self) {
        self.lost_packets += 1;
        if self.now < self.cut_until {
            return;
        }
        self.cut_until = self.now + self.smoothed_rtt;
        self.cubic = Cubic::cut(self.cwnd_packets);
        self.ssthresh_packets = (self.cwnd_packets * 7 / 10).max(2);
        self.cwnd_packets = self.ssthresh_packets;
    }

    /// How many packets may be under way.
    fn window(&self) -> u32 {
        let since_zero_ns = self.now.since(Instant::ZERO).as_nanos();
        match self.congestion {
            Congestion::Cubic => self.cwnd_packets,
            Congestion::Bbr if since_zero_ns % BBR_DRAINS_EVERY.as_nanos() < BBR_DRAINS_FOR.as_nanos() => {
                BBR_DRAINED
            }
            Congestion::Bbr => 2 * product_packets(self.bbr_bytes_per_s(), self.rtt),
        }
    }

    /// What lets its packets out, in bytes per second.
    fn pace(&self) -> Option<u64> {
        let round = self.now.since(Instant::ZERO).as_nanos() / self.rtt.as_nanos();
        match self.congestion {
            Congestion::Cubic => self.pacing_bytes_per_s.filter(|pace| *pace < UNCAPPED),
            Congestion::Bbr => Some((self.bbr_bytes_per_s() as f64 * BBR_GAINS[(round % 8) as usize]) as u64),
        }
    }

    fn bbr_bytes_per_s(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or(LINE)
    }

    /// Over the last round trip.
    fn delivery_rate(&self) -> u64 {
        let Some((since, before)) = self.arrivals.front() else { return 0 };
        let bytes = u64::from(self.arrived_packets - before) * MSS;
        let time = self.now.since(*since).max(self.rtt);
        u64::try_from(u128::from(bytes) * 1_000_000_000 / time.as_nanos()).unwrap_or(u64::MAX)
    }

    /// What TCP_INFO says now.
    fn info(&self) -> Observation {
        Observation {
            now: self.now,
            rtt: self.smoothed_rtt,
            min_rtt: Some(self.least_rtt),
            moved_bytes: u64::from(self.arrived_packets) * MSS,
            delivery_rate_bytes_per_s: self.delivery_rate(),
            retransmitted_packets: self.lost_packets,
            delivered_packets: self.arrived_packets,
            unacked_packets: self.out_packets,
            cwnd_packets: self.cwnd_packets,
            ssthresh_packets: self.ssthresh_packets,
            backlog_bytes: 64 << 20,
            burst_bytes: 64 << 20,
            request_bytes: 1 << 20,
            ..QUIET
        }
    }
}

fn product_packets(bytes_per_s: u64, rtt: Duration) -> u32 {
    (u128::from(bytes_per_s) * rtt.as_nanos() / 1_000_000_000 / u128::from(MSS)) as u32
}

/// What a sender under a policy and such a rival carry from the twentieth second until the sixtieth, in bytes. Whose
/// packet finds room in a full queue is left to chance, so many times as likely to be ours: packets that are paced come
/// one by one, others together.
fn carry(choice: Choice, rival: Congestion, rtt: Duration, places: u32, seed: u64) -> [u64; 2] {
    let (from, until) = [20, 60].map(|s| Instant::ZERO + Duration::from_secs(s)).into();
    let mut policy = choice.policy();
    let mut flows = [Congestion::Cubic, rival].map(|congestion| Flow::new(congestion, rtt));
    let mut queue: VecDeque<(Instant, usize)> = VecDeque::new();
    let (mut now, mut next_look) = (Instant::ZERO, Instant::ZERO);
    let (mut credit_packets, mut random, mut before) = (0.0, seed, [0, 0]);
    while now < until {
        now += TICK;
        if now == from {
            before = flows.each_ref().map(|flow| flow.arrived_packets);
        }
        credit_packets += LINE as f64 * TICK.as_secs_f64() / MSS as f64;
        while credit_packets >= 1.0
            && let Some((since, owner)) = queue.pop_front()
        {
            credit_packets -= 1.0;
            flows[owner].under_way.push_back((now + rtt, Some(now.since(since))));
        }
        if queue.is_empty() {
            credit_packets = 0.0;
        }
        let mut to_send = flows.each_mut().map(|flow| flow.step(now));
        while to_send != [0, 0] {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let ours = to_send[0] * places;
            let owner = usize::from((random >> 33) as u32 % (ours + to_send[1]) >= ours);
            to_send[owner] -= 1;
            flows[owner].out_packets += 1;
            if queue.len() < product_packets(LINE, rtt) as usize {
                queue.push_back((now, owner));
            } else {
                flows[owner].under_way.push_back((now + rtt, None));
            }
        }
        if now >= next_look {
            next_look = now + LOOK_EVERY;
            policy.observe(&flows[0].info());
            flows[0].pacing_bytes_per_s = policy.decide().pacing_bytes_per_s;
        }
    }
    [0, 1].map(|n| u64::from(flows[n].arrived_packets - before[n]) * MSS)
}

#[test]
fn beside_others_it_has_what_it_would_have_without() {
    for (rival, rtt_ms) in [(Congestion::Cubic, 4), (Congestion::Bbr, 4), (Congestion::Bbr, 16)] {
        let rtt = Duration::from_millis(rtt_ms);
        let all = |choice| (1..=4).map(|seed| carry(choice, rival, rtt, 1, seed)[0]).sum::<u64>() as f64;
        let part = all(Choice::Auto) / all(Choice::None);
        assert!(part >= 0.9, "{part:.3} beside {rival:?} over {rtt:?}");
    }
}

#[test]
fn others_who_are_cut_more_often_keep_their_half_of_the_line() {
    let rtt = Duration::from_millis(16);
    let all = |choice| {
        let carried = (1..=4).map(|seed| carry(choice, Congestion::Cubic, rtt, 16, seed));
        let [ours, theirs] = carried.fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        2.0 * theirs as f64 / (ours + theirs) as f64
    };
    let (none, auto) = (all(Choice::None), all(Choice::Auto));
    assert!(
        none < 0.8 && auto >= 0.9,
        "{none:.3} of their half beside nothing controlled, {auto:.3} beside auto"
    );
}
