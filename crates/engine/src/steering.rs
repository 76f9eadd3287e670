//! One connection under its policy: what the kernel says goes in, pacing and the amount of unsent data
//! come out and are put into force. What the policy says of outstanding payload and command windows is for
//! the owner, who gets the whole decision.

use std::io;
use std::net::TcpStream;

use control::{Bdp, Decision, Observation, Policy};
use event::Instant;
use net::TcpInfo;

use crate::tuning::Tuning;

/// A policy and the socket settings that follow it.
#[derive(Debug)]
pub struct Steering {
    policy: Bdp,
    tuning: Tuning,
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
        Ok(Steering { policy: Bdp::new(), tuning: Tuning::new(stream)? })
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
            backlog_bytes: u64::from(info.notsent_bytes).saturating_add(work.unsent_bytes),
            request_bytes: work.request_bytes,
        });
        let decision = self.policy.decide();
        if let Some(bytes_per_s) = decision.pacing_bytes_per_s {
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
