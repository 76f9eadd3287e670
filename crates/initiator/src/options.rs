//! Options shared by all sessions of a caller.

use std::path::PathBuf;
use std::time::Duration;

use control::Choice;
use engine::trace::Sampling;
use engine::{Course, Pacing, RouteMemory};
use proto::params::Wishes;

use crate::login::chap::Chap;
use crate::login::local_end::NearEnd;

/// Factor of the timeout of a flush, and of commands that may wait for a flush.
pub(crate) const FLUSH_TIMES: u32 = 4;

/// Options of a session; the same for all sessions of a caller.
#[derive(Clone, Debug)]
pub struct Options {
    /// Timeout of connecting, of the login, of a silent target, of a command without an answer, and of
    /// re-establishing a lost session.
    pub timeout: Duration,
    /// CHAP settings in addition to the URL.
    pub chap: Chap,
    /// Digests and burst lengths to propose at the login; the number of connections is separate.
    pub wishes: Wishes,
    /// Connections of each session, limited by the target; `None` lets the number follow the path.
    pub connections: Option<u16>,
    /// Initiator name and socket settings.
    pub near: NearEnd,
    /// Policy of the amount of outstanding data and of pacing.
    pub policy: Choice,
    /// Pacing rate of each connection.
    pub pacing: Pacing,
    /// Queue depth of each session, for the tables; `None` if the depth follows the path.
    pub depth: Option<usize>,
    /// Maximum number of commands passed to iSCSI in a session; further requests wait above it. `None` is unlimited.
    pub queue_limit: Option<usize>,
    /// Directory of the tables `sockets`, `io`, `layers` and `pdus`; `None` disables them.
    pub trace: Option<PathBuf>,
    /// Selection of the requests with rows in `layers` and `pdus`.
    pub sampling: Sampling,
    /// Verdicts on routes that the sessions of one loop share.
    pub routes: RouteMemory,
    /// Output of warnings to the user.
    pub notice: fn(&str),
}

impl Options {
    /// Policy, pacing and permissions of the connections.
    pub fn course(&self) -> Course {
        let may_change = self.near.congestion.may_change();
        Course { policy: self.policy, pacing: self.pacing, may_change }
    }
}

#[cfg(test)]
impl Options {
    /// Options of tests: no digests, no authentication, one connection.
    pub(crate) fn plain() -> Options {
        use crate::login::local_end::InitiatorName;

        let name = InitiatorName::given("iqn.2026-11.org.example:me").expect("a name");
        Options {
            timeout: Duration::from_secs(1),
            chap: Chap::default(),
            wishes: Wishes::default(),
            connections: Some(1),
            near: NearEnd {
                name,
                source: None,
                congestion: engine::CongestionControl::Host,
                max_segment_bytes: None,
            },
            policy: Choice::default(),
            pacing: Pacing::default(),
            depth: None,
            queue_limit: None,
            trace: None,
            sampling: Sampling::default(),
            routes: RouteMemory::default(),
            notice: |_| {},
        }
    }
}
