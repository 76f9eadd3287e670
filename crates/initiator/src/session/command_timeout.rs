//! Detection of commands that are never answered although the target is alive. Such a command is aborted (RFC 7143
//! section 11.5.1, ABORT TASK), and the session is given up. If the target does not support the abort or does not
//! answer, the LUN is reset first (LOGICAL UNIT RESET), so that no data of the command arrive later. A LUN reset also
//! ends the tasks of other initiators, so an abort that is refused for another reason is not followed by a reset. After
//! a unit attention that other commands may have been ended, older commands are checked sooner, and are issued again
//! once their abort is done.
//!
//! A slow path does not make a command overdue. A command is overdue only if its connection makes no progress at all,
//! or if commands submitted much later have completed before it on the same connection. Progress on other connections
//! does not count: they may be much faster, and do not stall when this connection has lost data.

use std::time::Duration;

use event::Instant;
use slab::Slab;
use wire::iscsi::task_response;

use crate::error::Abort;
use crate::options::FLUSH_TIMES;
use crate::session::requests::Open;

/// Returns true if a flush is outstanding.
pub(crate) fn is_flushing(open: &Slab<Open>) -> bool {
    open.iter().any(|(_, open)| open.request.is_flush())
}

/// Progress of a session's commands.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Time of the last data or status, on any connection.
    moved: Instant,
    /// Progress by CID, up to the highest connection that has carried a command.
    ways: Vec<Way>,
    aborting: Option<Aborting>,
    /// Time of the last unit attention that commands may have been ended without a status.
    swept: Instant,
}

/// Progress of a connection's commands.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Time of the last data or status on the connection, or the last time at which nothing was outstanding on it.
    moved: Instant,
    /// Latest time of submission among the completed commands.
    latest: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Aborting {
    token: u64,
    since: Instant,
    /// Time limit that the command exceeded.
    limit: Duration,
    name: &'static str,
    response: Option<u8>,
    /// LUN reset after an abort that is unsupported or unanswered: time of the request, and its response.
    reset: Option<(Instant, Option<u8>)>,
}

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    /// Nothing is overdue.
    Fine,
    /// Abort this command.
    Abort(u64),
    /// Reset the LUN.
    Reset,
    /// Give up the session: the named command was not answered, and its abort had this outcome.
    GiveUp(&'static str, Abort),
}

impl Watch {
    pub(crate) fn new(now: Instant) -> Watch {
        Watch { moved: now, ways: Vec::new(), aborting: None, swept: Instant::ZERO }
    }

    /// Starts measuring: nothing was outstanding until now.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.moved = now;
        self.ways.iter_mut().for_each(|way| way.moved = now);
    }

    /// Notes data or a status on a connection.
    pub(crate) fn progress(&mut self, cid: u16, now: Instant) {
        self.moved = now;
        self.way(cid).moved = now;
    }

    fn way(&mut self, cid: u16) -> &mut Way {
        let (cid, fresh) = (usize::from(cid), Way { moved: self.moved, latest: Instant::ZERO });
        if self.ways.len() <= cid {
            self.ways.resize(cid + 1, fresh);
        }
        &mut self.ways[cid]
    }

    /// Notes the completion of a command on a connection, with the time of its submission. An abort of the command is
    /// dropped.
    pub(crate) fn completed(&mut self, token: u64, cid: u16, submitted: Instant) {
        let way = self.way(cid);
        way.latest = way.latest.max(submitted);
        self.aborting = self.aborting.filter(|aborting| aborting.token != token);
    }

    /// Notes a unit attention that another initiator, or a reset, has ended commands.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.swept = now;
    }

    /// Handles the end of an aborted command. Returns true if the command had been ended by another initiator or a
    /// reset, and is to be issued again.
    pub(crate) fn let_go(&mut self, token: u64, open: &Open) -> bool {
        let is_swept = |aborting: &mut Aborting| {
            aborting.token == token && aborting.reset.is_none() && open.submitted < self.swept
        };
        self.aborting.take_if(is_swept).is_some()
    }

    /// Notes the response to an abort.
    pub(crate) fn answered(&mut self, token: u64, response: u8) {
        if let Some(aborting) = self.aborting.as_mut().filter(|aborting| aborting.token == token) {
            aborting.response = Some(response);
        }
    }

    /// Returns true if an abort is pending: the session is given up unless the command is answered.
    pub(crate) fn is_aborting(&self) -> bool {
        self.aborting.is_some()
    }

    /// Time limit of the command that is being aborted.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.aborting.map(|aborting| aborting.limit)
    }

    /// Notes the response to the LUN reset.
    pub(crate) fn reset_answered(&mut self, response: u8) {
        if let Some(Aborting { reset: Some((_, answer)), .. }) = &mut self.aborting {
            *answer = Some(response);
        }
    }

    /// Checks the time limits. `carrier` returns the connection of a command; `patience` is the maximum time of an
    /// abort and a reset together.
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
        self.rest(now, open, &carrier);
        // A cache may have much to write, and concurrent writes wait for the flush.
        let limit = if is_flushing(open) { timeout * FLUSH_TIMES } else { timeout };
        let swept = self.swept;
        let limit_of = |open: &Open| if open.submitted < swept { limit.min(patience) } else { limit };
        let is_overdue = |open: &Open| {
            let limit = limit_of(open);
            // A command without a connection is released by the target's command window, which moves on any connection.
            let way = carrier(open).and_then(|cid| self.ways.get(usize::from(cid)));
            let is_overtaken = way.is_some_and(|way| way.latest >= open.submitted + limit / 2);
            let moved = way.map_or(self.moved, |way| way.moved);
            now.since(open.submitted) >= limit && (is_overtaken || now.since(moved) >= limit)
        };
        let overdue = open.iter().filter(|(_, open)| is_overdue(open)).min_by_key(|(_, open)| open.submitted);
        match overdue {
            None => Finding::Fine,
            Some((token, open)) => {
                let (token, limit, name) = (token as u64, limit_of(open), open.request.name());
                self.aborting =
                    Some(Aborting { token, since: now, limit, name, response: None, reset: None });
                Finding::Abort(token)
            }
        }
    }

    /// Restarts the time limit of connections without outstanding commands.
    fn rest(&mut self, now: Instant, open: &Slab<Open>, carrier: impl Fn(&Open) -> Option<u16>) {
        let mut owes = vec![false; self.ways.len()];
        for cid in open.iter().filter_map(|(_, open)| carrier(open)) {
            let place = usize::from(cid);
            if owes.len() <= place {
                self.way(cid);
                owes.resize(place + 1, false);
            }
            owes[place] = true;
        }
        for (way, owes) in self.ways.iter_mut().zip(owes) {
            if !owes {
                way.moved = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Body, Request};
    use wire::scsi::{BlockForm, Cdb};

    const LIMIT: Duration = Duration::from_secs(10);
    const PATIENCE: Duration = Duration::from_secs(3);

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    fn open(submitted: &[u64]) -> Slab<Open> {
        let cdb = Cdb::Read { form: BlockForm::Ten, lba: 0, blocks: 1, dpo: false, fua: false };
        let open = |&s| Open {
            request: Request { cdb, body: Body::None, offset_bytes: 0, tag: 0 },
            issued: at(s),
            submitted: at(s),
            itt: 0,
            attentions: 0,
            question: None,
        };
        submitted.iter().map(open).enumerate().collect()
    }

    /// Checks commands of one connection.
    fn check(watch: &mut Watch, now: Instant, open: &Slab<Open>) -> Finding {
        watch.check(now, open, |_| Some(0), (LIMIT, PATIENCE))
    }

    #[test]
    fn a_slow_path_is_no_reason() {
        let (open, mut watch) = (open(&[0, 1, 2]), Watch::new(at(0)));
        for s in 0..100 {
            watch.progress(0, at(s));
            assert_eq!(check(&mut watch, at(s + 9), &open), Finding::Fine);
        }
        assert_eq!(check(&mut watch, at(109), &open), Finding::Abort(0));
    }

    #[test]
    fn one_that_is_overtaken_for_long_is_overdue() {
        let (open, mut watch) = (open(&[20, 3, 15]), Watch::new(at(0)));
        watch.progress(0, at(13));
        watch.completed(0, 0, at(7));
        assert_eq!(check(&mut watch, at(13), &open), Finding::Fine);
        watch.completed(0, 0, at(8));
        assert_eq!(check(&mut watch, at(12), &open), Finding::Fine);
        assert_eq!(check(&mut watch, at(13), &open), Finding::Abort(1));
    }

    #[test]
    fn a_faster_connection_overtakes_nobody() {
        let open = open(&[0, 9]);
        let seen = || {
            let mut watch = Watch::new(at(0));
            (0..2).for_each(|cid| watch.progress(cid, at(19)));
            watch.completed(2, 1, at(18));
            watch
        };
        let two = |open: &Open| Some(u16::from(open.submitted > at(5)));
        let both = (LIMIT, PATIENCE);
        assert_eq!(seen().check(at(20), &open, two, both), Finding::Abort(1), "the second has");
        assert_eq!(seen().check(at(20), &open, |_| Some(0), both), Finding::Fine);
        assert_eq!(seen().check(at(20), &open, |_| None, both), Finding::Fine);
    }

    #[test]
    fn another_connection_that_moves_is_no_sign_of_one_that_has_lost_something() {
        let (open, mut watch) = (open(&[0, 9]), Watch::new(at(0)));
        let two = |open: &Open| Some(u16::from(open.submitted > at(5)));
        for s in 0..10 {
            watch.progress(1, at(s));
            assert_eq!(watch.check(at(s), &open, two, (LIMIT, PATIENCE)), Finding::Fine, "{s}");
        }
        watch.progress(1, at(10));
        assert_eq!(watch.check(at(10), &open, two, (LIMIT, PATIENCE)), Finding::Abort(0));
    }

    #[test]
    fn what_waited_for_a_connection_is_late_from_when_it_has_one() {
        let (open, mut watch) = (open(&[0]), Watch::new(at(0)));
        for s in 0..9 {
            watch.progress(1, at(s));
            assert_eq!(watch.check(at(s), &open, |_| None, (LIMIT, PATIENCE)), Finding::Fine);
        }
        assert_eq!(watch.check(at(9), &open, |_| None, (LIMIT, PATIENCE)), Finding::Fine, "0 is at rest");
        assert_eq!(watch.check(at(18), &open, |_| Some(0), (LIMIT, PATIENCE)), Finding::Fine);
        assert_eq!(watch.check(at(19), &open, |_| Some(0), (LIMIT, PATIENCE)), Finding::Abort(0));
    }

    #[test]
    fn what_others_may_have_ended_is_looked_after_sooner() {
        let (mut open, mut watch) = (open(&[0, 2]), Watch::new(at(0)));
        watch.sweep(at(1));
        assert_eq!(check(&mut watch, at(2), &open), Finding::Fine);
        assert_eq!(check(&mut watch, at(3), &open), Finding::Abort(0));
        assert!(!watch.let_go(1, &open[0]), "another");
        assert!(watch.let_go(0, &open[0]) && !watch.is_aborting());
        // Commands submitted after the unit attention have the usual time limit, and the session is given up.
        open.remove(0);
        assert_eq!(check(&mut watch, at(11), &open), Finding::Fine);
        assert_eq!(check(&mut watch, at(12), &open), Finding::Abort(1));
        assert!(!watch.let_go(1, &open[1]) && watch.is_aborting());
    }

    #[test]
    fn what_waits_for_a_flush_has_as_long_as_that() {
        let (mut open, mut watch) = (open(&[0, 1]), Watch::new(at(0)));
        let cdb = Cdb::SynchronizeCache { form: BlockForm::Ten, lba: 0, blocks: 0, immed: false };
        open[1].request.cdb = cdb;
        assert_eq!(check(&mut watch, at(39), &open), Finding::Fine);
        assert_eq!(check(&mut watch.clone(), at(40), &open), Finding::Abort(0));
        open.remove(1);
        assert_eq!(check(&mut watch, at(39), &open), Finding::Abort(0), "it is over");
    }

    #[test]
    fn an_answer_that_comes_before_the_abort_does_counts() {
        let (both, left, mut watch) = (open(&[0, 9]), open(&[9]), Watch::new(at(0)));
        assert_eq!(check(&mut watch, at(10), &both), Finding::Abort(0));
        watch.progress(0, at(11));
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
