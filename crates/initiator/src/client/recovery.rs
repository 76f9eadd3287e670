//! A session that is lost and made again (RFC 7143 sections 7.1.4.3 and 7.3.1: session recovery, the
//! recovery of error recovery level 0): when to try, how often, and when to give up.

use std::time::Duration;

use event::Instant;

use crate::approach::Approach;
use crate::error::Error;

/// How long after a failed attempt the next one is made, at first and at most.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(3);

/// A session being made again.
pub(crate) struct Recovery {
    /// Why it was lost.
    cause: Error,
    last: Option<Error>,
    pub(crate) approach: Option<Approach>,
    next_at: Instant,
}

/// How long it has been going on; it ends when a request completes, not with a login that is soon lost again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    after: Duration,
    until: Instant,
    attempts: u32,
    wait: Duration,
}

impl Trouble {
    pub(crate) fn new(now: Instant, time2wait: Duration, timeout: Duration) -> Trouble {
        Trouble { after: timeout, until: now + time2wait + timeout, attempts: 0, wait: WAIT_MIN }
    }

    pub(crate) fn until(&self) -> Instant {
        self.until
    }
}

impl Recovery {
    /// The session was lost just now, and may not be made again for `time2wait`.
    pub(crate) fn new(cause: Error, trouble: &Trouble, now: Instant, time2wait: Duration) -> Recovery {
        let wait = if trouble.attempts == 0 { time2wait } else { time2wait.max(trouble.wait) };
        Recovery { cause, last: None, approach: None, next_at: now + wait }
    }

    /// When there is something to do.
    pub(crate) fn next_at(&self) -> Instant {
        self.approach.as_ref().map_or(self.next_at, Approach::deadline)
    }

    /// Whether an attempt is to be made now; it is counted.
    pub(crate) fn is_due(&self, trouble: &mut Trouble, now: Instant) -> bool {
        let is_due = self.approach.is_none() && now >= self.next_at;
        trouble.attempts += u32::from(is_due);
        is_due
    }

    /// An attempt came to nothing; the next one is put off.
    pub(crate) fn failed(&mut self, error: Error, trouble: &mut Trouble, now: Instant) {
        self.approach = None;
        self.last = Some(error);
        self.next_at = now + trouble.wait;
        trouble.wait = (trouble.wait * 2).min(WAIT_MAX);
    }

    /// Whether no more attempts are to be made: there is no time left, or the target has said no.
    pub(crate) fn is_over(&self, trouble: &Trouble, now: Instant) -> bool {
        let is_refused = self.last.as_ref().is_some_and(|error| error.is_refusal() && !error.may_pass());
        is_refused || (self.approach.is_none() && (now >= trouble.until || self.next_at > trouble.until))
    }

    /// Why there is no session any more.
    pub(crate) fn give_up(self, trouble: &Trouble) -> Error {
        let Trouble { attempts, after, .. } = *trouble;
        match self.last {
            Some(last) => {
                Error::GaveUp { cause: Box::new(self.cause), attempts, after, last: Box::new(last) }
            }
            None => self.cause,
        }
    }
}
