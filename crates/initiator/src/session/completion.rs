//! Completion of commands: results for their callers, and retries of commands that the target refused or ended with a
//! unit attention.

use std::time::Duration;

use event::{Instant, Io};
use net::clock;
use proto::initiator::Completion;
use wire::scsi::{Sense, SenseKey, Status};

use crate::error::{Error, Failure};
use crate::request::Completed;
use crate::session::lun::identity::Attention;
use crate::session::requests::{Open, Refusal};
use crate::session::state::SessionState;

/// Wait before a refused command is issued again: the first wait, and the maximum after doublings.
const REFUSED_MIN: Duration = Duration::from_millis(5);
const REFUSED_MAX: Duration = Duration::from_secs(1);
/// Maximum retries of a command after unit attentions; a target reports each condition once.
const ATTENTIONS_MAX: u8 = 16;

impl SessionState {
    /// Handles the status of a command: retries it, or hands it to its caller.
    pub(crate) fn complete(&mut self, completion: &Completion) -> Result<(), Error> {
        let token = completion.token as usize;
        let sense = Sense::parse(&completion.sense).ok();
        let status = Status(completion.status);
        let open = &mut self.requests.open[token];
        self.watch.completed(completion.token, completion.cid, open.submitted);
        let checked = sense.filter(|_| status == Status::CHECK_CONDITION);
        let attention = checked.filter(is_attention);
        if let Some(attention) = attention
            && open.attentions < ATTENTIONS_MAX
        {
            open.attentions += 1;
            if matches!(attention.asc, 0x29 | 0x2f) {
                self.watch.sweep(self.now);
            }
            open.submitted = Instant::FAR_FUTURE;
            self.records.forget(open.itt);
            self.attend(token, Attention::of(&attention));
            return Ok(());
        }
        let is_aborted = status == Status::TASK_ABORTED || checked.is_some_and(is_aborted);
        let is_early =
            matches!(status, Status::BUSY | Status::TASK_SET_FULL) || checked.is_some_and(is_early);
        // The timeout alone does not bound retries of aborted commands while other commands succeed.
        let may_be_again = is_early || is_aborted && open.attentions < ATTENTIONS_MAX;
        self.requests.has_refused |= matches!(status, Status::BUSY | Status::TASK_SET_FULL);
        if may_be_again && self.may_wait() {
            let open = &mut self.requests.open[token];
            open.attentions += u8::from(is_aborted);
            open.submitted = Instant::FAR_FUTURE;
            self.records.forget(open.itt);
            if status == Status::TASK_SET_FULL {
                self.lun.command_limit.refused(self.session.open_commands());
            }
            self.put_off(token);
            return Ok(());
        }
        self.requests.refusal = None;
        self.lun.command_limit.ended();
        let Open { request, issued, itt, question, .. } = self.requests.open.remove(token);
        if let Some(trail) = &mut self.records.trail {
            trail.ended(itt, status.0);
        }
        self.requests.outstanding_bytes -= request.len_bytes();
        let (response, transferred_bytes) = (completion.response, completion.transferred_bytes);
        let short_bytes = (request.is_exact() && u64::from(transferred_bytes) < request.len_bytes())
            .then_some(transferred_bytes);
        let overflow_bytes = Some(completion.overflow_bytes).filter(|&bytes| request.is_exact() && bytes > 0);
        let result = match (response, status, short_bytes.or(overflow_bytes)) {
            (0, Status::GOOD, None) => Ok(()),
            (0, _, None) if checked.is_some_and(is_done) => Ok(()),
            // A LUN without SYNCHRONIZE CACHE is treated as one without a volatile cache.
            (0, _, None)
                if request.is_flush() && checked.is_some_and(is_unknown) && !self.lun.needs_flush =>
            {
                self.lun.is_without_flush = true;
                Ok(())
            }
            _ => Err(Failure { status, response, sense, short_bytes, overflow_bytes }),
        };
        let completed = self.now;
        let completed = Completed { request, issued, completed, transferred_bytes, result };
        match question {
            Some(index) => self.answered(index, completed)?,
            None => self.requests.finished.push_back(Some(completed)),
        }
        Ok(())
    }

    /// Records the time at which the callers of completed requests are notified.
    pub(crate) fn tell(&mut self) {
        if let Some(trail) = &mut self.records.trail {
            self.now = clock::now();
            trail.tell(self.now);
        }
    }

    /// Records a completed request in the table `io` and returns it for its caller. With tracing, its completion time
    /// is the time of the caller's notification, so that it is the same in all tables.
    pub(crate) fn told(&self, mut completed: Completed) -> Completed {
        if self.records.trail.is_some() {
            completed.completed = self.now;
        }
        if let Some(op) = completed.request.op() {
            self.records.tables.io(&Io {
                issued: completed.issued,
                completed: completed.completed,
                op,
                offset_bytes: completed.request.offset_bytes,
                len_bytes: completed.request.len_bytes() as u32,
                status: completed.result.as_ref().map_or_else(|failure| failure.status.0, |()| 0),
            });
        }
        completed
    }

    /// Notes a refusal for lack of resources; returns `false` if refusals have lasted for the timeout.
    fn may_wait(&mut self) -> bool {
        let now = self.now;
        let refusal =
            self.requests.refusal.get_or_insert(Refusal { since: now, wait: REFUSED_MIN, until: now });
        if now >= refusal.until {
            refusal.until = now + refusal.wait;
            refusal.wait = (refusal.wait * 2).min(REFUSED_MAX);
        }
        now.since(refusal.since) < self.timeout
    }

    /// Time at which refused commands are issued again.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        match self.requests.refusal {
            _ if self.requests.refused.is_empty() => None,
            Some(refusal) => Some(refusal.until),
            None => Some(Instant::ZERO),
        }
    }
}

fn is_attention(sense: &Sense) -> bool {
    sense.key == SenseKey::UnitAttention
}

/// Returns true if the target aborted the command for a reason of its own, so that a retry is allowed.
fn is_aborted(sense: Sense) -> bool {
    sense.key == SenseKey::AbortedCommand && !sense.deferred
}

/// Returns true if the unit is becoming ready (NOT READY): it starts up, or an asymmetric access state changes.
fn is_early(sense: Sense) -> bool {
    sense.key == SenseKey::NotReady
        && !sense.deferred
        && matches!((sense.asc, sense.ascq), (0x04, 0x01 | 0x0a))
}

/// Returns true if the command was executed in spite of its sense data (SPC-4 section 4.5.6).
fn is_done(sense: Sense) -> bool {
    matches!(sense.key, SenseKey::RecoveredError | SenseKey::NoSense) && !sense.deferred
}

/// Returns true if the LUN does not support the operation code.
fn is_unknown(sense: Sense) -> bool {
    (sense.key, sense.asc, sense.ascq) == (SenseKey::IllegalRequest, 0x20, 0x00)
}
