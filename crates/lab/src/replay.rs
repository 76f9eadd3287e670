//! Replay of a policy on a recorded run: the samples of each connection go in, decisions come out.
//!
//! The recorded traffic does not change: a policy that would have paced sees the rates of one that did not. So a
//! replay shows a policy's reading of a path, not its effect; for that, a plan runs it. All inputs of a policy are
//! recorded, so the connection's own policy makes the recorded decisions again: [`Replayed::agreement`].

use std::collections::BTreeMap;
use std::time::Duration;

use control::{CongestionSeen, Decision, Monitor, Observation, Policy, Remembered};
use event::{Granted, Host, Instant, MayChange, SocketSample, Steered};
use tables::{Ios, Sockets};

/// One connection at one end, with the decisions of a policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Replayed {
    /// End of the connection.
    pub host: Host,
    /// Its number within its process.
    pub connection: u32,
    /// In the order of time.
    pub steps: Vec<Step>,
}

/// A sample and the decision that it led to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// The recorded sample.
    pub sample: SocketSample,
    /// The policy's decision after it.
    pub decision: Decision,
}

/// Outstanding data of the callers over time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outstanding {
    /// Instants at which it changed, with the bytes from then on, in order of time.
    changes: Vec<(u64, u64)>,
}

impl Outstanding {
    /// From the requests of a load.
    pub fn of(ios: &Ios) -> Outstanding {
        let len = |row: usize| i64::from(ios.len_bytes[row]);
        let issued = ios.issued_t_ns.iter().enumerate().map(|(row, t_ns)| (*t_ns, len(row)));
        let completed = ios.completed_t_ns.iter().enumerate().map(|(row, t_ns)| (*t_ns, -len(row)));
        let mut steps: Vec<(u64, i64)> = issued.chain(completed).collect();
        // A completion makes room for a request of the same instant.
        steps.sort_unstable();
        let mut now = 0;
        let sum = |(t_ns, change): (u64, i64)| {
            now += change;
            (t_ns, now.max(0).cast_unsigned())
        };
        Outstanding { changes: steps.into_iter().map(sum).collect() }
    }

    /// Bytes at `t`; `None` without a recording.
    pub fn at(&self, t: Instant) -> Option<u64> {
        if self.changes.is_empty() {
            return None;
        }
        let after = self.changes.partition_point(|(t_ns, _)| *t_ns <= t.as_nanos());
        Some(after.checked_sub(1).map_or(0, |last| self.changes[last].1))
    }
}

/// Agreement of a replay with the recorded decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Agreement {
    /// Decisions that were recorded.
    pub recorded: usize,
    /// Recorded decisions that the replay made again.
    pub same: usize,
}

impl Replayed {
    /// Counts the recorded decisions that this policy repeats: all, if it is the connection's own.
    pub fn agreement(&self) -> Agreement {
        let mut agreement = Agreement::default();
        for step in &self.steps {
            if let Some(Steered { decided, .. }) = step.sample.steered {
                agreement.recorded += 1;
                agreement.same += usize::from(decided == step.decision.recorded());
            }
        }
        agreement
    }

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
    let mut replayed = Vec::new();
    for mut rows in rows.into_values() {
        rows.sort_by_key(|row| table.t_ns[*row]);
        let (host, connection) = (table.host[rows[0]], table.connection[rows[0]]);
        let samples: Vec<SocketSample> = rows.iter().map(|row| table.sample(*row)).collect();
        // A number is given again to a connection that comes after.
        for samples in samples.chunk_by(|before, after| !begins_anew(before, after)) {
            replayed.push(Replayed { host, connection, steps: decide(samples, policy().as_mut()) });
        }
    }
    replayed
}

/// Counters of one connection only grow.
fn begins_anew(before: &SocketSample, after: &SocketSample) -> bool {
    after.app_rx_bytes < before.app_rx_bytes
        || after.app_tx_bytes < before.app_tx_bytes
        || after.acked_bytes < before.acked_bytes
        || after.busy_ns < before.busy_ns
}

fn decide(samples: &[SocketSample], policy: &mut dyn Policy) -> Vec<Step> {
    let mut monitor = Monitor::new();
    // Rows without a policy are those of the connection's end. Without any policy, as at a stream's receiver, all
    // rows count.
    let has_policy = samples.iter().any(|sample| sample.steered.is_some());
    let shown = samples.iter().filter(|sample| sample.steered.is_some() || !has_policy);
    let step = |sample: &SocketSample| {
        if let Some(Steered { granted, told, .. }) = sample.steered {
            let part = match granted {
                Granted::Unsaid => None,
                Granted::All => Some(None),
                Granted::Part(bytes_per_s) => Some(Some(bytes_per_s)),
            };
            // The target allocates shares of its line, and sends them to its initiators.
            match (part, sample.host) {
                (None, _) => {}
                (Some(part), Host::Far) => policy.grant(part),
                (Some(part), Host::Near) => policy.left(part),
            }
            if let Some(notice) = told {
                policy.told(&notice);
            }
        }
        let seen = observation(sample);
        policy.observe(&seen);
        // The policy gets its own end's notice at once, the peer's policy a round trip later.
        if let Some(notice) = monitor.observe(&seen) {
            policy.told(&notice);
        }
        Step { sample: *sample, decision: policy.decide() }
    };
    shown.map(step).collect()
}

/// Input of the policy, as `engine` builds it.
fn observation(sample: &SocketSample) -> Observation {
    let backlog_bytes = u64::from(sample.notsent_bytes).saturating_add(sample.unsent_bytes);
    let steered = sample.steered;
    Observation {
        now: sample.t,
        rtt: Duration::from_nanos(sample.rtt_ns),
        min_rtt: Some(sample.min_rtt_ns).filter(|ns| *ns > 0).map(Duration::from_nanos),
        moved_bytes: sample.app_rx_bytes.saturating_add(sample.acked_bytes),
        received_bytes: sample.app_rx_bytes,
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
        peer_window_bytes: sample.snd_wnd_bytes.into(),
        ssthresh_packets: sample.ssthresh_packets,
        state: sample.state,
        backlog_bytes,
        burst_bytes: steered.map_or(backlog_bytes, |steered| steered.burst_bytes),
        was_spaced: steered.is_some_and(|steered| steered.was_spaced),
        handed_bytes_per_s: steered.map_or(0, |steered| steered.handed_bytes_per_s),
        has_company: steered.is_some_and(|steered| steered.has_company),
        paces_itself: steered.is_some_and(|steered| steered.paces_itself),
        congestion: CongestionSeen {
            may_change: steered.map_or(MayChange::Locked, |steered| steered.may_change),
            duplicate_packets: sample.duplicate_packets,
            reorderings: sample.reorderings,
            remembered: Remembered::from_recorded_ppm(steered.map_or(0, |steered| steered.remembered_ppm)),
        },
        paced_one_by_one: steered.is_some_and(|steered| steered.paced_one_by_one),
        forgets_freely: steered.is_some_and(|steered| steered.forgets_freely),
        request_bytes: sample.request_bytes,
    }
}

#[cfg(test)]
mod tests {
    use control::Choice;
    use event::{Io, Op, WindowKind, WindowNotice};
    use tables::Row;

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
        let samples: Vec<SocketSample> = samples(1).collect();
        let steps = decide(&samples, Choice::Auto.policy().as_mut());
        let replayed = Replayed { host: Host::Far, connection: 1, steps };
        let times = replayed.every(Duration::from_secs(1)).map(|step| replayed.since_start(step).as_millis());
        assert_eq!(times.collect::<Vec<_>>(), [0, 1000, 2000, 2990]);
        assert_eq!(replayed.every(Duration::ZERO).count(), 300);
    }

    /// Number of samples: a policy finds the line in half of them.
    const LOOKS: u64 = 1000;

    /// The n-th sample of a connection that alternates between single requests and bulk data, with its pacing. The
    /// held-back data are first sent slowly, and then faster than the line. In the end the device cuts its window.
    fn look(at: u64) -> SocketSample {
        let is_cut = at >= LOOKS - 20;
        let is_lone = if is_cut { at < LOOKS - 10 } else { at % 100 < 50 };
        let granted = match at % 10 {
            3 => Granted::Part(30_000_000),
            7 => Granted::All,
            _ => Granted::Unsaid,
        };
        let notice =
            WindowNotice { kind: WindowKind::CutHere, cwnd_packets: 100 + at as u32, mss_bytes: 1448 };
        let steered = Steered {
            burst_bytes: 1 << 20,
            was_spaced: is_lone,
            handed_bytes_per_s: if at < LOOKS / 2 { 20_000_000 } else { 120_000_000 },
            has_company: true,
            paces_itself: false,
            may_change: MayChange::Locked,
            remembered_ppm: 0,
            paced_one_by_one: false,
            forgets_freely: false,
            granted,
            told: (at % 40 == 9).then_some(notice),
            decided: Choice::None.policy().decide().recorded(),
        };
        SocketSample {
            cwnd_packets: if is_cut { 100 } else { 300 },
            ssthresh_packets: if is_cut { 100 } else { u32::MAX },
            mss_bytes: 1448,
            rtt_ns: 100_000_000,
            min_rtt_ns: 100_000_000,
            acked_bytes: at * 200_000,
            delivered_packets: (at * 138) as u32,
            unacked_packets: 300,
            delivery_rate_bytes_per_s: 100_000_000,
            unsent_bytes: if is_lone { 0 } else { 64 << 20 },
            request_bytes: 1 << 20,
            steered: Some(steered),
            ..SocketSample::new(Instant::from_nanos(at * 2_000_000), Host::Far, 1)
        }
    }

    /// Table of such a connection under a policy, with a last row without one.
    fn recorded(choice: Choice) -> Sockets {
        let looks: Vec<SocketSample> = (0..LOOKS).map(look).collect();
        let mut table = Sockets::default();
        for Step { mut sample, decision } in decide(&looks, choice.policy().as_mut()) {
            sample.steered.iter_mut().for_each(|steered| steered.decided = decision.recorded());
            sample.push(&mut table);
        }
        SocketSample { steered: None, ..look(LOOKS) }.push(&mut table);
        table
    }

    #[test]
    fn the_policy_that_a_connection_had_says_again_what_it_said() {
        for choice in Choice::ALL {
            let table = recorded(choice);
            let agreement = |other: Choice| {
                let replayed = replay(&table, || other.policy());
                assert_eq!(replayed.len(), 1, "{choice}");
                replayed[0].agreement()
            };
            assert_eq!(
                agreement(choice),
                Agreement { recorded: LOOKS as usize, same: LOOKS as usize },
                "{choice}"
            );
            for other in Choice::ALL.into_iter().filter(|other| *other != choice) {
                let Agreement { recorded, same } = agreement(other);
                assert!(recorded == LOOKS as usize && same < recorded, "{other} is not {choice}");
            }
        }
    }

    #[test]
    fn every_column_that_a_policy_is_shown_counts() {
        let table = recorded(Choice::Auto);
        let forget: [fn(&mut Steered); 8] = [
            |steered| steered.burst_bytes = 0,
            |steered| steered.was_spaced = false,
            |steered| steered.handed_bytes_per_s = 0,
            |steered| steered.has_company = false,
            |steered| steered.paces_itself = true,
            |steered| steered.paced_one_by_one = true,
            |steered| steered.forgets_freely = true,
            |steered| steered.granted = Granted::Unsaid,
        ];
        for (n, forget) in forget.into_iter().enumerate() {
            let mut poorer = Sockets::default();
            for row in 0..table.t_ns.len() {
                let mut sample = table.sample(row);
                sample.steered.iter_mut().for_each(forget);
                sample.push(&mut poorer);
            }
            let replayed = replay(&poorer, || Choice::Auto.policy());
            let Agreement { recorded, same } = replayed[0].agreement();
            assert!(recorded == LOOKS as usize && same < recorded, "column {n} makes no difference");
        }
    }

    #[test]
    fn a_number_that_is_given_again_is_another_connection() {
        let mut table = Sockets::default();
        samples(1).for_each(|sample| sample.push(&mut table));
        for sample in samples(1).take(20) {
            SocketSample { t: sample.t + Duration::from_secs(9), ..sample }.push(&mut table);
        }
        let replayed = replay(&table, || Choice::Auto.policy());
        assert_eq!(replayed.iter().map(|one| one.steps.len()).collect::<Vec<_>>(), [300, 20]);
        assert_eq!(replayed[0].agreement(), Agreement::default(), "nobody recorded a decision");
    }

    #[test]
    fn nothing_recorded_is_nothing_decided() {
        assert!(replay(&Sockets::default(), || unreachable!("no connection")).is_empty());
    }
}
