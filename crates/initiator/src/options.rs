//! What a caller says of all its sessions at once.

use std::path::PathBuf;
use std::time::Duration;

use control::Choice;
use engine::trace::Sampling;
use engine::{Course, Pacing};
use proto::params::Wishes;

use crate::chap::Chap;
use crate::near_end::NearEnd;

/// What every session of a caller has in common.
#[derive(Clone, Debug)]
pub struct Options {
    /// For connecting, for the login, for a target that says nothing, for a command that is not answered, and
    /// for making a session again that was lost.
    pub timeout: Duration,
    /// What is given for CHAP beside the URL.
    pub chap: Chap,
    /// What is asked for at the login, but for connections: digests and bursts.
    pub wishes: Wishes,
    /// Connections of each session, where the target offers as many; as many as the path wants, if `None`.
    pub connections: Option<u16>,
    /// This end of its connections.
    pub near: NearEnd,
    /// What decides how much is outstanding and how it is sent.
    pub policy: Choice,
    /// How fast each connection may send.
    pub pacing: Pacing,
    /// Requests that the caller keeps outstanding in each session, for the tables; as many as the path takes, if `None`.
    pub depth: Option<usize>,
    /// Commands that a session may have given to iSCSI; requests beyond wait above it. As many as there are, if
    /// `None`.
    pub queue_limit: Option<usize>,
    /// Where the tables `sockets`, `io`, `layers` and `pdus` go, if anywhere.
    pub trace: Option<PathBuf>,
    /// Which requests have rows in the last two.
    pub sampling: Sampling,
    /// Where people are told what they should know although it goes on.
    pub notice: fn(&str),
}

impl Options {
    /// How connections are steered.
    pub fn course(&self) -> Course {
        Course { policy: self.policy, pacing: self.pacing }
    }
}

#[cfg(test)]
impl Options {
    /// Options of tests: no digests, no authentication, one connection.
    pub(crate) fn plain() -> Options {
        use crate::near_end::InitiatorName;

        let name = InitiatorName::given("iqn.2026-11.org.example:me").expect("a name");
        Options {
            timeout: Duration::from_secs(1),
            chap: Chap::default(),
            wishes: Wishes::default(),
            connections: Some(1),
            near: NearEnd { name, source: None, congestion: None, max_segment_bytes: None },
            policy: Choice::default(),
            pacing: Pacing::default(),
            depth: None,
            queue_limit: None,
            trace: None,
            sampling: Sampling::default(),
            notice: |_| {},
        }
    }
}
