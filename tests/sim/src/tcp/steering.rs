//! A sender under the policy `auto`: what it is shown of TCP_INFO, and what it decides.

use core::time::Duration;

use control::{Choice, CongestionSeen, Observation, Policy, Remembered};
use event::{CongestionChoice, CongestionDecision, Instant, MayChange};

use super::MSS_BYTES;
use super::congestion::Kind;
use super::sender::Sender;

/// Most payload that waits to be sent, as the policy sees it.
const BACKLOG_MOST_BYTES: u64 = 1 << 30;
/// Length of the application's requests.
const REQUEST_BYTES: u64 = 1 << 20;

/// Policy of one sender.
#[derive(Debug)]
pub struct Steering {
    policy: Box<dyn Policy>,
    /// The hosts' congestion control.
    hosts: Kind,
    /// Permission to choose another one.
    may_change: MayChange,
    /// Choice in force.
    choice: CongestionChoice,
    looks_at: Instant,
    forgotten: u32,
    backlog_bytes: u64,
}

impl Steering {
    /// A policy that knows nothing yet, over a host whose congestion control is `hosts`.
    pub fn new(hosts: Kind) -> Steering {
        Steering {
            policy: Choice::Auto.policy(),
            hosts,
            may_change: MayChange::Locked,
            choice: CongestionChoice::Hosts,
            looks_at: Instant::ZERO,
            forgotten: 0,
            backlog_bytes: 0,
        }
    }

    /// The same, with the permission to choose a rate-based congestion control.
    pub fn choosing(hosts: Kind) -> Steering {
        Steering { may_change: MayChange::Yes, ..Steering::new(hosts) }
    }

    /// Congestion control that the policy chooses, and its reason.
    pub fn decision(&self) -> CongestionDecision {
        self.policy.decide().congestion
    }

    pub(crate) fn looks_at(&self) -> Instant {
        self.looks_at
    }

    /// Shows the connection to its policy if it is time, and puts into force what it decides.
    pub(crate) fn look(&mut self, now: Instant, sender: &mut Sender) {
        if now < self.looks_at {
            return;
        }
        let seen = self.observation(now, sender);
        self.policy.observe(&seen);
        let decision = self.policy.decide();
        if let Some(bytes_per_s) = decision.pacing_bytes_per_s {
            sender.pace_at_most(bytes_per_s);
        }
        if decision.congestion.choice != self.choice {
            self.choice = decision.congestion.choice;
            let kind = if self.choice == CongestionChoice::RateBased { Kind::Bbr } else { self.hosts };
            sender.set_congestion(now, kind);
        }
        if decision.thresholds_forgotten != self.forgotten {
            self.forgotten = decision.thresholds_forgotten;
            sender.forget_threshold(now, self.hosts);
        }
        self.looks_at = now + decision.look_again.max(Duration::from_millis(1));
    }

    fn observation(&mut self, now: Instant, sender: &Sender) -> Observation {
        let info = sender.info();
        let backlog_bytes = info.unsent.saturating_mul(MSS_BYTES.into()).min(BACKLOG_MOST_BYTES);
        let burst_bytes = backlog_bytes.max(self.backlog_bytes);
        self.backlog_bytes = backlog_bytes;
        Observation {
            now,
            rtt: info.rtt,
            min_rtt: info.min_rtt,
            moved_bytes: info.delivered * u64::from(MSS_BYTES),
            received_bytes: 0,
            delivery_rate_bytes_per_s: info.delivery_rate_bytes_per_s,
            app_limited: info.is_app_limited,
            retransmitted_packets: info.counts.resent.into(),
            lost_packets: info.lost,
            timeouts: info.counts.timeouts,
            marked_packets: 0,
            busy: Duration::ZERO,
            delivered_packets: info.delivered as u32,
            unacked_packets: info.unacked,
            mss_bytes: MSS_BYTES,
            cwnd_packets: info.cwnd,
            peer_window_bytes: 0,
            ssthresh_packets: info.ssthresh,
            state: info.state,
            backlog_bytes,
            burst_bytes,
            was_spaced: false,
            handed_bytes_per_s: 0,
            has_company: false,
            paces_itself: sender.paces_itself(),
            paced_one_by_one: false,
            forgets_freely: true,
            request_bytes: REQUEST_BYTES,
            congestion: CongestionSeen {
                may_change: self.may_change,
                duplicate_packets: info.counts.duplicates,
                reorderings: info.counts.reorderings,
                remembered: Remembered::Nothing,
            },
        }
    }
}
