//! The interface of a login to the target as a whole: policy of all logins, admission, and existing sessions. The
//! login itself is in `target`.

use super::Status;
use super::chap::ChapTarget;
use crate::params::{Params, Wishes};

/// Policy of a target for every login.
#[derive(Clone, Debug)]
pub struct LoginPolicy {
    /// Operational parameters that the target wants.
    pub wishes: Wishes,
    /// Tag of the portal group of the socket that accepted the login; sent in the first response.
    pub portal_group_tag: u16,
    /// Human-readable alias, sent if there is one. At most 255 bytes, no NUL.
    pub target_alias: Option<String>,
    /// Commands that the initiator may send at once after the login: MaxCmdSN of the responses.
    pub command_window: u32,
    /// Answers the farlun private key.
    pub private_key: bool,
    /// CHAP settings; `None` admits initiators without authentication.
    pub chap: Option<ChapTarget>,
}

impl Default for LoginPolicy {
    fn default() -> LoginPolicy {
        LoginPolicy {
            wishes: Wishes::default(),
            portal_group_tag: 1,
            target_alias: None,
            command_window: 128,
            private_key: true,
            chap: None,
        }
    }
}

/// Initiator that requests a login, and the target it requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the initiator, as sent.
    pub initiator_name: String,
    /// Human-readable alias of the initiator.
    pub initiator_alias: Option<String>,
    /// The requested target, as sent; may be `None` only in a discovery session.
    pub target_name: Option<String>,
    /// True for a discovery session.
    pub discovery: bool,
    /// ISID: the initiator's part of the session identifier.
    pub isid: [u8; 6],
    /// CID of the connection.
    pub cid: u16,
    /// Authentication completed so far.
    pub proof: Proof,
}

/// Authentication state of an initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Not authenticated: the security stage continues.
    Pending,
    /// Not authenticated, since the target requires no authentication.
    NotNeeded,
    /// Authenticated under the name of a CHAP user.
    User(String),
}

impl Proof {
    /// The CHAP user, if there is one.
    pub fn user(&self) -> Option<&str> {
        match self {
            Proof::User(user) => Some(user),
            Proof::Pending | Proof::NotNeeded => None,
        }
    }
}

/// Knowledge of a target beyond one connection, queried during a login.
pub trait Directory {
    /// Decides the admission of a candidate. Called once, before any negotiation.
    ///
    /// # Errors
    /// The status of the refusal, a value of [`wire::iscsi::login_status`]: `NOT_FOUND` for an unknown target,
    /// `AUTHORIZATION_FAILURE`, `SERVICE_UNAVAILABLE`, `OUT_OF_RESOURCES`, …
    fn admit(&mut self, candidate: &Candidate) -> Result<(), Status>;

    /// Fills a CHAP challenge with unpredictable bytes that never repeat. Called only under a policy with CHAP.
    fn random(&mut self, bytes: &mut [u8]);

    /// Session `tsih`, to be joined by a connection of this candidate. Called when the names are known, in most logins
    /// before authentication, and again when the negotiation is complete.
    ///
    /// # Errors
    /// The status of the refusal: `SESSION_DOES_NOT_EXIST` if no session of this initiator, ISID, target and user has
    /// this TSIH, `TOO_MANY_CONNECTIONS` if the session already has MaxConnections connections.
    fn join(&mut self, candidate: &Candidate, tsih: u16) -> Result<Existing, Status>;

    /// A TSIH for the new session, not 0 and not predictable. Called once, when the negotiation is complete.
    ///
    /// # Errors
    /// The status of the refusal: `OUT_OF_RESOURCES`, or `AUTHORIZATION_FAILURE` if another user has a session with
    /// these names and this ISID.
    fn assign_tsih(&mut self, candidate: &Candidate) -> Result<u16, Status>;
}

/// State of an existing session for a connection that joins it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// Parameters negotiated for the session.
    pub params: Params,
    /// CmdSN of the next command.
    pub exp_cmd_sn: u32,
    /// MaxCmdSN: the last CmdSN that the target accepts.
    pub max_cmd_sn: u32,
}

/// A login that succeeded, seen from the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The admitted initiator, with its names and identifiers.
    pub candidate: Candidate,
    /// Parameters in force.
    pub params: Params,
    /// TSIH of the session.
    pub tsih: u16,
    /// The connection joins an existing session.
    pub joins: bool,
    /// CmdSN of the first command to come.
    pub exp_cmd_sn: u32,
    /// The last MaxCmdSN sent.
    pub max_cmd_sn: u32,
    /// StatSN of the next response on this connection.
    pub stat_sn: u32,
}
