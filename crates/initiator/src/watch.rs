//! Commands that are never answered although the target is alive: found by the clock, aborted (RFC 7143
//! section 11.5.1, ABORT TASK), and given up with the session. If the target has no such function, or does not answer that
//! either, the LUN is reset before that (LOGICAL UNIT RESET), so that nothing of the command comes later. Whoever shares
//! the LUN loses its tasks by that, so an abort that is refused for another reason is not followed by it.
//!
//! A slow path is no reason: a command is overdue only if nothing at all moves any more, or if others that
//! were submitted much later have overtaken it on its own connection. Another one may be much faster.

use std::time::Duration;

use event::Instant;
use slab::Slab;
use wire::iscsi::task_response;
use wire::scsi::Cdb;

use crate::side::Open;

/// What has been seen of a session's commands.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// When data or an answer was last on its way.
    moved: Instant,
    /// When the latest-submitted of the commands that a connection has completed was submitted, by CID.
    latest: Vec<Instant>,
    aborting: Option<Aborting>,
}

#[derive(Clone, Copy, Debug)]
struct Aborting {
    token: u64,
    since: Instant,
    name: &'static str,
    response: Option<u8>,
    /// There is no abort, or it was not answered, so a reset was asked for: when, and what came of it.
    reset: Option<(Instant, Option<u8>)>,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    /// Nothing.
    Fine,
    /// Abort this command.
    Abort(u64),
    /// Reset the LUN.
    Reset,
    /// The command that is named was not answered, and this became of its abort.
    GiveUp(&'static str, Abort),
}

/// What became of an abort.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abort {
    /// The target has given the command up.
    Done,
    /// It does not, and has not reset the LUN.
    Refused {
        /// One of [`wire::iscsi::task_response`].
        response: u8,
    },
    /// It did not do that either, and has reset the LUN.
    Reset,
    /// It did not answer that either, and did not reset the LUN.
    Unanswered,
}

impl Watch {
    pub(crate) fn new(now: Instant) -> Watch {
        Watch { moved: now, latest: Vec::new(), aborting: None }
    }

    /// Data or an answer is on its way.
    pub(crate) fn progress(&mut self, now: Instant) {
        self.moved = now;
    }

    /// A command that was submitted then is answered on this connection. If it was to be aborted, it need not be any
    /// more.
    pub(crate) fn completed(&mut self, token: u64, cid: u16, submitted: Instant) {
        let cid = usize::from(cid);
        if self.latest.len() <= cid {
            self.latest.resize(cid + 1, Instant::ZERO);
        }
        self.latest[cid] = self.latest[cid].max(submitted);
        self.aborting = self.aborting.filter(|aborting| aborting.token != token);
    }

    /// The target has answered the abort of a command.
    pub(crate) fn answered(&mut self, token: u64, response: u8) {
        if let Some(aborting) = self.aborting.as_mut().filter(|aborting| aborting.token == token) {
            aborting.response = Some(response);
        }
    }

    /// Whether a command is being aborted: the session will be given up unless it is answered.
    pub(crate) fn is_aborting(&self) -> bool {
        self.aborting.is_some()
    }

    /// The target has answered the reset of the LUN.
    pub(crate) fn reset_answered(&mut self, response: u8) {
        if let Some(Aborting { reset: Some((_, answer)), .. }) = &mut self.aborting {
            *answer = Some(response);
        }
    }

    /// Looks at the clock. `carrier` is the connection that a command has, `patience` how long an abort and a reset may
    /// take together.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        open: &Slab<Open>,
        carrier: impl Fn(&Open) -> Option<u16>,
        (timeout, patience): (Duration, Duration),
    ) -> Finding {
        let half = patience / 2;
        if let Some(Aborting { since, name, response, reset, .. }) = &mut self.aborting {
            return match (*response, *reset) {
                (Some(task_response::COMPLETE | task_response::NO_SUCH_TASK), _) => {
                    Finding::GiveUp(name, Abort::Done)
                }
                (_, Some((_, Some(task_response::COMPLETE)))) => Finding::GiveUp(name, Abort::Reset),
                (Some(task_response::NOT_SUPPORTED), None) => {
                    *reset = Some((now, None));
                    Finding::Reset
                }
                (Some(response), None) => Finding::GiveUp(name, Abort::Refused { response }),
                (None, None) if now.since(*since) >= half => {
                    *reset = Some((now, None));
                    Finding::Reset
                }
                (answer, Some((since, refused))) if refused.is_some() || now.since(since) >= half => {
                    let abort = answer.map_or(Abort::Unanswered, |response| Abort::Refused { response });
                    Finding::GiveUp(name, abort)
                }
                _ => Finding::Fine,
            };
        }
        let is_overdue = |open: &Open| {
            // A cache may have much to write.
            let is_flush = matches!(open.request.cdb, Cdb::SynchronizeCache { .. });
            let limit = if is_flush { timeout * 4 } else { timeout };
            let latest = carrier(open).and_then(|cid| self.latest.get(usize::from(cid)));
            let is_overtaken = latest.is_some_and(|latest| *latest >= open.submitted + limit / 2);
            now.since(open.submitted) >= limit && (is_overtaken || now.since(self.moved) >= limit)
        };
        let overdue = open.iter().filter(|(_, open)| is_overdue(open)).min_by_key(|(_, open)| open.submitted);
        match overdue {
            None => Finding::Fine,
            Some((token, open)) => {
                let (token, name) = (token as u64, open.request.name());
                self.aborting = Some(Aborting { token, since: now, name, response: None, reset: None });
                Finding::Abort(token)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Body, Request};
    use wire::scsi::BlockForm;

    const LIMIT: Duration = Duration::from_secs(10);
    const PATIENCE: Duration = Duration::from_secs(3);

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    fn open(submitted: &[u64]) -> Slab<Open> {
        let cdb = Cdb::Read { form: BlockForm::Ten, lba: 0, blocks: 1, dpo: false, fua: false };
        let open = |&s| Open {
            request: Request { cdb, body: Body::None, offset_bytes: 0 },
            issued: at(s),
            submitted: at(s),
            itt: 0,
            attentions: 0,
            question: None,
        };
        submitted.iter().map(open).enumerate().collect()
    }

    /// Looks at commands of one connection.
    fn check(watch: &mut Watch, now: Instant, open: &Slab<Open>) -> Finding {
        watch.check(now, open, |_| Some(0), (LIMIT, PATIENCE))
    }

    #[test]
    fn a_slow_path_is_no_reason() {
        let (open, mut watch) = (open(&[0, 1, 2]), Watch::new(at(0)));
        for s in 0..100 {
            watch.progress(at(s));
            assert_eq!(check(&mut watch, at(s + 9), &open), Finding::Fine);
        }
        assert_eq!(check(&mut watch, at(109), &open), Finding::Abort(0));
    }

    #[test]
    fn one_that_is_overtaken_for_long_is_overdue() {
        let (open, mut watch) = (open(&[20, 3, 15]), Watch::new(at(0)));
        watch.progress(at(13));
        watch.completed(0, 0, at(7));
        assert_eq!(check(&mut watch, at(13), &open), Finding::Fine);
        watch.completed(0, 0, at(8));
        assert_eq!(check(&mut watch, at(12), &open), Finding::Fine);
        assert_eq!(check(&mut watch, at(13), &open), Finding::Abort(1));
    }

    #[test]
    fn a_faster_connection_overtakes_nobody() {
        let (open, mut watch) = (open(&[0, 9]), Watch::new(at(0)));
        watch.progress(at(19));
        watch.completed(2, 1, at(18));
        let two = |open: &Open| Some(u16::from(open.submitted > at(5)));
        assert_eq!(watch.check(at(20), &open, two, (LIMIT, PATIENCE)), Finding::Abort(1), "the second has");
        let mut watch = Watch::new(at(0));
        watch.progress(at(19));
        watch.completed(2, 1, at(18));
        assert_eq!(watch.check(at(20), &open, |_| Some(0), (LIMIT, PATIENCE)), Finding::Fine);
        assert_eq!(watch.check(at(20), &open, |_| None, (LIMIT, PATIENCE)), Finding::Fine);
    }

    #[test]
    fn an_answer_that_comes_before_the_abort_does_counts() {
        let (both, left, mut watch) = (open(&[0, 9]), open(&[9]), Watch::new(at(0)));
        assert_eq!(check(&mut watch, at(10), &both), Finding::Abort(0));
        watch.progress(at(11));
        watch.completed(1, 0, at(0));
        assert_eq!(check(&mut watch, at(12), &both), Finding::Reset);
        watch.completed(0, 0, at(0));
        watch.answered(0, task_response::NO_SUCH_TASK);
        assert_eq!(check(&mut watch, at(13), &left), Finding::Fine);
    }

    #[test]
    fn what_became_of_the_abort() {
        for (response, expected) in
            [(task_response::COMPLETE, Abort::Done), (task_response::NO_SUCH_TASK, Abort::Done)]
        {
            let (open, mut watch) = (open(&[0]), Watch::new(at(0)));
            watch.answered(0, 0);
            assert_eq!(check(&mut watch, at(10), &open), Finding::Abort(0));
            assert_eq!(check(&mut watch, at(11), &open), Finding::Fine);
            watch.answered(0, response);
            assert_eq!(check(&mut watch, at(13), &open), Finding::GiveUp("READ", expected));
        }
    }

    #[test]
    fn an_abort_that_is_refused_is_no_reason_to_end_what_others_have_asked() {
        for response in [task_response::REJECTED, task_response::NOT_AUTHORIZED, 77] {
            let (open, mut watch) = (open(&[0]), Watch::new(at(0)));
            assert_eq!(check(&mut watch, at(10), &open), Finding::Abort(0));
            watch.answered(0, response);
            let expected = Finding::GiveUp("READ", Abort::Refused { response });
            assert_eq!(check(&mut watch, at(11), &open), expected);
        }
    }

    #[test]
    fn a_target_that_knows_no_abort_is_asked_for_a_reset_at_once() {
        let refused = task_response::NOT_SUPPORTED;
        for (reset, after, expected) in [
            (Some(task_response::COMPLETE), 11, Abort::Reset),
            (Some(refused), 11, Abort::Refused { response: refused }),
            (None, 13, Abort::Refused { response: refused }),
        ] {
            let (open, mut watch) = (open(&[0]), Watch::new(at(0)));
            assert_eq!(check(&mut watch, at(10), &open), Finding::Abort(0));
            watch.answered(0, refused);
            assert_eq!(check(&mut watch, at(11), &open), Finding::Reset);
            if reset.is_none() {
                assert_eq!(check(&mut watch, at(12), &open), Finding::Fine);
            }
            reset.into_iter().for_each(|response| watch.reset_answered(response));
            assert_eq!(check(&mut watch, at(after), &open), Finding::GiveUp("READ", expected));
        }
    }

    #[test]
    fn an_abort_that_is_not_answered_is_followed_by_a_reset() {
        let (complete, refused) = (task_response::COMPLETE, task_response::NOT_SUPPORTED);
        for (abort, reset, expected) in [
            (None, Some(complete), Abort::Reset),
            (None, Some(refused), Abort::Unanswered),
            (None, None, Abort::Unanswered),
            (Some(complete), None, Abort::Done),
            (Some(refused), Some(complete), Abort::Reset),
        ] {
            let (open, mut watch) = (open(&[0]), Watch::new(at(0)));
            watch.reset_answered(complete);
            assert_eq!(check(&mut watch, at(10), &open), Finding::Abort(0));
            watch.reset_answered(complete);
            assert_eq!(check(&mut watch, at(12), &open), Finding::Reset, "after half the time");
            assert_eq!(check(&mut watch, at(13), &open), Finding::Fine, "asked once");
            abort.into_iter().for_each(|response| watch.answered(0, response));
            reset.into_iter().for_each(|response| watch.reset_answered(response));
            assert_eq!(check(&mut watch, at(14), &open), Finding::GiveUp("READ", expected));
        }
    }
}
