//! The initiator's side of a login: identifies the initiator, offers its wishes, follows the target through the stages
//! (RFC 7143 sections 6.3, 11.12, 11.13).
//!
//! It logs in the leading connection of a new session, or a further connection of an existing session. The caller
//! handles redirections and refusals, and repeats the login without the private key if a peer drops the connection
//! over that key.

use wire::iscsi::{LoginRequest, LoginResponse, login_stage, login_status, text};

use super::chap::RANDOM_BYTES;
use super::negotiation::Negotiation;
use super::security::{Offerer, Security};
use super::text::{Inbox, Outbox, Pair, take_key};
use super::{LoginError, ROUNDS, Status, Violation, shortened};
use crate::discovery::TargetAddress;
use crate::keys::Key;
use crate::params::{Digest, Params, Wishes};

/// CmdSN of the first command of every session.
const FIRST_CMD_SN: u32 = 1;
/// Name of the target in messages about a discovery session, which may fail where normal sessions are admitted.
const DISCOVERY: &str = "discovery at the target";

/// Type of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session {
    /// SCSI commands to this target.
    Normal {
        /// iSCSI name of the target.
        target_name: String,
    },
    /// SendTargets alone.
    Discovery,
}

/// Parameters of a login request. Names are at most 223 bytes and hold no NUL; a target refuses others.
#[derive(Clone, Debug)]
pub struct Request {
    /// Type of the session.
    pub session: Session,
    /// iSCSI name of the initiator.
    pub initiator_name: String,
    /// Human-readable alias of the initiator.
    pub initiator_alias: Option<String>,
    /// ISID: the initiator's part of the session identifier; not all zero (tgt refuses that), and unique among the
    /// simultaneous sessions with one target.
    pub isid: [u8; 6],
    /// CID of the connection.
    pub cid: u16,
    /// Operational parameters that the initiator wants.
    pub wishes: Wishes,
    /// Conduct in the security stage.
    pub security: Security,
    /// Offers the farlun private key; only effective in a normal session.
    pub private_key: bool,
}

impl Request {
    fn insists_on_digests(&self) -> bool {
        let Wishes { header_digests, data_digests, .. } = &self.wishes;
        [header_digests, data_digests].iter().any(|wanted| !wanted.contains(&Digest::None))
    }
}

/// A login that succeeded, seen from the initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedIn {
    /// Parameters in force.
    pub params: Params,
    /// ISID: the initiator's part of the session identifier.
    pub isid: [u8; 6],
    /// TSIH: the target's part of the session identifier.
    pub tsih: u16,
    /// CID of the connection.
    pub cid: u16,
    /// CmdSN of the first command to send.
    pub cmd_sn: u32,
    /// ExpStatSN of the first command to send.
    pub exp_stat_sn: u32,
    /// ExpCmdSN of the last response.
    pub exp_cmd_sn: u32,
    /// MaxCmdSN of the last response.
    pub max_cmd_sn: u32,
    /// Tag of the portal group of this connection.
    pub target_portal_group_tag: Option<u16>,
    /// Human-readable alias of the target.
    pub target_alias: Option<String>,
}

/// The session that a further connection joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joined {
    /// TSIH: the target's part of the session identifier.
    pub tsih: u16,
    /// CmdSN of the session's next command.
    pub cmd_sn: u32,
}

/// A login as the initiator sees it; the first request waits in `poll_transmit` from the beginning.
///
/// Input: [`handle_response`](Initiator::handle_response). Output: [`poll_transmit`](Initiator::poll_transmit),
/// at most one PDU at the beginning and for each input. Then [`outcome`](Initiator::outcome).
#[derive(Debug)]
pub struct Initiator {
    request: Request,
    /// The session that a further connection joins.
    joined: Option<Joined>,
    stage: u8,
    rounds: u32,
    inbox: Inbox,
    outbox: Outbox,
    security: Option<Offerer>,
    random: [u8; RANDOM_BYTES],
    negotiation: Option<Negotiation>,
    exp_stat_sn: u32,
    target_portal_group_tag: Option<u16>,
    target_alias: Option<String>,
    transmit: Option<(LoginRequest, Vec<u8>)>,
    outcome: Option<LoggedIn>,
    is_over: bool,
}

impl Initiator {
    /// A login that is about to begin, without a challenge to the target.
    ///
    /// # Panics
    /// If the target has to authenticate itself: see [`Initiator::with_random`].
    pub fn new(request: Request) -> Initiator {
        assert!(!request.security.is_mutual(), "mutual CHAP needs random bytes");
        Initiator::with_random(request, [0; RANDOM_BYTES])
    }

    /// A login that is about to begin. `random` holds the bytes of the challenge to the target: unpredictable, and new
    /// for every login.
    pub fn with_random(request: Request, random: [u8; RANDOM_BYTES]) -> Initiator {
        Initiator::begin(request, random, None)
    }

    /// The login of a further connection, with the CID of `request`, into an existing session with the same ISID. Only
    /// keys of a connection are negotiated; all other parameters of the outcome are defaults. Without the security
    /// stage tgt does not look for the session and begins another one, so the security stage is never skipped.
    pub fn joining(mut request: Request, random: [u8; RANDOM_BYTES], joined: Joined) -> Initiator {
        if matches!(request.security, Security::Skip) {
            request.security = Security::OfferNone;
        }
        Initiator::begin(request, random, Some(joined))
    }

    fn begin(request: Request, random: [u8; RANDOM_BYTES], joined: Option<Joined>) -> Initiator {
        let is_discovery = request.session == Session::Discovery;
        let mut negotiation =
            Negotiation::new(request.wishes.clone(), true, is_discovery, request.private_key);
        if joined.is_some() {
            negotiation = negotiation.joining();
        }
        let mut login = Initiator {
            stage: match request.security {
                Security::Skip => login_stage::OPERATIONAL,
                Security::OfferNone | Security::Chap(_) => login_stage::SECURITY,
            },
            request,
            joined,
            rounds: 0,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            security: None,
            random,
            negotiation: Some(negotiation),
            exp_stat_sn: 0,
            target_portal_group_tag: None,
            target_alias: None,
            transmit: None,
            outcome: None,
            is_over: false,
        };
        login.introduce();
        login.open_stage();
        login.send();
        login
    }

    /// The next request to send, header and data segment.
    pub fn poll_transmit(&mut self) -> Option<(LoginRequest, Vec<u8>)> {
        self.transmit.take()
    }

    /// Takes a login response with its data segment.
    ///
    /// # Errors
    /// The login has failed: refused, redirected, or a protocol violation of the peer.
    pub fn handle_response(&mut self, response: &LoginResponse, data: &[u8]) -> Result<(), LoginError> {
        if self.is_over {
            return Err(Violation::AfterEnd.into());
        }
        let result = self.step(response, data);
        self.is_over = result.is_err() || self.outcome.is_some();
        result
    }

    /// Result of the login, once the full feature phase is reached.
    pub fn outcome(&self) -> Option<&LoggedIn> {
        self.outcome.as_ref()
    }

    fn step(&mut self, response: &LoginResponse, data: &[u8]) -> Result<(), LoginError> {
        self.rounds += 1;
        if self.rounds > ROUNDS {
            return Err(Violation::Rounds.into());
        }
        self.inbox.push(data)?;
        let status = Status { class: response.status_class, detail: response.status_detail };
        if status.class != 0 {
            return Err(self.refusal(status));
        }
        self.check_header(response)?;
        self.exp_stat_sn = response.stat_sn.wrapping_add(1);
        if self.outbox.is_pending() {
            // The target waits for the rest of the request text and sends an empty response meanwhile (6.2).
            if !data.is_empty() || response.transit || response.is_continued {
                return Err(Violation::Flags("an answer before the end of the question").into());
            }
            self.send();
            return Ok(());
        }
        if response.is_continued {
            self.send();
            return Ok(());
        }
        let mut pairs = self.inbox.take()?;
        self.note_target(&mut pairs)?;
        if let Some(security) = &mut self.security {
            security.receive(&mut pairs, &mut self.outbox)?;
            if response.transit && !security.is_done() {
                return Err(LoginError::Refused {
                    status: Status::new(login_status::AUTHENTICATION_FAILURE),
                    reason: "the target goes on without the CHAP exchange".to_owned(),
                });
            }
        }
        let in_security = self.stage == login_stage::SECURITY;
        let must_tell = match &mut self.negotiation {
            Some(negotiation) => {
                let received = negotiation.receive(&pairs, in_security, &mut self.outbox);
                received.map_err(without_digests)?
            }
            None => false,
        };
        if response.transit {
            // LIO offers `IFMarker=No` along with the end of the stage; an answer could no longer be sent, and none is
            // needed as long as the answer would change nothing.
            if must_tell {
                return Err(Violation::LateOffer.into());
            }
            self.outbox = Outbox::default();
            self.enter(response)?;
        }
        if self.outcome.is_none() {
            self.send();
        }
        Ok(())
    }

    fn check_header(&self, response: &LoginResponse) -> Result<(), Violation> {
        let field = |field, found: u8, expected: u8| {
            Err(Violation::Field { field, found: u32::from(found), expected: u32::from(expected) })
        };
        if response.version_active != 0 {
            return field("Version-active", response.version_active, 0);
        }
        if response.csg != self.stage {
            return field("CSG", response.csg, self.stage);
        }
        if response.is_continued && response.transit {
            return Err(Violation::Flags("a response with both C and T"));
        }
        // A transit request is for the next stage; a target may grant that stage and no other.
        if response.transit && response.nsg != self.next_stage() {
            return field("NSG", response.nsg, self.next_stage());
        }
        // A target may assign the connection to another session, with CmdSNs of its own.
        if let Some(Joined { tsih, .. }) = self.joined
            && response.tsih != tsih
        {
            let (found, expected) = (response.tsih.into(), tsih.into());
            return Err(Violation::Field { field: "TSIH", found, expected });
        }
        Ok(())
    }

    /// Removes the target's statements about itself from the pairs and stores them.
    fn note_target(&mut self, pairs: &mut Vec<Pair>) -> Result<(), Violation> {
        if let Some(value) = take_key(pairs, Key::TargetPortalGroupTag.name())? {
            let tag = text::number(&value).ok().and_then(|tag| u16::try_from(tag).ok());
            let tag = tag.ok_or_else(|| Violation::Offer {
                key: Key::TargetPortalGroupTag.name(),
                value: shortened(&value),
            })?;
            self.target_portal_group_tag = Some(tag);
        }
        if let Some(alias) = take_key(pairs, Key::TargetAlias.name())? {
            self.target_alias = Some(alias.chars().take(255).collect());
        }
        // An address belongs to a redirection; elsewhere it has no use.
        pairs.retain(|(name, _)| name != Key::TargetAddress.name());
        Ok(())
    }

    fn refusal(&mut self, status: Status) -> LoginError {
        let pairs = self.inbox.take().unwrap_or_default();
        if status.class == 1 {
            let address = pairs
                .iter()
                .filter(|(name, _)| name == Key::TargetAddress.name())
                .find_map(|(_, value)| value.parse::<TargetAddress>().ok());
            return match address {
                Some(address) => LoginError::Redirected { address, permanent: status.detail == 2 },
                None => Violation::Redirection.into(),
            };
        }
        let is_authentication = matches!((status.class, status.detail), (2, 0 | 1));
        let is_discovery = self.request.session == Session::Discovery;
        let (who, peer) = if is_discovery { (DISCOVERY, DISCOVERY) } else { ("the target", "it") };
        let unchallenged = self.security.as_ref().and_then(|security| security.unchallenged(status, peer));
        if let Some(error) = unchallenged.filter(|_| is_authentication) {
            return error;
        }
        let reason = match (&self.request.session, status.class, status.detail) {
            (_, 2, 1) if matches!(self.request.security, Security::Chap(_)) => {
                format!("{who} does not take this CHAP name with this secret")
            }
            (_, 2, 1) => format!("{who} wants a CHAP name and secret, as in iscsi://NAME%SECRET@HOST"),
            (_, 2, 0) if self.request.insists_on_digests() => {
                "the target may take no digests; --digest prefer goes without them".to_owned()
            }
            (_, 2, 2) => format!("the target does not admit {}", self.request.initiator_name),
            (Session::Normal { target_name }, 2, 3 | 4) => {
                format!("{target_name} is not there, `farlun ls` shows what is")
            }
            _ => String::new(),
        };
        LoginError::Refused { status, reason }
    }

    fn first_cmd_sn(&self) -> u32 {
        self.joined.map_or(FIRST_CMD_SN, |joined| joined.cmd_sn)
    }

    fn next_stage(&self) -> u8 {
        match self.stage {
            login_stage::SECURITY => login_stage::OPERATIONAL,
            _ => login_stage::FULL_FEATURE,
        }
    }

    fn enter(&mut self, response: &LoginResponse) -> Result<(), LoginError> {
        self.stage = response.nsg;
        if self.stage == login_stage::OPERATIONAL {
            self.open_stage();
            return Ok(());
        }
        let Some(negotiation) = self.negotiation.take() else { return Err(Violation::AfterEnd.into()) };
        self.outcome = Some(LoggedIn {
            params: negotiation.finish().map_err(without_digests)?,
            isid: self.request.isid,
            tsih: response.tsih,
            cid: self.request.cid,
            cmd_sn: self.first_cmd_sn(),
            exp_stat_sn: self.exp_stat_sn,
            exp_cmd_sn: response.exp_cmd_sn,
            max_cmd_sn: response.max_cmd_sn,
            target_portal_group_tag: self.target_portal_group_tag,
            target_alias: self.target_alias.clone(),
        });
        Ok(())
    }

    /// Writes the first text of a login: names of both sides and the session type.
    fn introduce(&mut self) {
        let (out, request) = (&mut self.outbox, &self.request);
        out.push(Key::InitiatorName.name(), &request.initiator_name);
        if let Some(alias) = &request.initiator_alias {
            out.push(Key::InitiatorAlias.name(), alias);
        }
        match &request.session {
            Session::Normal { target_name } => {
                // A key of the session, not of its connections (13.21).
                if self.joined.is_none() {
                    out.push(Key::SessionType.name(), "Normal");
                }
                out.push(Key::TargetName.name(), target_name);
            }
            Session::Discovery => out.push(Key::SessionType.name(), "Discovery"),
        }
    }

    /// Writes the opening text of a stage.
    fn open_stage(&mut self) {
        self.security = None;
        if self.stage == login_stage::SECURITY {
            let (security, is_discovery) =
                (&self.request.security, self.request.session == Session::Discovery);
            self.security = Some(Offerer::start(security, is_discovery, self.random, &mut self.outbox));
        } else if let Some(negotiation) = &mut self.negotiation {
            negotiation.offer(&mut self.outbox);
        }
    }

    fn send(&mut self) {
        let (segment, is_continued) = self.outbox.segment();
        let transit = !is_continued && self.security.as_ref().is_none_or(Offerer::may_leave);
        let request = LoginRequest {
            transit,
            is_continued,
            csg: self.stage,
            nsg: if transit { self.next_stage() } else { 0 },
            version_max: 0,
            version_min: 0,
            data_segment_len: segment.len() as u32,
            isid: self.request.isid,
            tsih: self.joined.map_or(0, |joined| joined.tsih),
            itt: 0,
            cid: self.request.cid,
            cmd_sn: self.first_cmd_sn(),
            exp_stat_sn: self.exp_stat_sn,
        };
        self.transmit = Some((request, segment));
    }
}

/// Error of a login that fails over digests: a peer may refuse digests without violating the protocol.
fn without_digests(violation: Violation) -> LoginError {
    match violation {
        Violation::Unagreed { key, value } => LoginError::Digests { key, value: value.to_owned() },
        Violation::Answer { key, value, .. } if value == "None" && is_digest(key) => {
            LoginError::Digests { key, value }
        }
        other => other.into(),
    }
}

fn is_digest(key: &str) -> bool {
    [Key::HeaderDigest.name(), Key::DataDigest.name()].contains(&key)
}
