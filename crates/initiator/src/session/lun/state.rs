//! State of a session's LUN: its identity, the re-validation in progress, and its command limit.

use wire::iscsi::Lun;

use crate::session::lun::command_limit::CommandLimit;
use crate::session::lun::identity::Known;

/// State of the LUN behind a session.
pub(crate) struct LunState {
    pub(crate) address: Lun,
    /// Identity and capacity that the LUN reported when the session was opened.
    pub(crate) known: Vec<Known>,
    /// Re-validation of the LUN's identity in progress.
    pub(crate) asking: Option<Asking>,
    /// Number of resets that the LUN has reported.
    pub(crate) resets: u64,
    /// Command limit, learned from TASK SET FULL.
    pub(crate) command_limit: CommandLimit,
    /// The LUN does not support SYNCHRONIZE CACHE.
    pub(crate) is_without_flush: bool,
    /// The LUN has a volatile cache for certain (WCE): a refused SYNCHRONIZE CACHE is a failure.
    pub(crate) needs_flush: bool,
}

impl Default for LunState {
    fn default() -> LunState {
        LunState {
            address: Lun::from_number(0),
            known: Vec::new(),
            asking: None,
            resets: 0,
            command_limit: CommandLimit::OPEN,
            is_without_flush: false,
            needs_flush: false,
        }
    }
}

/// A re-validation in progress.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// Requests that wait for the result.
    pub(crate) held: Vec<usize>,
    /// Number of missing responses.
    pub(crate) left: usize,
    /// Another unit attention arrived after the commands were issued, so that they must be repeated.
    pub(crate) is_stale: bool,
    /// The LUN was reset, and writes may have been lost.
    pub(crate) was_reset: bool,
    /// No other command has been sent to the LUN since the reconnect.
    pub(crate) is_first: bool,
}
