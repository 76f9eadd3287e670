//! Commands with parameter data, and commands on a range: reception of the data, second decision, execution.

use block::{Buffer, Composite, Halt, StoreCall};
use proto::target::{Run, TaskId};
use wire::iscsi::Lun as Address;
use wire::scsi::{Sense, Status};

use crate::backend::Backend;
use crate::scsi::{self, Outcome};
use crate::serve::Shared;
use crate::serve::limits::budget::Filled;
use crate::serve::session::state::SessionState;
use crate::serve::session::transfer::{Body, Transfer};
use crate::serve::stores::jobs::Call;
use crate::serve::stores::memory_jobs::Chore;

impl SessionState {
    /// Receives the data of a command that cannot be carried out without. It counts against the session's
    /// share like that of a write.
    pub(crate) fn ask_parameters(&mut self, run: &Run, len_bytes: u32, shared: &mut Shared) {
        let task = run.task;
        // A list or block has exactly one valid length: for any other the meaning would be a guess.
        if run.expected_bytes != len_bytes || len_bytes > 0 && !run.write {
            return self.answer(task, Status::CHECK_CONDITION, Some(Sense::INVALID_FIELD_IN_CDB), 0);
        }
        if len_bytes == 0 {
            let nothing = without_place(task, run.lun, 0, Body::Away);
            return self.run_with(&nothing, &run.cdb, None, shared);
        }
        if !self.may_announce(run.lun, len_bytes, shared) {
            return self.answer(task, Status::TASK_SET_FULL, None, 0);
        }
        let buffer = shared.memory.budget.promise(run.lun.number(), len_bytes);
        let body = Body::Parameters(buffer, run.cdb);
        let token = self.insert(without_place(task, run.lun, len_bytes, body), shared);
        self.receive(task, token, len_bytes, shared);
    }

    /// Executes a command whose parameter data has arrived.
    pub(crate) fn run_with(
        &mut self,
        transfer: &Transfer,
        cdb: &[u8; 16],
        data: Option<Buffer>,
        shared: &mut Shared,
    ) {
        let (task, lun, len_bytes) = (transfer.task, transfer.lun, transfer.len_bytes);
        shared.turn.note_costly();
        let bytes = data.as_deref().unwrap_or_default();
        match scsi::execute_with(&mut shared.luns, lun, self.nexus, cdb, bytes) {
            Outcome::Good => self.answer(task, Status::GOOD, None, len_bytes),
            Outcome::Conflict => self.answer(task, Status::RESERVATION_CONFLICT, None, len_bytes),
            Outcome::Full => self.answer(task, Status::TASK_SET_FULL, None, len_bytes),
            Outcome::Check(sense) => self.answer(task, Status::CHECK_CONDITION, Some(sense), len_bytes),
            Outcome::Preempted { sessions, save } => {
                let transfer = without_place(task, lun, len_bytes, Body::Away);
                self.good_without(transfer, sessions, save, shared);
            }
            Outcome::Sync => self.call(task, lun, len_bytes, StoreCall::Flush.into(), shared),
            // The order has the bytes now, and as many are held as before.
            Outcome::Composite(order) => {
                self.order(task, lun, len_bytes, (order, data.map(Buffer::emptied)), shared);
            }
            Outcome::Keep(save) => self.call(task, lun, len_bytes, Call::Keep(save), shared),
            outcome => unreachable!("with its data a command is decided, found {outcome:?}"),
        }
    }

    /// Carries out a command that came without data.
    pub(crate) fn carry_out(&mut self, run: &Run, order: Composite, shared: &mut Shared) {
        self.order(run.task, run.lun, 0, (order, None), shared);
    }

    /// Submits a store call to a worker for a command without data.
    pub(crate) fn store_call(&mut self, run: &Run, shared: &mut Shared, call: Call) {
        self.call(run.task, run.lun, 0, call, shared);
    }

    fn order(
        &mut self,
        task: TaskId,
        lun: Address,
        sent_bytes: u32,
        (order, counted): (Composite, Option<Buffer>),
        shared: &mut Shared,
    ) {
        let backend = shared.luns.lun_mut(lun).map(crate::lun::Lun::backend_mut);
        let Some(Backend::Inline(inline)) = backend else {
            let halt = Halt::default();
            let mut transfer = without_place(task, lun, sent_bytes, Body::Away);
            transfer.halt = Some(halt.clone());
            let token = self.insert(transfer, shared);
            let call = StoreCall::Composite { composite: order, done_bytes: 0, halt, counted };
            return self.submit(lun, token, call.into(), shared);
        };
        let mut done_bytes = 0;
        // A turn may bring thousands, and each would begin at once.
        let waits = order.is_long() && !shared.work.chores.is_empty();
        match if waits { Ok(false) } else { order.inline(inline, &mut done_bytes) } {
            Ok(true) => self.answer(task, Status::GOOD, None, sent_bytes),
            // The rest of something long, while others get their turn.
            Ok(false) => {
                let token = self.insert(without_place(task, lun, sent_bytes, Body::Away), shared);
                let (side, nexus) = (self.index, self.nexus);
                shared.work.chores.push(Chore {
                    lun,
                    order,
                    side,
                    nexus,
                    token,
                    done_bytes,
                    _counted: counted,
                });
            }
            Err(failure) => self.fail(task, lun, &failure, shared),
        }
    }

    fn call(&mut self, task: TaskId, lun: Address, sent_bytes: u32, call: Call, shared: &mut Shared) {
        let token = self.insert(without_place(task, lun, sent_bytes, Body::Away), shared);
        self.submit(lun, token, call, shared);
    }
}

/// Makes a transfer for parameter data, which have no place on the LUN.
fn without_place(task: TaskId, lun: Address, len_bytes: u32, body: Body) -> Transfer {
    Transfer {
        task,
        lun,
        offset_bytes: 0,
        actual_bytes: len_bytes,
        len_bytes,
        fua: false,
        is_cached: false,
        is_buffered: true,
        halt: None,
        filled: Filled::default(),
        body,
    }
}
