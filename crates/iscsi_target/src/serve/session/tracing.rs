//! Events of a session for the trace of its requests.

use event::{FarTimes, Instant, Op};
use net::clock;
use proto::target::{Run, TaskId};

use crate::scsi;
use crate::serve::session::state::SessionState;

impl SessionState {
    /// Notes that a command has its turn.
    pub(crate) fn note_turn(&mut self, run: &Run) {
        if let (Some(trail), Some(itt)) = (&mut self.trail, self.session.tag(run.task)) {
            trail.turn(itt);
        }
    }

    /// Begins the trace of a read or write.
    pub(crate) fn note_request(&mut self, run: &Run, op: Op, range: &scsi::Transfer, len_bytes: u32) {
        if let Some(trail) = &mut self.trail {
            trail.begin(op, run.lun.number().unwrap_or(0), range.offset_bytes, len_bytes);
        }
    }

    /// Notes an event of a request at the last reading of the clock.
    pub(crate) fn note(&mut self, task: TaskId, set: impl FnOnce(&mut FarTimes, Instant)) {
        if let Some(trail) = &mut self.trail
            && let Some(itt) = self.session.tag(task)
        {
            trail.note(itt, set);
        }
    }

    /// Notes that a store has completed a call, at this time on its own thread.
    pub(crate) fn note_stored(&mut self, task: TaskId, ended: Option<Instant>) {
        if let (Some(trail), Some(ended)) = (&mut self.trail, ended) {
            trail.look(clock::now());
            self.note(task, |times, _| times.store_end = ended);
        }
    }

    /// Tasks have ended without an answer.
    pub(crate) fn note_ended(&mut self, tasks: &[TaskId]) {
        let Some(trail) = &mut self.trail else { return };
        for itt in tasks.iter().filter_map(|task| self.session.tag(*task)) {
            trail.end(itt);
        }
    }
}
