//! One connection under its policy: what the kernel says goes in, pacing and the amount of unsent data
//! come out and are put into force. What the policy says of outstanding payload and command windows is for
//! the owner, who gets the whole decision.

use std::io;
use std::net::TcpStream;

use control::{Bdp, Decision, Observation, Policy};
use event::{BitRate, Instant};
use net::TcpInfo;

use crate::tuning::Tuning;

/// A policy and the socket settings that follow it.
#[derive(Debug)]
pub struct Steering {
    policy: Bdp,
    tuning: Tuning,
    pacing: Pacing,
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

/// What the owner of a connection knows and the kernel does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// Application payload received so far.
    pub received_bytes: u64,
    /// Payload that waits to be handed to the socket.
    pub unsent_bytes: u64,
    /// Mean length of the requests of late; zero if there were none.
    pub request_bytes: u64,
}

impl Steering {
    /// For a new socket.
    pub fn new(stream: &TcpStream) -> io::Result<Steering> {
        Ok(Steering { policy: Bdp::new(), tuning: Tuning::new(stream)?, pacing: Pacing::Follow })
    }

    /// How fast it may send; as the policy says unless told.
    pub fn set_pacing(&mut self, pacing: Pacing) {
        self.pacing = pacing;
    }

    /// Shows the policy the connection as it is at `now`, and puts into force what it decides.
    pub fn look(
        &mut self,
        stream: &TcpStream,
        now: Instant,
        info: &TcpInfo,
        work: Work,
    ) -> io::Result<Decision> {
        self.policy.observe(&Observation {
            now,
            rtt: info.rtt,
            min_rtt: info.min_rtt,
            moved_bytes: work.received_bytes + info.acked_bytes,
            delivery_rate_bytes_per_s: info.delivery_rate_bytes_per_s,
            app_limited: info.app_limited,
            retransmitted_packets: u64::from(info.retransmitted_packets),
            delivered_packets: info.delivered_packets,
            mss_bytes: info.mss_bytes,
            cwnd_packets: info.cwnd_packets,
            backlog_bytes: u64::from(info.notsent_bytes).saturating_add(work.unsent_bytes),
            request_bytes: work.request_bytes,
        });
        let decision = self.policy.decide();
        if let Some(bytes_per_s) = self.pacing.cap(decision.pacing_bytes_per_s) {
            self.tuning.pace(stream, bytes_per_s)?;
        }
        self.tuning.follow_rate(stream, info.delivery_rate_bytes_per_s)?;
        Ok(decision)
    }

    /// What the policy says now.
    pub fn decision(&self) -> Decision {
        self.policy.decide()
    }

    /// The measured bandwidth-delay product.
    pub fn product_bytes(&self) -> u64 {
        self.policy.product_bytes()
    }
}

impl Pacing {
    /// What is put into force when the policy decides so; `None` leaves the socket as it is.
    fn cap(self, decided: Option<u64>) -> Option<u64> {
        match self {
            Pacing::Follow => decided,
            Pacing::AtMost(rate) => Some(decided.unwrap_or(u64::MAX).min(rate.0 / 8)),
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
    fn pacing(pacing: Pacing) -> Option<u64> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let rtt = Duration::from_millis(50);
        let busy = TcpInfo {
            rtt,
            min_rtt: Some(rtt),
            delivery_rate_bytes_per_s: 100_000_000,
            app_limited: false,
            ..tcp_info::read(&stream).unwrap()
        };
        let mut steering = Steering::new(&stream).unwrap();
        steering.set_pacing(pacing);
        let work = Work { received_bytes: 0, unsent_bytes: 1 << 30, request_bytes: 1 << 20 };
        for round in 1..10u64 {
            let now = Instant::from_nanos(round * 50_000_000);
            steering.look(&stream, now, &busy, work).unwrap();
        }
        steering.tuning.pacing_bytes_per_s
    }

    #[test]
    fn what_is_sent_is_paced_unless_told() {
        assert!(pacing(Pacing::Follow).is_some());
        assert_eq!(pacing(Pacing::AtMost(BitRate(8_000_000))), Some(1_000_000));
        assert_eq!(pacing(Pacing::Off), None);
    }
}
