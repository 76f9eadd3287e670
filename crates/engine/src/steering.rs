//! One connection under its policy: what the kernel says goes in, pacing and the amount of unsent data
//! come out and are put into force. What the policy says of blocks, outstanding payload, command windows and the data of
//! lone requests is for the owner, who gets the whole decision; so is what this end could tell the other of its window.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use control::{
    Arrived, BULK_BYTES, Choice, Claim, Decision, Met, Monitor, NO_THRESHOLD_PACKETS, Observation, Policy,
    UNCAPPED, part_lasts,
};
use event::{BitRate, Granted, Instant, Steered, WindowNotice};
use net::interface::takes_super_packets;
use net::{TcpInfo, congestion, threshold};

use crate::tuning::Tuning;

/// A policy and the socket settings that follow it.
#[derive(Debug)]
pub struct Steering {
    policy: Box<dyn Policy>,
    /// What it says now, as far as it is put into force; asked for at every turn of the loop.
    decision: Decision,
    monitor: Monitor,
    notice: Option<WindowNotice>,
    tuning: Tuning,
    pacing: Pacing,
    /// What was said to the policy since the last look.
    granted: Granted,
    told: Option<WindowNotice>,
    /// What the other end left it of the line is no longer in force from then on.
    part_ends: Option<Instant>,
    /// At the last look.
    rtt: Duration,
    paces_itself: bool,
    /// Payload of a packet, as far as somebody has looked.
    packet_bytes: u64,
    hands_over: bool,
    met: Option<Met>,
    /// Asked when there is a lot to send, or something is spaced or to be paced, for the first time.
    paced_one_by_one: Option<bool>,
}

/// How fast a connection may send.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Pacing {
    /// As the policy says.
    #[default]
    Follow,
    /// As the policy says, and never faster than this.
    AtMost(BitRate),
    /// Unpaced, as TCP's window lets it: for comparison.
    Off,
}

/// How a connection is steered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Course {
    /// The policy.
    pub policy: Choice,
    /// How fast it may send.
    pub pacing: Pacing,
}

/// What the owner of a connection knows and the kernel does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Application payload received so far.
    pub received_bytes: u64,
    /// Payload that waits to be handed to the socket.
    pub unsent_bytes: u64,
    /// The most that has waited at one time since the last look.
    pub burst_bytes: u64,
    /// Some of it was held back, as the policy wants it.
    pub was_spaced: bool,
    /// How fast what was held back really went out; 0 if that is not known.
    pub handed_bytes_per_s: u64,
    /// Other connections that go out here have moved data of late.
    pub has_company: bool,
    /// Mean length of the requests of late; zero if there were none.
    pub request_bytes: u64,
}

impl Steering {
    /// For a new socket.
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
            paces_itself: congestion::paces_itself(stream)?,
            packet_bytes: 1,
            hands_over: false,
            met: None,
            paced_one_by_one: None,
        })
    }

    /// Shows the policy the connection as it is at `now`, and puts into force what it decides; that, and what is to be
    /// recorded of it.
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
            paces_itself: self.paces_itself,
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
        match decision.pacing_bytes_per_s {
            // The policy is told first.
            Some(bytes_per_s) if !self.ask_device(stream) || seen.paced_one_by_one => {
                self.tuning.pace(stream, bytes_per_s)?;
            }
            // What was set last would stay.
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

    /// Whether what it sends shares what the device takes with what others send.
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

    /// What the policy says now, as far as it is put into force.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Applies a congestion window notice from the peer, which sends the payload.
    pub fn told(&mut self, notice: &WindowNotice) {
        self.told = Some(*notice);
        self.policy.told(notice);
        self.decide();
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

    /// Whether the device takes packets one by one. A host that does not say is one like most.
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
    // What is forgotten may leave the connection paced, and who wants it unpaced wants to compare.
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

impl Pacing {
    /// What is put into force when the policy decides so; `None` leaves the socket as it is.
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

    /// The same, with such a round trip each time that it was looked at.
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
            let course = Course { policy: Choice::Auto, pacing };
            assert_eq!(pacing_over(&round_trips, course), Some(expected), "{pacing:?}");
        }
    }

    #[test]
    fn what_is_sent_is_paced_unless_told() {
        assert!(pacing(Course::default()).is_some());
        assert!(pacing(Course { policy: Choice::Pace, ..Course::default() }).is_some());
        let at_most = Pacing::AtMost(BitRate(8_000_000));
        assert_eq!(pacing(Course { policy: Choice::Auto, pacing: at_most }), Some(1_000_000));
        for (policy, pace) in
            [(Choice::Auto, Pacing::Off), (Choice::None, Pacing::Follow), (Choice::Study, Pacing::Follow)]
        {
            assert_eq!(pacing(Course { policy, pacing: pace }), None, "{policy}");
        }
    }
}
