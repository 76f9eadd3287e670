//! Loss episodes of a connection as looks at TCP_INFO show them: queueing delay and flight at each loss.
//!
//! Written apart from `control`, so that the marks by which it tells causes apart are checked against the path itself.

use core::time::Duration;
use std::collections::VecDeque;

use event::Instant;
use sim::tcp::network::Network;
use sim::tcp::sender::Info;

/// Time between two looks: an eighth of a round trip, within these.
const LOOK_LEAST: Duration = Duration::from_millis(1);
const LOOK_MOST: Duration = Duration::from_millis(20);
/// A round in which a larger share was lost carried nothing that counts.
const CARRIED_SHARE: u32 = 16;
/// Delayed acknowledgements raise the smoothed round trip of small flights by so much: each adds up to 40 ms to one sample.
const SMALL_FLIGHT: u32 = 40;
const DELAYED: Duration = Duration::from_millis(10);
/// Packets that wait to be sent by a sender in bulk.
const BULK_PACKETS: u64 = control::BULK_BYTES / sim::tcp::MSS_BYTES as u64;

/// A cut of the window by loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Episode {
    /// Time of the look that saw it.
    pub(crate) at: Instant,
    /// Second lowest queueing delay of the half round trip that follows.
    pub(crate) queued: Duration,
    /// Packets in flight a round trip before.
    pub(crate) flight: u32,
    /// A lot waited to be sent when it was noticed.
    pub(crate) is_bulk: bool,
    /// Duplicates that the receiver reported in the two round trips that follow.
    pub(crate) duplicates: u32,
}

/// All that was seen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) episodes: Vec<Episode>,
    /// Largest number of packets that a round carried, and when it ended.
    pub(crate) carried: Vec<(Instant, u32)>,
    pub(crate) base_rtt: Duration,
}

/// Largest queueing delay at which the queue counts as small.
fn small_queue(base_rtt: Duration) -> Duration {
    LOOK_LEAST + base_rtt / 400
}

/// Looks at the first connection of `network` until `end`.
pub(crate) fn watch(network: &mut Network, end: Instant) -> Seen {
    let mut looks: VecDeque<(Instant, Info)> = VecDeque::new();
    let mut all = Vec::new();
    let mut carried = Vec::new();
    let mut round: Option<(Instant, Info)> = None;
    while network.now() < end {
        let info = network.flows()[0].sender.info();
        let now = network.now();
        if let Some((began, first)) = round
            && now >= began + info.rtt
        {
            let delivered = (info.delivered - first.delivered) as u32;
            let lost = info.counts.resent - first.counts.resent + info.lost;
            if lost * CARRIED_SHARE < delivered {
                carried.push((now, delivered));
            }
            round = Some((now, info));
        }
        round.get_or_insert((now, info));
        looks.push_back((now, info));
        all.push((now, info));
        network.run_until(now + (info.rtt / 8).clamp(LOOK_LEAST, LOOK_MOST));
    }
    let base_rtt = all.iter().filter_map(|(_, info)| info.min_rtt).min().unwrap_or_default();
    let mut episodes = Vec::new();
    for pair in 1..all.len() {
        let (at, info) = all[pair];
        if info.counts.recoveries + info.counts.timeouts
            > all[pair - 1].1.counts.recoveries + all[pair - 1].1.counts.timeouts
        {
            episodes.push(episode(&all, pair, at, &info, base_rtt));
        }
    }
    Seen { episodes, carried, base_rtt }
}

fn episode(all: &[(Instant, Info)], index: usize, at: Instant, info: &Info, base_rtt: Duration) -> Episode {
    let after = |time: Duration| all[index..].iter().take_while(move |(t, _)| *t <= at + time);
    let mut waits: Vec<_> = after(info.rtt / 2).map(|(_, look)| look.rtt.saturating_sub(base_rtt)).collect();
    waits.sort();
    let before = all[..index].iter().rev().find(|(t, _)| *t + info.rtt <= at);
    let later = after(2 * info.rtt).last().map_or(info.counts.duplicates, |(_, look)| look.counts.duplicates);
    Episode {
        at,
        queued: waits.get(1).or(waits.first()).copied().unwrap_or_default(),
        flight: before.map_or(0, |(_, look)| look.unacked),
        is_bulk: info.unsent >= BULK_PACKETS,
        duplicates: later - all[index - 1].1.counts.duplicates,
    }
}

impl Seen {
    /// Largest flight that the path carried from 30 s before `at` until then.
    fn most_carried(&self, at: Instant) -> u32 {
        let within = |t: Instant| t <= at && t + Duration::from_secs(30) >= at;
        self.carried.iter().filter(|(t, _)| within(*t)).map(|(_, packets)| *packets).max().unwrap_or(0)
    }

    /// Returns true if no queue stood at `episode`.
    pub(crate) fn is_unqueued(&self, episode: &Episode) -> bool {
        let delayed = if episode.flight < SMALL_FLIGHT { DELAYED } else { Duration::ZERO };
        episode.queued <= small_queue(self.base_rtt) + delayed
    }

    /// Share of the episodes at which no queue stood.
    pub(crate) fn unqueued_share(&self) -> f64 {
        let unqueued = self.episodes.iter().filter(|episode| self.is_unqueued(episode)).count();
        unqueued as f64 / self.episodes.len().max(1) as f64
    }

    /// Time of the second unqueued episode that is a round and a half behind another with no queued one between.
    pub(crate) fn second(&self) -> Option<Instant> {
        self.decided_if(|_, _| true)
    }

    /// Time at which two such episodes are known, one of them at a flight well below what the path has carried.
    pub(crate) fn decided(&self) -> Option<Instant> {
        self.decided_if(|episode, at| {
            f64::from(episode.flight) <= 0.85 * f64::from(self.most_carried(at)) && episode.is_bulk
        })
    }

    fn decided_if(&self, is_witness: impl Fn(&Episode, Instant) -> bool) -> Option<Instant> {
        let mut kept: Vec<Episode> = Vec::new();
        for episode in &self.episodes {
            let ready = episode.at + self.base_rtt / 2;
            if !self.is_unqueued(episode) || episode.duplicates > 0 {
                kept.clear();
                continue;
            }
            if kept.last().is_some_and(|last| episode.at.since(last.at) < self.base_rtt * 3 / 2) {
                continue;
            }
            kept.push(*episode);
            if kept.len() >= 2 && kept.iter().any(|one| is_witness(one, ready)) {
                return Some(ready);
            }
        }
        None
    }
}
