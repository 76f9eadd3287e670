//! The target's side of a login: checks the stages, queries a directory for admission, answers every key, and ends with
//! a new session or a refusal (RFC 7143 sections 6.3, 11.12, 11.13).
//!
//! It does not hold sessions. The caller handles reinstatement (a login with the names and ISID of an existing session,
//! section 6.3.5): it compares the outcome with its sessions.

use wire::iscsi::{LoginRequest, LoginResponse, login_stage, login_status};

use super::directory::{Admitted, Candidate, Directory, Existing, LoginPolicy, Proof};
use super::negotiation::Negotiation;
use super::security::Responder;
use super::text::{Inbox, Outbox, Pair, take_key};
use super::{LoginError, ROUNDS, Status, Violation, shortened};
use crate::keys::{Answer, Key, Value, Wish, answer};

/// The protocol version of RFC 7143.
const VERSION: u8 = 0;

/// A login as the target sees it, from the first request on.
///
/// Inputs: [`handle_request`](Target::handle_request) and [`handle_other`](Target::handle_other).
/// Output: [`poll_transmit`](Target::poll_transmit), at most one PDU for each input.
/// Then [`outcome`](Target::outcome), or [`is_closed`](Target::is_closed) when the connection is to
/// be closed as soon as the last output is sent.
#[derive(Debug)]
pub struct Target {
    policy: LoginPolicy,
    header: Option<Header>,
    stage: u8,
    rounds: u32,
    inbox: Inbox,
    outbox: Outbox,
    security: Responder,
    who: Option<(Candidate, Negotiation)>,
    joined: Option<Existing>,
    transmit: Option<(LoginResponse, Vec<u8>)>,
    outcome: Option<Admitted>,
    is_closed: bool,
}

/// Header fields that stay constant through a login (11.12.5 to 11.12.8), and the next StatSN.
#[derive(Clone, Copy, Debug)]
struct Header {
    isid: [u8; 6],
    tsih: u16,
    cid: u16,
    cmd_sn: u32,
    stat_sn: u32,
}

impl Target {
    /// A connection without any PDU yet.
    pub fn new(policy: LoginPolicy) -> Target {
        Target {
            security: Responder::new(policy.chap.clone()),
            policy,
            header: None,
            stage: login_stage::SECURITY,
            rounds: 0,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            who: None,
            joined: None,
            transmit: None,
            outcome: None,
            is_closed: false,
        }
    }

    /// Takes a login request with its data segment and prepares the response.
    ///
    /// # Errors
    /// [`LoginError::Refused`] when the login is over: the response with the refusal still waits in
    /// [`poll_transmit`](Target::poll_transmit). [`LoginError::Protocol`] for a request after the end.
    pub fn handle_request(
        &mut self,
        request: &LoginRequest,
        data: &[u8],
        directory: &mut dyn Directory,
    ) -> Result<(), LoginError> {
        if self.is_closed || self.outcome.is_some() {
            self.is_closed = true;
            return Err(Violation::AfterEnd.into());
        }
        self.step(request, data, directory).map_err(|error| {
            let (status, reason) = match error {
                LoginError::Refused { status, reason } => (status, reason),
                other => (Status::new(login_status::INITIATOR_ERROR), other.to_string()),
            };
            self.refuse(request.itt, request.isid, status);
            LoginError::Refused { status, reason }
        })
    }

    /// Any other PDU before the end of the login: status 0x020b, or silence if it is the first PDU (RFC 7143 section
    /// 6.3). `itt` is the task tag of the PDU.
    pub fn handle_other(&mut self, itt: u32) {
        let is_first = self.header.is_none();
        if self.is_closed || is_first || self.outcome.is_some() {
            self.is_closed = true;
            return;
        }
        let isid = self.header.map_or([0; 6], |header| header.isid);
        self.refuse(itt, isid, Status::new(login_status::INVALID_DURING_LOGIN));
    }

    /// The next response to send, header and data segment.
    pub fn poll_transmit(&mut self) -> Option<(LoginResponse, Vec<u8>)> {
        self.transmit.take()
    }

    /// Memory of received text and of text to be sent.
    pub fn held_bytes(&self) -> usize {
        let sent_bytes = self.transmit.as_ref().map_or(0, |(_, data)| data.len());
        self.inbox.held_bytes() + self.outbox.held_bytes() + sent_bytes
    }

    /// The new session, once the full feature phase is reached.
    pub fn outcome(&self) -> Option<&Admitted> {
        self.outcome.as_ref()
    }

    /// Returns true when the connection will have no more output.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn step(
        &mut self,
        request: &LoginRequest,
        data: &[u8],
        directory: &mut dyn Directory,
    ) -> Result<(), LoginError> {
        self.rounds += 1;
        if self.rounds > ROUNDS {
            return Err(Violation::Rounds.into());
        }
        self.check_header(request)?;
        if self.outbox.is_pending() {
            // The rest of an answer: the initiator requests it with empty requests (6.2).
            if !data.is_empty() || request.is_continued {
                return Err(Violation::Flags("text in a request that asks for the rest of an answer").into());
            }
            return self.respond(request, directory);
        }
        self.inbox.push(data)?;
        if request.is_continued {
            let response = self.response(request);
            self.queue(response, Vec::new());
            return Ok(());
        }
        let mut pairs = self.inbox.take()?;
        if self.who.is_none() {
            self.identify(request, &mut pairs, directory)?;
        }
        let in_security = self.stage == login_stage::SECURITY;
        if in_security {
            let random = &mut |bytes: &mut [u8]| directory.random(bytes);
            self.security.receive(&mut pairs, &mut self.outbox, random)?;
            self.note_proof()?;
            let offers_nothing = request.transit && !self.security.is_begun();
            if offers_nothing {
                return Err(Responder::no_proof());
            }
        } else if !self.security.is_done() {
            return Err(Responder::no_proof());
        }
        if let Some((_, negotiation)) = &mut self.who {
            negotiation.receive(&pairs, in_security, &mut self.outbox)?;
            if !in_security {
                negotiation.state_segment_len(&mut self.outbox);
            }
        }
        self.respond(request, directory)
    }

    /// Rules of the stages (6.3, 11.12.1 to 11.12.3) and of the fields that must not change.
    fn check_header(&mut self, request: &LoginRequest) -> Result<(), LoginError> {
        if request.version_min > VERSION {
            return Err(LoginError::Refused {
                status: Status::new(login_status::UNSUPPORTED_VERSION),
                reason: format!("the initiator speaks version {} and up, we speak 0", request.version_min),
            });
        }
        if request.is_continued && request.transit {
            return Err(Violation::Flags("a request with both C and T").into());
        }
        let (csg, nsg) = (request.csg, request.nsg);
        if request.transit
            && !(nsg > csg && matches!(nsg, login_stage::OPERATIONAL | login_stage::FULL_FEATURE))
        {
            return Err(Violation::Flags("T with a next stage that does not follow the current one").into());
        }
        let Some(header) = self.header else {
            if !matches!(csg, login_stage::SECURITY | login_stage::OPERATIONAL) {
                return Err(Violation::Flags("a login begins with stage 0 or 1").into());
            }
            self.stage = csg;
            self.header = Some(Header {
                isid: request.isid,
                tsih: request.tsih,
                cid: request.cid,
                cmd_sn: request.cmd_sn,
                // Any first StatSN is valid; the value that the initiator expects suits initiators that do not take it
                // from the response.
                stat_sn: request.exp_stat_sn,
            });
            return Ok(());
        };
        let isid = |isid: [u8; 6]| u32::from_be_bytes([isid[2], isid[3], isid[4], isid[5]]);
        let field =
            |field, found, expected| LoginError::Protocol(Violation::Field { field, found, expected });
        if csg != self.stage {
            return Err(field("CSG", u32::from(csg), u32::from(self.stage)));
        }
        if request.isid != header.isid {
            return Err(field("ISID", isid(request.isid), isid(header.isid)));
        }
        if request.tsih != header.tsih {
            return Err(field("TSIH", u32::from(request.tsih), u32::from(header.tsih)));
        }
        if request.cid != header.cid {
            return Err(field("CID", u32::from(request.cid), u32::from(header.cid)));
        }
        Ok(())
    }

    /// Takes the first text: initiator, session type and target (6.3, 13.4, 13.5, 13.21).
    fn identify(
        &mut self,
        request: &LoginRequest,
        pairs: &mut Vec<Pair>,
        directory: &mut dyn Directory,
    ) -> Result<(), LoginError> {
        let initiator_name = stated(pairs, Key::InitiatorName)?.filter(|name| !name.is_empty());
        let initiator_alias = stated(pairs, Key::InitiatorAlias)?;
        let session_type = stated(pairs, Key::SessionType)?;
        let target_name = stated(pairs, Key::TargetName)?.filter(|name| !name.is_empty());
        let Some(initiator_name) = initiator_name else { return Err(missing("InitiatorName")) };
        // RFC 3722 forbids such names, and log lines must stay intact.
        if initiator_name.contains(char::is_control) {
            return Err(LoginError::Refused {
                status: Status::new(login_status::INITIATOR_ERROR),
                reason: format!(
                    "InitiatorName={}, expected no control characters",
                    shortened(&initiator_name)
                ),
            });
        }
        let discovery = match session_type.as_deref() {
            None | Some("Normal") => false,
            Some("Discovery") => true,
            Some(other) => {
                return Err(LoginError::Refused {
                    status: Status::new(login_status::SESSION_TYPE_NOT_SUPPORTED),
                    reason: format!("SessionType={}, expected Normal or Discovery", shortened(other)),
                });
            }
        };
        if !discovery && target_name.is_none() {
            return Err(missing("TargetName"));
        }
        let candidate = Candidate {
            initiator_name,
            initiator_alias,
            target_name,
            discovery,
            isid: request.isid,
            cid: request.cid,
            proof: self.security.proof(),
        };
        directory.admit(&candidate).map_err(|status| LoginError::Refused {
            status,
            reason: format!(
                "{} asks for {}",
                shortened(&candidate.initiator_name),
                candidate.target_name.as_deref().map_or_else(|| "discovery".to_owned(), shortened)
            ),
        })?;
        if request.tsih != 0 {
            self.joined = Some(join(directory, &candidate, request.tsih)?);
        }
        if !discovery {
            // Section 13.9: the first response carries the tag.
            self.outbox.push(Key::TargetPortalGroupTag.name(), &self.policy.portal_group_tag.to_string());
            if let Some(alias) = &self.policy.target_alias {
                self.outbox.push(Key::TargetAlias.name(), alias);
            }
        }
        let mut negotiation =
            Negotiation::new(self.policy.wishes.clone(), false, discovery, self.policy.private_key);
        if self.joined.is_some() {
            negotiation = negotiation.joining();
        }
        self.who = Some((candidate, negotiation));
        Ok(())
    }

    /// Stores the authentication reached. A user may be bound to initiator names other than the one in this login.
    fn note_proof(&mut self) -> Result<(), LoginError> {
        let (Some((candidate, _)), Some(chap)) = (&mut self.who, &self.policy.chap) else { return Ok(()) };
        candidate.proof = self.security.proof();
        match &candidate.proof {
            Proof::User(user) if !chap.may_be(user, &candidate.initiator_name) => Err(LoginError::Refused {
                status: Status::new(login_status::AUTHORIZATION_FAILURE),
                reason: format!(
                    "the CHAP user '{}' may not log in as {}",
                    shortened(user),
                    shortened(&candidate.initiator_name)
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Sends the next segment of the response text, and with the last one agrees to leave the stage.
    fn respond(&mut self, request: &LoginRequest, directory: &mut dyn Directory) -> Result<(), LoginError> {
        let (segment, is_continued) = self.outbox.segment();
        let mut response = self.response(request);
        response.is_continued = is_continued;
        // The stage lasts until the initiator is authenticated, even if its request asks to leave earlier.
        let may_leave = self.stage != login_stage::SECURITY || self.security.is_done();
        response.transit = request.transit && !is_continued && may_leave;
        let mut agreed = None;
        if response.transit {
            response.nsg = request.nsg;
            self.stage = request.nsg;
            if request.nsg == login_stage::FULL_FEATURE
                && let Some((candidate, negotiation)) = self.who.take()
            {
                let mut params = negotiation.finish()?;
                if self.joined.is_some() {
                    let joined = join(directory, &candidate, request.tsih)?;
                    (response.exp_cmd_sn, response.max_cmd_sn) = (joined.exp_cmd_sn, joined.max_cmd_sn);
                    params = params.of_connection(joined.params);
                } else {
                    response.tsih = directory.assign_tsih(&candidate).map_err(|status| {
                        let reason = match status == Status::new(login_status::AUTHORIZATION_FAILURE) {
                            true => "another CHAP user has a session with this name and ISID",
                            false => "no new session",
                        };
                        LoginError::Refused { status, reason: reason.to_owned() }
                    })?;
                }
                agreed = Some((candidate, params, response.tsih));
            }
        }
        self.outcome = agreed.map(|(candidate, params, tsih)| Admitted {
            candidate,
            params,
            tsih,
            joins: self.joined.is_some(),
            exp_cmd_sn: response.exp_cmd_sn,
            max_cmd_sn: response.max_cmd_sn,
            stat_sn: response.stat_sn.wrapping_add(1),
        });
        self.queue(response, segment);
        Ok(())
    }

    /// A response to `request` without text and without T. Login requests are immediate: ExpCmdSN
    /// stays at their CmdSN.
    fn response(&self, request: &LoginRequest) -> LoginResponse {
        let cmd_sn = self.header.map_or(request.cmd_sn, |header| header.cmd_sn);
        let max_cmd_sn = cmd_sn.wrapping_add(self.policy.command_window.max(1)).wrapping_sub(1);
        // An existing session has its own window.
        let window = self.joined.as_ref().map(|joined| (joined.exp_cmd_sn, joined.max_cmd_sn));
        let (exp_cmd_sn, max_cmd_sn) = window.unwrap_or((cmd_sn, max_cmd_sn));
        LoginResponse {
            transit: false,
            is_continued: false,
            csg: request.csg,
            nsg: 0,
            version_max: VERSION,
            version_active: VERSION,
            data_segment_len: 0,
            isid: request.isid,
            tsih: request.tsih,
            itt: request.itt,
            stat_sn: self.header.map_or(0, |header| header.stat_sn),
            exp_cmd_sn,
            max_cmd_sn,
            status_class: 0,
            status_detail: 0,
        }
    }

    fn queue(&mut self, mut response: LoginResponse, data: Vec<u8>) {
        response.data_segment_len = data.len() as u32;
        if let Some(header) = &mut self.header {
            header.stat_sn = header.stat_sn.wrapping_add(1);
        }
        self.transmit = Some((response, data));
    }

    /// Ends the login: with a class other than 0 the numbers and stages mean nothing (11.13.3 to 11.13.5).
    fn refuse(&mut self, itt: u32, isid: [u8; 6], status: Status) {
        self.is_closed = true;
        self.outcome = None;
        self.transmit = Some((
            LoginResponse {
                transit: false,
                is_continued: false,
                csg: 0,
                nsg: 0,
                version_max: VERSION,
                version_active: VERSION,
                data_segment_len: 0,
                isid,
                tsih: self.header.map_or(0, |header| header.tsih),
                itt,
                stat_sn: 0,
                exp_cmd_sn: 0,
                max_cmd_sn: 0,
                status_class: status.class,
                status_detail: status.detail,
            },
            Vec::new(),
        ));
    }
}

/// Takes a statement out of the pairs, in the bounds of its key.
fn stated(pairs: &mut Vec<Pair>, key: Key) -> Result<Option<String>, Violation> {
    let Some(value) = take_key(pairs, key.name())? else { return Ok(None) };
    match answer(key, &value, &Wish::Nothing) {
        Answer::Note(Value::Text(text)) => Ok(Some(text)),
        _ => Err(Violation::Offer { key: key.name(), value: shortened(&value) }),
    }
}

fn join(directory: &mut dyn Directory, candidate: &Candidate, tsih: u16) -> Result<Existing, LoginError> {
    directory.join(candidate, tsih).map_err(|status| LoginError::Refused {
        status,
        reason: format!("connection {} cannot join session {tsih:#06x}", candidate.cid),
    })
}

fn missing(key: &'static str) -> LoginError {
    LoginError::Refused {
        status: Status::new(login_status::MISSING_PARAMETER),
        reason: format!("the first request has no {key}"),
    }
}
