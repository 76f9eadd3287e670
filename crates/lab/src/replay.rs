//! What a policy would have decided on a recorded run: the samples of each connection go in, decisions come out.
//!
//! What happened does not change: a policy that would have paced sees the rates of one that did not. So a replay shows
//! how a policy reads a path, not what it would have made of it; for that, a plan runs it.

use std::collections::BTreeMap;
use std::time::Duration;

use control::{Decision, Monitor, Observation, Policy};
use event::{Host, Instant, SocketSample};
use store::tables::{Ios, Sockets};

/// One connection at one end, and what its policy would have said.
#[derive(Clone, PartialEq, Debug)]
pub struct Replayed {
    /// Which end.
    pub host: Host,
    /// Its number within its process.
    pub connection: u32,
    /// In the order of time.
    pub steps: Vec<Step>,
}

/// A sample and the decision that it led to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// What was recorded.
    pub sample: SocketSample,
    /// What the policy says after it.
    pub decision: Decision,
}

/// What callers had outstanding over time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outstanding {
    /// From when on it was so much, in the order of time.
    changes: Vec<(u64, u64)>,
}

impl Outstanding {
    /// From the requests of a load.
    pub fn of(ios: &Ios) -> Outstanding {
        let len = |row: usize| i64::from(ios.len_bytes[row]);
        let issued = ios.issued_t_ns.iter().enumerate().map(|(row, t_ns)| (*t_ns, len(row)));
        let completed = ios.completed_t_ns.iter().enumerate().map(|(row, t_ns)| (*t_ns, -len(row)));
        let mut steps: Vec<(u64, i64)> = issued.chain(completed).collect();
        // What completes at a moment makes room for what is issued then.
        steps.sort_unstable();
        let mut now = 0;
        let sum = |(t_ns, change): (u64, i64)| {
            now += change;
            (t_ns, now.max(0).cast_unsigned())
        };
        Outstanding { changes: steps.into_iter().map(sum).collect() }
    }

    /// At `t`; none if nothing was recorded.
    pub fn at(&self, t: Instant) -> Option<u64> {
        if self.changes.is_empty() {
            return None;
        }
        let after = self.changes.partition_point(|(t_ns, _)| *t_ns <= t.as_nanos());
        Some(after.checked_sub(1).map_or(0, |last| self.changes[last].1))
    }
}

impl Replayed {
    /// The steps thinned out: one as soon as `time` has passed since the one before, and the last.
    pub fn every(&self, time: Duration) -> impl Iterator<Item = &Step> {
        let mut next = Instant::ZERO;
        let last = self.steps.last();
        self.steps.iter().filter(move |step| {
            let is_due = step.sample.t >= next || last.is_some_and(|last| std::ptr::eq(last, *step));
            if is_due {
                next = step.sample.t + time;
            }
            is_due
        })
    }

    /// Time from the first sample to that of `step`.
    pub fn since_start(&self, step: &Step) -> Duration {
        self.steps.first().map_or(Duration::ZERO, |first| step.sample.t.since(first.sample.t))
    }
}

/// Shows every connection of a table to a policy of its own.
pub fn replay(table: &Sockets, mut policy: impl FnMut() -> Box<dyn Policy>) -> Vec<Replayed> {
    let mut rows: BTreeMap<(&'static str, u32), Vec<usize>> = BTreeMap::new();
    for row in 0..table.t_ns.len() {
        rows.entry((table.host[row].name(), table.connection[row])).or_default().push(row);
    }
    let each = rows.into_values().map(|mut rows| {
        rows.sort_by_key(|row| table.t_ns[*row]);
        let samples = rows.iter().map(|row| table.sample(*row));
        let (host, connection) = (table.host[rows[0]], table.connection[rows[0]]);
        Replayed { host, connection, steps: decide(samples, policy().as_mut()) }
    });
    each.collect()
}

fn decide(samples: impl Iterator<Item = SocketSample>, policy: &mut dyn Policy) -> Vec<Step> {
    let mut monitor = Monitor::new();
    let step = |sample: SocketSample| {
        let seen = observation(&sample);
        policy.observe(&seen);
        // As the sender's end does; the other hears of it half a round trip later.
        if let Some(notice) = monitor.observe(&seen) {
            policy.told(&notice);
        }
        Step { sample, decision: policy.decide() }
    };
    samples.map(step).collect()
}

/// What the policy was shown, as `engine` shows it.
fn observation(sample: &SocketSample) -> Observation {
    let backlog_bytes = u64::from(sample.notsent_bytes).saturating_add(sample.unsent_bytes);
    Observation {
        now: sample.t,
        rtt: Duration::from_nanos(sample.rtt_ns),
        min_rtt: Some(sample.min_rtt_ns).filter(|ns| *ns > 0).map(Duration::from_nanos),
        moved_bytes: sample.app_rx_bytes.saturating_add(sample.acked_bytes),
        delivery_rate_bytes_per_s: sample.delivery_rate_bytes_per_s,
        app_limited: sample.is_app_limited,
        retransmitted_packets: sample.retransmitted_packets.into(),
        lost_packets: sample.lost_packets,
        timeouts: sample.timeouts,
        marked_packets: sample.marked_packets,
        busy: Duration::from_nanos(sample.busy_ns),
        delivered_packets: sample.delivered_packets,
        unacked_packets: sample.unacked_packets,
        mss_bytes: sample.mss_bytes,
        cwnd_packets: sample.cwnd_packets,
        ssthresh_packets: sample.ssthresh_packets,
        state: sample.state,
        backlog_bytes,
        // What waited in between is not recorded, nor what was held back.
        burst_bytes: backlog_bytes,
        was_spaced: false,
        handed_bytes_per_s: 0,
        request_bytes: sample.request_bytes,
    }
}

#[cfg(test)]
mod tests {
    use control::Choice;
    use event::{Io, Op};
    use store::tables::Row;

    use super::*;

    /// A connection over 100 ms that carries 100 MB/s, sampled for three seconds.
    fn samples(connection: u32) -> impl Iterator<Item = SocketSample> {
        (0..300u64).map(move |at| SocketSample {
            cwnd_packets: 7000,
            mss_bytes: 1448,
            rtt_ns: 100_000_000,
            min_rtt_ns: 100_000_000,
            acked_bytes: at * 1_000_000,
            delivered_packets: (at * 690) as u32,
            delivery_rate_bytes_per_s: 100_000_000,
            notsent_bytes: 4 << 20,
            unsent_bytes: 64 << 20,
            request_bytes: 1 << 20,
            ..SocketSample::new(Instant::from_nanos(at * 10_000_000), Host::Far, connection)
        })
    }

    #[test]
    fn each_connection_has_a_policy_of_its_own() {
        let mut table = Sockets::default();
        // Interleaved, and one of them backwards, as files of several processes are.
        let backwards: Vec<SocketSample> = samples(2).collect();
        for (one, other) in samples(1).zip(backwards.iter().rev()) {
            one.push(&mut table);
            other.push(&mut table);
        }
        let mut made = 0;
        let replayed = replay(&table, || {
            made += 1;
            Choice::Auto.policy()
        });
        assert_eq!((replayed.len(), made), (2, 2));
        let decisions = |at: usize| replayed[at].steps.iter().map(|step| step.decision).collect::<Vec<_>>();
        assert_eq!(decisions(0), decisions(1));
        let last = replayed[0].steps[299];
        assert_eq!(last.sample.t, Instant::from_nanos(2_990_000_000));
        let outstanding = last.decision.outstanding_bytes;
        assert!((18_000_000..25_000_000).contains(&outstanding), "twice the product: {outstanding}");
        assert!(last.decision.pacing_bytes_per_s.is_some(), "a lot to send is paced");
    }

    #[test]
    fn what_was_outstanding() {
        let mut ios = Ios::default();
        for (issued, completed, len_bytes) in [(10, 30, 100), (20, 40, 50), (30, 60, 7)] {
            let (issued, completed) = (Instant::from_nanos(issued), Instant::from_nanos(completed));
            Io { issued, completed, op: Op::Read, offset_bytes: 0, len_bytes, status: 0 }.push(&mut ios);
        }
        let outstanding = Outstanding::of(&ios);
        let at = [5, 10, 29, 30, 45, 60].map(|ns| outstanding.at(Instant::from_nanos(ns)));
        assert_eq!(at, [0, 100, 150, 57, 7, 0].map(Some));
        assert_eq!(Outstanding::of(&Ios::default()).at(Instant::ZERO), None);
    }

    #[test]
    fn steps_are_thinned_out() {
        let steps: Vec<Step> = decide(samples(1), Choice::Auto.policy().as_mut());
        let replayed = Replayed { host: Host::Far, connection: 1, steps };
        let times = replayed.every(Duration::from_secs(1)).map(|step| replayed.since_start(step).as_millis());
        assert_eq!(times.collect::<Vec<_>>(), [0, 1000, 2000, 2990]);
        assert_eq!(replayed.every(Duration::ZERO).count(), 300);
    }

    #[test]
    fn nothing_recorded_is_nothing_decided() {
        assert!(replay(&Sockets::default(), || unreachable!("no connection")).is_empty());
    }
}
