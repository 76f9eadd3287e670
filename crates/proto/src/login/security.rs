//! The security stage (RFC 7143 sections 6.3.2 and 12): negotiation of the authentication method, and its steps.
//!
//! Initiator and target pass every pair of the stage to this module and get back the pairs of other keys. All failures
//! look alike to the peer: status 0x0201 after the last step.

use wire::iscsi::login_status;

use super::chap::{Algorithm, Challenge, ChapInitiator, ChapTarget, RANDOM_BYTES, hex, number};
use super::directory::Proof;
use super::text::{Outbox, Pair, take_key};
use super::{LoginError, Status, Violation, shortened};
use crate::keys::{Answer, Key, Kind, Reply, Value, Wish, answer, reply};

/// Conduct of an initiator in the security stage.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Security {
    /// Begins with the operational stage. One round trip less; libiscsi does the same without a password, so tgt, LIO
    /// and SPDK accept it. A target that requires a password answers 0x0201.
    #[default]
    Skip,
    /// Passes through the stage with `AuthMethod=None`, as open-iscsi does.
    OfferNone,
    /// Authenticates the initiator by CHAP, and the target too if its credentials are present. A target that requires
    /// no authentication is refused; only a discovery session, which reveals nothing to the target, continues.
    Chap(Box<ChapInitiator>),
}

impl Security {
    /// Returns true if the target must authenticate itself, which takes a challenge of the initiator.
    pub fn is_mutual(&self) -> bool {
        matches!(self, Security::Chap(chap) if chap.is_mutual())
    }

    /// Removes SHA-256 from the offer; returns false if it was not offered together with others. tgt takes its CHAP_A
    /// code for SHA-1 and refuses the longer response with status 0x0200, where a wrong secret has 0x0201. An attacker
    /// gains nothing: an attacker able to cause this refusal could as well have chosen the weakest algorithm of the
    /// offer.
    pub fn leave_out_sha256(&mut self) -> bool {
        match self {
            Security::Chap(chap) if chap.algorithms.len() > 1 => {
                let before = chap.algorithms.len();
                chap.algorithms.retain(|algorithm| *algorithm != Algorithm::Sha256);
                chap.algorithms.len() < before
            }
            _ => false,
        }
    }

    /// Offers MD5 alone; returns false if it was not offered together with others. Some targets refuse every list that
    /// does not begin with MD5. As in [`Security::leave_out_sha256`], an attacker gains nothing.
    pub fn offer_md5_alone(&mut self) -> bool {
        match self {
            Security::Chap(chap)
                if chap.algorithms.len() > 1 && chap.algorithms.contains(&Algorithm::Md5) =>
            {
                chap.algorithms = vec![Algorithm::Md5];
                true
            }
            _ => false,
        }
    }

    /// Removes CHAP; returns false if CHAP was not used, or was mutual.
    pub fn leave_out_chap(&mut self) -> bool {
        let is_one_way = matches!(self, Security::Chap(chap) if !chap.is_mutual());
        if is_one_way {
            *self = Security::OfferNone;
        }
        is_one_way
    }
}

/// The initiator's side of the security stage.
#[derive(Debug)]
pub(super) struct Offerer {
    methods: Wish,
    chap: Option<Box<ChapInitiator>>,
    random: [u8; RANDOM_BYTES],
    waits_for: Awaited,
}

/// The next text expected of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Awaited {
    Method,
    Challenge,
    Proof(Algorithm),
    Nothing,
}

impl Offerer {
    pub(super) fn start(
        security: &Security,
        is_discovery: bool,
        random: [u8; RANDOM_BYTES],
        out: &mut Outbox,
    ) -> Offerer {
        let chap = match security {
            Security::Chap(chap) => Some(chap.clone()),
            Security::Skip | Security::OfferNone => None,
        };
        let methods = Wish::List(match &chap {
            None => vec!["None"],
            Some(chap) if is_discovery && !chap.is_mutual() => vec!["CHAP", "None"],
            Some(_) => vec!["CHAP"],
        });
        out.push(Key::AuthMethod.name(), &methods.to_string());
        Offerer { methods, chap, random, waits_for: Awaited::Method }
    }

    /// The error of a refusal by `peer`, if no challenge has been received yet.
    pub(super) fn unchallenged(&self, status: Status, peer: &str) -> Option<LoginError> {
        let chap = self.chap.as_ref()?;
        let (step, is_choice) = match self.waits_for {
            Awaited::Method => (format!("{peer} refused AuthMethod=CHAP"), false),
            Awaited::Challenge => (format!("{peer} refused {}", chap.offered()), true),
            Awaited::Proof(_) | Awaited::Nothing => return None,
        };
        Some(LoginError::Unchallenged { status, step, is_choice })
    }

    /// Returns true if the next request may ask to leave the stage.
    pub(super) fn may_leave(&self) -> bool {
        self.chap.is_none() || matches!(self.waits_for, Awaited::Proof(_) | Awaited::Nothing)
    }

    /// Returns true if the target may end the stage: its authentication is complete, if required.
    pub(super) fn is_done(&self) -> bool {
        self.chap.is_none() || self.waits_for == Awaited::Nothing
    }

    /// Removes the keys of the stage from `pairs` and writes the next step to `out`.
    pub(super) fn receive(&mut self, pairs: &mut Vec<Pair>, out: &mut Outbox) -> Result<(), LoginError> {
        let method = take_key(pairs, Key::AuthMethod.name())?;
        let steps = Steps::take(pairs)?;
        if let Some(method) = method {
            if self.waits_for != Awaited::Method {
                return Err(Violation::Twice(Key::AuthMethod.name()).into());
            }
            self.receive_method(&method, out)?;
            return steps.expect_none();
        }
        let Some(chap) = &self.chap else { return steps.expect_none() };
        match (&self.waits_for, steps) {
            (Awaited::Challenge, Steps { a: Some(a), i: Some(i), c: Some(c), n: None, r: None }) => {
                let algorithm = chap.algorithms.iter().find(|own| number(&a) == Some(own.number().into()));
                let algorithm = *algorithm.ok_or_else(|| chap.not_offered(&a))?;
                let challenge = Challenge::read(&i, &c)
                    .ok_or_else(|| failure("the target's CHAP challenge cannot be read".to_owned()))?;
                let ours = Challenge::new(self.random);
                if chap.is_mutual() && challenge.bytes == ours.bytes {
                    return Err(failure("the target sends our own CHAP challenge".to_owned()));
                }
                out.push(Key::ChapN.name(), chap.ours.name());
                out.push(Key::ChapR.name(), &chap.ours.respond(algorithm, &challenge));
                self.waits_for = Awaited::Nothing;
                if chap.is_mutual() {
                    out.push(Key::ChapI.name(), &ours.id.to_string());
                    out.push(Key::ChapC.name(), &hex(&ours.bytes));
                    self.waits_for = Awaited::Proof(algorithm);
                }
                Ok(())
            }
            (
                Awaited::Proof(algorithm),
                Steps { n: Some(name), r: Some(response), a: None, i: None, c: None },
            ) => {
                let ours = Challenge::new(self.random);
                let theirs = chap.theirs.as_ref();
                if !theirs.is_some_and(|theirs| theirs.prove(*algorithm, &ours, &name, &response)) {
                    let reason = "the target could not prove itself: its CHAP name or secret is another one";
                    return Err(failure(reason.to_owned()));
                }
                self.waits_for = Awaited::Nothing;
                Ok(())
            }
            // `CHAP_A=Reject` alone.
            (Awaited::Challenge, Steps { a: Some(a), i: None, c: None, n: None, r: None }) => {
                Err(chap.not_offered(&a))
            }
            (Awaited::Challenge, _) => {
                Err(failure("the target sends no CHAP challenge where one is due".to_owned()))
            }
            (_, steps) => steps.expect_none(),
        }
    }

    fn receive_method(&mut self, method: &str, out: &mut Outbox) -> Result<(), LoginError> {
        match (reply(Key::AuthMethod, &self.methods, method), &self.chap) {
            (Reply::Agreed(Value::Text(method)), Some(chap)) if method == "CHAP" => {
                out.push(Key::ChapA.name(), &chap.numbers());
                self.waits_for = Awaited::Challenge;
                Ok(())
            }
            (Reply::Agreed(_), _) => {
                self.waits_for = Awaited::Nothing;
                Ok(())
            }
            (Reply::Refused | Reply::Violation, _) => Err(failure(format!(
                "the target answers AuthMethod={}, we offer {}",
                shortened(method),
                self.methods
            ))),
        }
    }
}

/// The target's side of the security stage.
#[derive(Debug)]
pub(super) struct Responder {
    chap: Option<ChapTarget>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No method negotiated.
    Begin,
    /// CHAP negotiated.
    Method,
    /// Challenge sent, with the chosen algorithm.
    Challenged(Algorithm, Challenge),
    /// End of the stage; with the name of the CHAP user, if authentication was required.
    Done(Option<String>),
}

impl Responder {
    pub(super) fn new(chap: Option<ChapTarget>) -> Responder {
        Responder { chap, state: State::Begin }
    }

    /// Returns true if the initiator may leave the stage, or begin after it.
    pub(super) fn is_done(&self) -> bool {
        self.chap.is_none() || matches!(self.state, State::Done(_))
    }

    /// Authentication completed so far.
    pub(super) fn proof(&self) -> Proof {
        match (&self.chap, &self.state) {
            (None, _) => Proof::NotNeeded,
            (Some(_), State::Done(Some(user))) => Proof::User(user.clone()),
            (Some(_), _) => Proof::Pending,
        }
    }

    /// Returns true if a method was negotiated or none is required.
    pub(super) fn is_begun(&self) -> bool {
        self.chap.is_none() || !matches!(self.state, State::Begin)
    }

    /// Error for an initiator that leaves the stage, or begins after it, without authentication.
    pub(super) fn no_proof() -> LoginError {
        failure("the initiator offers no CHAP, which is needed here".to_owned())
    }

    /// Answers the keys of the stage and removes them from `pairs`. An initiator that offers no method has chosen none.
    /// `random` fills a slice with random bytes.
    pub(super) fn receive(
        &mut self,
        pairs: &mut Vec<Pair>,
        out: &mut Outbox,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LoginError> {
        let method = take_key(pairs, Key::AuthMethod.name())?;
        let steps = Steps::take(pairs)?;
        if let Some(method) = method {
            if !matches!(self.state, State::Begin) {
                return Err(Violation::Twice(Key::AuthMethod.name()).into());
            }
            self.receive_method(&method, out)?;
            return steps.expect_none();
        }
        let Some(chap) = &self.chap else { return steps.expect_none() };
        match (&self.state, steps) {
            (State::Method, Steps { a: Some(a), i: None, c: None, n: None, r: None }) => {
                let is_offered =
                    |own: &&Algorithm| a.split(',').any(|offer| number(offer) == Some(own.number().into()));
                let Some(&algorithm) = chap.algorithms.iter().find(is_offered) else {
                    return Err(failure(format!("CHAP_A={} offers nothing that we allow", shortened(&a))));
                };
                let mut bytes = [0; RANDOM_BYTES];
                random(&mut bytes);
                let challenge = Challenge::new(bytes);
                out.push(Key::ChapA.name(), &algorithm.number().to_string());
                out.push(Key::ChapI.name(), &challenge.id.to_string());
                out.push(Key::ChapC.name(), &hex(&challenge.bytes));
                self.state = State::Challenged(algorithm, challenge);
                Ok(())
            }
            (State::Challenged(algorithm, challenge), Steps { n: Some(n), r: Some(r), a: None, i, c }) => {
                if !chap.admits(*algorithm, challenge, &n, &r) {
                    return Err(failure(format!("wrong CHAP name or secret from '{}'", shortened(&n))));
                }
                match (i, c) {
                    (None, None) => {}
                    (Some(i), Some(c)) => {
                        let theirs = Challenge::read(&i, &c)
                            .ok_or_else(|| failure("the CHAP challenge cannot be read".to_owned()))?;
                        if theirs.bytes == challenge.bytes {
                            return Err(failure("our own CHAP challenge was sent back to us".to_owned()));
                        }
                        let Some(ours) = &chap.ours else {
                            let reason = "the initiator wants us to prove ourselves, and we have no \
                                          credentials of our own";
                            return Err(failure(reason.to_owned()));
                        };
                        out.push(Key::ChapN.name(), ours.name());
                        out.push(Key::ChapR.name(), &ours.respond(*algorithm, &theirs));
                    }
                    _ => return Err(failure("half a CHAP challenge".to_owned())),
                }
                self.state = State::Done(Some(n));
                Ok(())
            }
            (_, steps) => steps.expect_none(),
        }
    }

    fn receive_method(&mut self, method: &str, out: &mut Outbox) -> Result<(), LoginError> {
        let (wanted, next) = match &self.chap {
            Some(_) => ("CHAP", State::Method),
            None => ("None", State::Done(None)),
        };
        match answer(Key::AuthMethod, method, &Wish::List(vec![wanted])) {
            Answer::Select(method) => {
                out.push(Key::AuthMethod.name(), &method.to_string());
                self.state = next;
                Ok(())
            }
            _ => Err(failure(format!("AuthMethod={} offered, {wanted} expected", shortened(method)))),
        }
    }
}

/// The CHAP keys of one text.
#[derive(Debug)]
struct Steps {
    a: Option<String>,
    i: Option<String>,
    c: Option<String>,
    n: Option<String>,
    r: Option<String>,
}

impl Steps {
    fn take(pairs: &mut Vec<Pair>) -> Result<Steps, Violation> {
        let mut take = |key: Key| {
            debug_assert!(key.spec().kind == Kind::Step);
            take_key(pairs, key.name())
        };
        Ok(Steps {
            a: take(Key::ChapA)?,
            i: take(Key::ChapI)?,
            c: take(Key::ChapC)?,
            n: take(Key::ChapN)?,
            r: take(Key::ChapR)?,
        })
    }

    /// Returns an error if any CHAP key is present where none is expected.
    fn expect_none(&self) -> Result<(), LoginError> {
        let there = [&self.a, &self.i, &self.c, &self.n, &self.r].iter().any(|value| value.is_some());
        if there { Err(failure("CHAP keys out of order".to_owned())) } else { Ok(()) }
    }
}

fn failure(reason: String) -> LoginError {
    LoginError::Refused { status: Status::new(login_status::AUTHENTICATION_FAILURE), reason }
}
