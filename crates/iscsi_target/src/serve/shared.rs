//! State of the target that all its connections and sessions share.

use std::collections::BTreeMap;
use std::rc::Rc;

use block::Workers;
use control::Crowd;
use engine::trace::Tracer;
use proto::login::LoginPolicy;

use crate::compat::Compat;
use crate::lun::{Luns, Nexus};
use crate::serve::connection::end_reason::Ending;
use crate::serve::connection::open_sessions::Sessions;
use crate::serve::connection::portals::Portals;
use crate::serve::limits::budget::Budget;
use crate::serve::limits::slots::Slots;
use crate::serve::limits::turns::TurnClock;
use crate::serve::limits::unread::{AllCommands, AllEarly, AllUnread};
use crate::serve::session::management::Management;
use crate::serve::stats::Stats;
use crate::serve::stores::delayed_jobs::Waiting;
use crate::serve::stores::error_log::Told;
use crate::serve::stores::jobs::{Done, Job};
use crate::serve::stores::memory_jobs::Chores;

/// State that all connections of a target share.
pub(crate) struct Shared {
    pub(crate) luns: Luns,
    pub(crate) work: Work,
    pub(crate) memory: Memory,
    pub(crate) admission: Admission,
    pub(crate) rules: Rules,
    pub(crate) management: Management,
    pub(crate) effects: Effects,
    /// Clients that send one burst at a time.
    pub(crate) crowd: Crowd,
    /// Clock of the turn at hand.
    pub(crate) turn: TurnClock,
    /// The target ends: no new command is executed.
    pub(crate) is_draining: bool,
    pub(crate) report: Report,
}

/// Work on stores outside the turns of sessions.
pub(crate) struct Work {
    pub(crate) workers: Workers<Job, Done>,
    pub(crate) chores: Chores,
    /// Jobs of delayed or rate-limited LUNs.
    pub(crate) waiting: Waiting<Job>,
    /// Sessions with ended tasks or connections that may still have jobs queued for a worker.
    pub(crate) ended: Vec<Nexus>,
}

/// Memory that is bounded over all sessions.
pub(crate) struct Memory {
    pub(crate) budget: Budget,
    pub(crate) early: AllEarly,
    pub(crate) commands: AllCommands,
    pub(crate) unread: AllUnread,
    /// Sink for payload of ended commands, which is never read.
    pub(crate) waste: Vec<u8>,
}

/// Connections and sessions that are open, and those that may begin.
pub(crate) struct Admission {
    pub(crate) slots: Slots,
    pub(crate) sessions: Sessions,
    pub(crate) open_sessions: usize,
    /// Version of the register on stable storage; the largest number if no write is awaited.
    pub(crate) register_version: u64,
}

/// Settings of the configuration in force; a reload replaces them.
pub(crate) struct Rules {
    pub(crate) policy: LoginPolicy,
    pub(crate) compat: Compat,
    pub(crate) weights: BTreeMap<String, u32>,
    /// Initiators that may reset the target for all.
    pub(crate) cold_reset: Vec<String>,
    pub(crate) portals: Portals,
}

/// Effects of a session on other connections, until the loop handles them.
#[derive(Default)]
pub(crate) struct Effects {
    /// Connections to end.
    pub(crate) endings: Vec<Ending>,
    /// Clients that have something to send because of the PDUs of another.
    pub(crate) stirred: Vec<usize>,
}

/// Totals, log lines and traces of the target.
pub(crate) struct Report {
    pub(crate) stats: Stats,
    pub(crate) told: Told,
    /// Tracer of requests through the layers; `None` without a trace.
    pub(crate) tracer: Option<Rc<Tracer>>,
}
