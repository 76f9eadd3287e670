//! What a target knows beyond one login: what it brings to each of them, whom it lets in, and which sessions
//! there are. The login itself is in `target`.

use super::Status;
use super::chap::ChapTarget;
use crate::params::{Params, Wishes};

/// What a target brings to every login.
#[derive(Clone, Debug)]
pub struct LoginPolicy {
    /// What we ask for.
    pub wishes: Wishes,
    /// Tag of the portal group of the socket that the login came in by; told in the first response.
    pub portal_group_tag: u16,
    /// A name for people; told if there is one. At most 255 bytes, no NUL.
    pub target_alias: Option<String>,
    /// Commands that the initiator may send at once after the login: MaxCmdSN of the responses.
    pub command_window: u32,
    /// Answer the private key of our own kind.
    pub private_key: bool,
    /// With it, nobody logs in without proving who they are.
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

/// Who wants to come in, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the initiator, as sent.
    pub initiator_name: String,
    /// What the initiator calls itself for people.
    pub initiator_alias: Option<String>,
    /// The target asked for, as sent; may be `None` only in a discovery session.
    pub target_name: Option<String>,
    /// True for a discovery session.
    pub discovery: bool,
    /// The initiator's part of the session id.
    pub isid: [u8; 6],
    /// The connection id.
    pub cid: u16,
    /// Proof given by now.
    pub proof: Proof,
}

/// Proof that an initiator has given of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nothing yet: the security stage goes on.
    Pending,
    /// Nothing, since none is needed.
    NotNeeded,
    /// The name of a CHAP user.
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

/// What a target knows beyond one connection; asked while a login goes on.
pub trait Directory {
    /// May this candidate log in? Asked once, before anything is negotiated.
    ///
    /// # Errors
    /// The status to refuse with, a value of [`wire::iscsi::login_status`]: `NOT_FOUND` for a target that
    /// is not there, `AUTHORIZATION_FAILURE`, `SERVICE_UNAVAILABLE`, `OUT_OF_RESOURCES`, …
    fn admit(&mut self, candidate: &Candidate) -> Result<(), Status>;

    /// Fills a CHAP challenge with bytes that nobody can foresee and that never come again. Asked only
    /// under a policy with CHAP.
    fn random(&mut self, bytes: &mut [u8]);

    /// Session `tsih`, which a connection of this candidate is to join. Called when the names are known, as a rule before
    /// they are proved, and again when all is agreed.
    ///
    /// # Errors
    /// The status to refuse with: `SESSION_DOES_NOT_EXIST` if no session of this initiator, ISID, target and user has
    /// this handle, `TOO_MANY_CONNECTIONS` if it has as many as were agreed.
    fn join(&mut self, candidate: &Candidate, tsih: u16) -> Result<Existing, Status>;

    /// A TSIH for the new session, not 0, which others cannot guess. Called once, when all is agreed.
    ///
    /// # Errors
    /// The status to refuse with: `OUT_OF_RESOURCES`, or `AUTHORIZATION_FAILURE` if another user has a session with these
    /// names and this ISID.
    fn assign_tsih(&mut self, candidate: &Candidate) -> Result<u16, Status>;
}

/// A session as a connection that joins it finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// What was agreed for all connections.
    pub params: Params,
    /// CmdSN of the next command.
    pub exp_cmd_sn: u32,
    /// CmdSN of the last command that may come.
    pub max_cmd_sn: u32,
}

/// A login that succeeded, seen from the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Who came in.
    pub candidate: Candidate,
    /// What was agreed.
    pub params: Params,
    /// The handle of its session.
    pub tsih: u16,
    /// It is another connection of a session that was there.
    pub joins: bool,
    /// CmdSN of the first command to come.
    pub exp_cmd_sn: u32,
    /// The last MaxCmdSN that was told.
    pub max_cmd_sn: u32,
    /// StatSN of the next response on this connection.
    pub stat_sn: u32,
}
