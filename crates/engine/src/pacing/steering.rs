//! One connection under its policy: TCP_INFO is its input; pacing and the limit on unsent data are applied to the
//! socket. The owner of the connection gets the whole decision, for block size, outstanding payload, command window and
//! bursts of lone requests, and the notice that this end may send about its congestion window.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use control::{
    Arrived, BULK_BYTES, Choice, Claim, CongestionSeen, Decision, Met, Monitor, NO_THRESHOLD_PACKETS,
    Observation, Policy, Remembered, UNCAPPED, part_lasts,
};
use event::{BitRate, Granted, Instant, MayChange, Steered, WindowNotice};
use net::interface::takes_super_packets;
use net::{TcpInfo, threshold};

use crate::tcp::congestion::{CongestionChange, SocketCongestion};
use crate::tcp::tuning::Tuning;

/// A policy and the socket settings that follow it.
#[derive(Debug)]
pub struct Steering {
    policy: Box<dyn Policy>,
    /// Decision in force; read in every turn of the event loop.
    decision: Decision,
    monitor: Monitor,
    notice: Option<WindowNotice>,
    tuning: Tuning,
    pacing: Pacing,
    /// Allocation given to the policy since the last sample.
    granted: Granted,
    told: Option<WindowNotice>,
    /// End of validity of the rate that the other end allocated.
    part_ends: Option<Instant>,
    /// At the last look.
    rtt: Duration,
    congestion: SocketCongestion,
    /// Payload of a packet, once it was queried.
    packet_bytes: u64,
    hands_over: bool,
    met: Option<Met>,
    /// Result of the query of the device; made at the first bulk, spaced or paced data.
    paced_one_by_one: Option<bool>,
}

/// Limit on the sending rate.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Pacing {
    /// The policy's rate.
    #[default]
    Follow,
    /// The policy's rate, limited to this.
    AtMost(BitRate),
    /// Unpaced, as TCP's window lets it: for comparison.
    Off,
}

/// Options of a connection's policy.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Course {
    /// The policy.
    pub policy: Choice,
    /// Limit on the sending rate.
    pub pacing: Pacing,
    /// Permission to change the congestion control.
    pub may_change: MayChange,
}

/// State that the owner of a connection knows and the kernel does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Application payload received so far.
    pub received_bytes: u64,
    /// Payload that was not written to the socket yet.
    pub unsent_bytes: u64,
    /// The most that has waited at one time since the last look.
    pub burst_bytes: u64,
    /// Some of it was held back, as the policy wants it.
    pub was_spaced: bool,
    /// Measured rate of paced data; 0 if unknown.
    pub handed_bytes_per_s: u64,
    /// Competing flows: other connections of this device have recently moved data.
    pub has_company: bool,
    /// Mean length of recent requests; zero without requests.
    pub request_bytes: u64,
    /// Verdict of other connections of the same route.
    pub remembered: Remembered,
}

impl Steering {
    /// Starts the policy of a new socket.
    pub fn new(stream: &TcpStream, course: Course) -> io::Result<Steering> {
        let policy = course.policy.policy();
        Ok(Steering {
            decision: in_force(policy.decide(), course.pacing),
            policy,
            monitor: Monitor::new(),
            notice: None,
            tuning: Tuning::new(stream)?,
            pacing: course.pacing,
            granted: Granted::Unsaid,
            told: None,
            part_ends: None,
            rtt: Duration::ZERO,
            congestion: SocketCongestion::new(stream, course.may_change())?,
            packet_bytes: 1,
            hands_over: false,
            met: None,
            paced_one_by_one: None,
        })
    }

    /// Gives the policy a sample at `now` and applies its decision; returns the decision and the row to record.
    pub fn look(
        &mut self,
        stream: &TcpStream,
        now: Instant,
        info: &TcpInfo,
        work: Work,
    ) -> io::Result<(Decision, Steered)> {
        if self.part_ends.is_some_and(|ends| now >= ends) {
            self.left(None, now);
        }
        let backlog_bytes = u64::from(info.notsent_bytes).saturating_add(work.unsent_bytes);
        if self.policy.paces() && (backlog_bytes >= BULK_BYTES || work.was_spaced) {
            self.ask_device(stream);
        }
        let has_threshold = info.ssthresh_packets < NO_THRESHOLD_PACKETS;
        let seen = Observation {
            now,
            rtt: info.rtt,
            min_rtt: info.min_rtt,
            moved_bytes: work.received_bytes + info.acked_bytes,
            received_bytes: work.received_bytes,
            delivery_rate_bytes_per_s: info.delivery_rate_bytes_per_s,
            app_limited: info.app_limited,
            retransmitted_packets: u64::from(info.retransmitted_packets),
            lost_packets: info.lost_packets,
            timeouts: info.timeouts,
            marked_packets: info.marked_packets,
            busy: info.busy,
            delivered_packets: info.delivered_packets,
            unacked_packets: info.unacked_packets,
            mss_bytes: info.mss_bytes,
            cwnd_packets: info.cwnd_packets,
            peer_window_bytes: info.snd_wnd_bytes.into(),
            ssthresh_packets: info.ssthresh_packets,
            state: info.state,
            backlog_bytes,
            burst_bytes: work.burst_bytes.max(backlog_bytes),
            was_spaced: work.was_spaced,
            handed_bytes_per_s: work.handed_bytes_per_s,
            has_company: work.has_company,
            paces_itself: self.congestion.paces_itself(),
            congestion: CongestionSeen {
                may_change: self.congestion.may_change(),
                duplicate_packets: info.duplicate_packets,
                reorderings: info.reorderings,
                remembered: work.remembered,
            },
            paced_one_by_one: self.paced_one_by_one == Some(true),
            forgets_freely: has_threshold && self.policy.forgets() && threshold::is_free(),
            request_bytes: work.request_bytes,
        };
        self.packet_bytes = info.mss_bytes.max(1).into();
        self.rtt = info.rtt;
        self.policy.observe(&seen);
        if let Some(notice) = self.monitor.observe(&seen) {
            self.policy.told(&notice);
            self.notice = Some(notice);
        }
        self.decide();
        let decision = self.decision;
        self.congestion.follow(stream, &decision.congestion);
        match decision.pacing_bytes_per_s {
            // The policy comes first.
            Some(bytes_per_s) if !self.ask_device(stream) || seen.paced_one_by_one => {
                self.tuning.pace(stream, bytes_per_s)?;
            }
            // The socket would keep its last rate.
            None if self.tuning.pacing_bytes_per_s.is_some() => self.tuning.pace(stream, UNCAPPED)?,
            _ => {}
        }
        self.tuning.forget(stream, decision.thresholds_forgotten);
        self.hands_over = self.pacing != Pacing::Off && self.policy.hands_over();
        self.met = self.policy.met().filter(|_| self.pacing != Pacing::Off);
        let held_bytes = decision.held_bytes;
        self.tuning.follow_rate(stream, info.delivery_rate_bytes_per_s, info.min_rtt, held_bytes)?;
        let steered = Steered {
            burst_bytes: seen.burst_bytes,
            was_spaced: seen.was_spaced,
            handed_bytes_per_s: seen.handed_bytes_per_s,
            has_company: seen.has_company,
            paces_itself: seen.paces_itself,
            may_change: seen.congestion.may_change,
            remembered_ppm: seen.congestion.remembered.recorded_ppm(),
            paced_one_by_one: seen.paced_one_by_one,
            forgets_freely: seen.forgets_freely,
            granted: std::mem::take(&mut self.granted),
            told: self.told.take(),
            decided: self.policy.decide().recorded(),
        };
        Ok((decision, steered))
    }

    /// Returns true if the event loop paces bulk data itself, instead of the kernel.
    pub fn hands_over(&self) -> bool {
        self.hands_over
    }

    /// True if its data share a device's token bucket with other connections.
    pub fn is_gated(&self) -> bool {
        self.hands_over || self.met.is_some()
    }

    /// Measurement of the sending device by a sender of lone requests.
    pub fn met(&self) -> Option<Met> {
        self.met
    }

    /// Payload of a packet.
    pub fn packet_bytes(&self) -> u64 {
        self.packet_bytes
    }

    /// Decision in force.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Applies a congestion window notice from the peer, which sends the payload.
    pub fn told(&mut self, notice: &WindowNotice) {
        self.told = Some(*notice);
        self.policy.told(notice);
        self.decide();
    }

    /// Takes the last change of the congestion control, or its refusal; each is returned once.
    pub fn take_congestion_change(&mut self) -> Option<CongestionChange> {
        self.congestion.take_change()
    }

    /// Takes the congestion window notice that is due to the peer.
    pub fn take_notice(&mut self) -> Option<WindowNotice> {
        self.notice.take()
    }

    /// Claim on the line rate for data that this end sends.
    pub fn claim(&self) -> Option<Claim> {
        self.policy.claim().filter(|_| self.pacing != Pacing::Off)
    }

    /// Claim on the line rate for data that the peer sends.
    pub fn claim_of_peer(&self) -> Option<Claim> {
        self.policy.claim_of_peer()
    }

    /// The last train of a lone request's data, if it is spaced.
    pub fn arrived(&self) -> Option<Arrived> {
        self.policy.arrived().filter(|_| self.decision.burst_bytes_per_s.is_some())
    }

    /// Applies the rate that the peer's sharing arbiter allocated at `now`; `None` means unlimited. It expires unless
    /// renewed.
    pub fn left(&mut self, bytes_per_s: Option<u64>, now: Instant) {
        self.part_ends = bytes_per_s.map(|_| now + part_lasts(self.rtt));
        self.granted = bytes_per_s.map_or(Granted::All, Granted::Part);
        self.policy.left(bytes_per_s);
        self.decide();
    }

    /// Applies the rate that the local sharing arbiter allocated; `None` means unlimited.
    pub fn grant(&mut self, bytes_per_s: Option<u64>) {
        self.granted = bytes_per_s.map_or(Granted::All, Granted::Part);
        self.policy.grant(bytes_per_s);
        self.decide();
    }

    /// The measured bandwidth-delay product.
    pub fn product_bytes(&self) -> u64 {
        self.policy.product_bytes()
    }

    /// True if the device has no segmentation offload. A host that does not report it counts as having it.
    fn ask_device(&mut self, stream: &TcpStream) -> bool {
        *self.paced_one_by_one.get_or_insert_with(|| {
            stream.local_addr().is_ok_and(|local| !takes_super_packets(local.ip()).unwrap_or(true))
        })
    }

    fn decide(&mut self) {
        self.decision = in_force(self.policy.decide(), self.pacing);
    }
}

fn in_force(decision: Decision, pacing: Pacing) -> Decision {
    let pacing_bytes_per_s = pacing.cap(decision.pacing_bytes_per_s);
    // A reset of ssthresh may leave the connection paced; without pacing it is excluded, for comparisons.
    match pacing {
        Pacing::Off => Decision {
            pacing_bytes_per_s,
            burst_bytes_per_s: None,
            held_bytes: None,
            thresholds_forgotten: 0,
            ..decision
        },
        _ => Decision { pacing_bytes_per_s, ..decision },
    }
}

impl Course {
    /// Permission to change the congestion control. Without pacing there is none, for comparisons.
    fn may_change(self) -> MayChange {
        if self.pacing == Pacing::Off { MayChange::Locked } else { self.may_change }
    }
}

impl Pacing {
    /// Pacing rate for the policy's decision; `None` leaves the socket unchanged.
    fn cap(self, decided: Option<u64>) -> Option<u64> {
        match self {
            Pacing::Follow => decided,
            // A rate of 0 is none to the kernel.
            Pacing::AtMost(rate) => Some(decided.unwrap_or(u64::MAX).min((rate.0 / 8).max(1))),
            Pacing::Off => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use net::tcp_info;

    use super::*;

    /// The pacing of a connection that has had a lot to send over 50 ms.
    fn pacing(course: Course) -> Option<u64> {
        pacing_over(&[Duration::from_millis(50); 9], course)
    }

    /// Pacing rate after a sample with each of these round trips.
    fn pacing_over(round_trips: &[Duration], course: Course) -> Option<u64> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let busy = TcpInfo {
            delivery_rate_bytes_per_s: 100_000_000,
            app_limited: false,
            ..tcp_info::read(&stream).unwrap()
        };
        let mut steering = Steering::new(&stream, course).unwrap();
        let work = Work { unsent_bytes: 1 << 30, request_bytes: 1 << 20, ..Work::default() };
        for (round, &rtt) in (1..).zip(round_trips) {
            let now = Instant::from_nanos(round * 50_000_000);
            let busy = TcpInfo { rtt, min_rtt: Some(rtt), ..busy };
            steering.look(&stream, now, &busy, work).unwrap();
        }
        steering.tuning.pacing_bytes_per_s
    }

    #[test]
    fn a_path_that_turns_out_to_be_short_is_paced_no_longer() {
        let round_trips = [1200, 1200, 1200, 900].map(Duration::from_micros);
        let capped = Pacing::AtMost(BitRate(8_000_000));
        for (pacing, expected) in [(Pacing::Follow, UNCAPPED), (capped, 1_000_000)] {
            let course = Course { policy: Choice::Auto, pacing, ..Course::default() };
            assert_eq!(pacing_over(&round_trips, course), Some(expected), "{pacing:?}");
        }
    }

    #[test]
    fn what_is_sent_is_paced_unless_told() {
        assert!(pacing(Course::default()).is_some());
        assert!(pacing(Course { policy: Choice::Pace, ..Course::default() }).is_some());
        let at_most = Pacing::AtMost(BitRate(8_000_000));
        assert_eq!(
            pacing(Course { policy: Choice::Auto, pacing: at_most, ..Course::default() }),
            Some(1_000_000)
        );
        for (policy, pace) in
            [(Choice::Auto, Pacing::Off), (Choice::None, Pacing::Follow), (Choice::Study, Pacing::Follow)]
        {
            assert_eq!(pacing(Course { policy, pacing: pace, ..Course::default() }), None, "{policy}");
        }
    }
}
