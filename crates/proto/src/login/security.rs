//! The security stage (RFC 7143 sections 6.3.2 and 12): which authentication method, and its steps.
//!
//! This is the one file that an authentication method is added to: the machines of both sides hand
//! every pair of the stage to it and get back those that are not its own.

use wire::iscsi::login_status;

use super::text::{Outbox, Pair, take_key};
use super::{LoginError, Status, Violation, shortened};
use crate::keys::{Answer, Key, Kind, Reply, Wish, answer, reply};

/// How an initiator goes through the security stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Security {
    /// Begin with the operational stage. One round trip less; this is what libiscsi does without a
    /// password, so tgt, LIO and SPDK take it. A target that wants a password answers 0x0201.
    #[default]
    Skip,
    /// Pass through the stage with `AuthMethod=None`, as open-iscsi does.
    OfferNone,
}

fn methods() -> Wish {
    Wish::List(vec!["None"])
}

/// The initiator's part.
#[derive(Debug)]
pub(super) struct Offerer {
    answered: bool,
}

impl Offerer {
    pub(super) fn start(out: &mut Outbox) -> Offerer {
        out.push(Key::AuthMethod.name(), &methods().to_string());
        Offerer { answered: false }
    }

    /// Takes the keys of the stage out of `pairs`.
    pub(super) fn receive(&mut self, pairs: &mut Vec<Pair>) -> Result<(), LoginError> {
        let key = Key::AuthMethod;
        let Some(value) = take_key(pairs, key.name())? else { return Ok(()) };
        if core::mem::replace(&mut self.answered, true) {
            return Err(Violation::Twice(key.name()).into());
        }
        match reply(key, &methods(), &value) {
            Reply::Agreed(_) => Ok(()),
            Reply::Refused | Reply::Violation => Err(LoginError::Refused {
                status: Status::new(login_status::AUTHENTICATION_FAILURE),
                reason: format!("the target answers AuthMethod={}, we offer None", shortened(&value)),
            }),
        }
    }
}

/// The target's part.
#[derive(Debug, Default)]
pub(super) struct Responder {
    answered: bool,
}

impl Responder {
    /// Answers the keys of the stage and takes them out of `pairs`. An initiator that offers no method
    /// has chosen none.
    pub(super) fn receive(&mut self, pairs: &mut Vec<Pair>, out: &mut Outbox) -> Result<(), LoginError> {
        if let Some((name, _)) = pairs.iter().find(|(name, _)| is_step(name)) {
            return Err(failure(format!("{} without a method that has this key", shortened(name))));
        }
        let key = Key::AuthMethod;
        let Some(value) = take_key(pairs, key.name())? else { return Ok(()) };
        if core::mem::replace(&mut self.answered, true) {
            return Err(Violation::Twice(key.name()).into());
        }
        match answer(key, &value, &methods()) {
            Answer::Select(method) => {
                out.push(key.name(), &method.to_string());
                Ok(())
            }
            _ => Err(failure(format!("AuthMethod={} offered, None expected", shortened(&value)))),
        }
    }
}

fn is_step(name: &str) -> bool {
    Key::from_name(name).is_some_and(|key| key.spec().kind == Kind::Step)
}

fn failure(reason: String) -> LoginError {
    LoginError::Refused { status: Status::new(login_status::AUTHENTICATION_FAILURE), reason }
}
