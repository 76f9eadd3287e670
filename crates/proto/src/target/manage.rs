//! Task management requests, and tasks that end without a response (RFC 7143 sections 4.2.3, 11.5, 11.6).
//!
//! The session finds the task that ABORT TASK refers to and keeps CmdSN order. The serving loop knows the units and
//! sessions that a function concerns, and when all ended tasks have released their resources.
//!
//! Deviation from section 4.2.3.3: data solicited for an ended task is received and discarded, but the response does
//! not wait for that data, since most initiators stop the transfer as soon as the request is sent.

use std::collections::HashSet;

use wire::iscsi::{Lun, TaskManagementRequest, TaskManagementResponse, task_function, task_response};

use super::connection::{Connection, ConnectionId, Current, at};
use super::task::{Early, Stage, Task, TaskId, Waiting};
use super::{Event, Session};
use crate::serial::before;

/// Task management requests in progress at once; most are immediate, so the command window does not bound them.
const MANAGED_MAX: usize = 64;

/// Function of a task management request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// ABORT TASK: ends this task.
    AbortTask(TaskId),
    /// ABORT TASK SET: ends all tasks of this session on a unit.
    AbortTaskSet(Lun),
    /// CLEAR TASK SET: ends all tasks of all sessions on a unit.
    ClearTaskSet(Lun),
    /// LOGICAL UNIT RESET: ends all tasks on a unit and restores its initial state.
    LunReset(Lun),
    /// TARGET WARM RESET: resets every unit.
    WarmReset,
    /// TARGET COLD RESET: resets every unit and ends every session.
    ColdReset,
}

impl Session {
    pub(super) fn manage(&mut self, connection: ConnectionId, request: &TaskManagementRequest) {
        let function = match request.function {
            task_function::ABORT_TASK => match self.abort_target(request) {
                Ok(Some(task)) => Function::AbortTask(task),
                Ok(None) => return self.end_managing(connection, request.itt, task_response::COMPLETE),
                Err(response) => return self.end_managing(connection, request.itt, response),
            },
            task_function::ABORT_TASK_SET => Function::AbortTaskSet(request.lun),
            task_function::CLEAR_TASK_SET => Function::ClearTaskSet(request.lun),
            task_function::LOGICAL_UNIT_RESET => Function::LunReset(request.lun),
            task_function::TARGET_WARM_RESET => Function::WarmReset,
            task_function::TARGET_COLD_RESET => Function::ColdReset,
            task_function::TASK_REASSIGN => {
                return self.end_managing(connection, request.itt, task_response::REASSIGN_NOT_SUPPORTED);
            }
            // There is no ACA to clear: NACA is not supported.
            _ => return self.end_managing(connection, request.itt, task_response::NOT_SUPPORTED),
        };
        if self.managed >= MANAGED_MAX {
            return self.end_managing(connection, request.itt, task_response::REJECTED);
        }
        // An initiator with a used-up window sends the request with the CmdSN behind the window.
        let (exp_cmd_sn, last_cmd_sn) = (self.window.exp_cmd_sn(), self.window.max_cmd_sn().wrapping_add(1));
        let is_early = before(exp_cmd_sn, request.cmd_sn) && !before(last_cmd_sn, request.cmd_sn);
        let is_one = matches!(function, Function::AbortTask(_));
        if request.immediate && self.has_joined && is_early && !is_one {
            if self.managed + self.waiting.len() >= MANAGED_MAX {
                return self.end_managing(connection, request.itt, task_response::REJECTED);
            }
            self.waiting.push(Waiting { connection, request: *request });
            return;
        }
        self.managed += 1;
        let (itt, cmd_sn) = (request.itt, request.cmd_sn);
        self.events.push_back(Event::Manage { connection, itt, function, cmd_sn });
    }

    /// Answers [`Event::Manage`] with a value of [`task_response`], when the serving loop has released every task that
    /// the function ended.
    pub fn answer_manage(&mut self, connection: ConnectionId, itt: u32, response: u8) {
        self.managed = self.managed.saturating_sub(1);
        self.end_managing(connection, itt, response);
    }

    fn end_managing(&mut self, connection: ConnectionId, itt: u32, response: u8) {
        let (stat_sn, exp_cmd_sn, max_cmd_sn) = (0, 0, 0);
        let response = TaskManagementResponse { response, itt, stat_sn, exp_cmd_sn, max_cmd_sn };
        // The connection of the request may have left meanwhile.
        let asked = self.connections.iter_mut().find(|asked| asked.id == connection && !asked.logged_out);
        if let Some(asked) = asked {
            asked.urgent.push(response, Vec::new());
        }
    }

    /// Carries out waiting task management requests whose preceding commands have all arrived (section 4.2.3.3).
    pub(super) fn run_waiting(&mut self) {
        let exp_cmd_sn = self.window.exp_cmd_sn();
        let has_turn = |waiting: &Waiting| !before(exp_cmd_sn, waiting.request.cmd_sn);
        let ready: Vec<_> = self.waiting.extract_if(.., |waiting| has_turn(waiting)).collect();
        for Waiting { connection, request } in ready {
            self.manage(connection, &request);
        }
    }

    /// The task that ABORT TASK refers to; `None` if the command has not arrived: its CmdSN counts as received from now
    /// on (section 11.6.1).
    fn abort_target(&mut self, request: &TaskManagementRequest) -> Result<Option<TaskId>, u8> {
        if let Some(&key) = self.by_itt.get(&request.referenced_itt) {
            let is_same = same_unit(self.tasks[key].lun, request.lun);
            return if is_same { Ok(Some(TaskId(key as u32))) } else { Err(task_response::NO_SUCH_TASK) };
        }
        let cmd_sn = request.ref_cmd_sn;
        let is_missing = self.window.admits(cmd_sn) && !self.early.contains_key(&cmd_sn);
        if !is_missing || !before(cmd_sn, request.cmd_sn) {
            return Err(task_response::NO_SUCH_TASK);
        }
        // The caller then runs the commands that have become due.
        self.early.insert(cmd_sn, Early::Skipped);
        Ok(None)
    }

    /// Ends one task without a response. The serving loop releases its resources of the task and then calls
    /// [`Session::forget`]. Returns false if there is nothing to forget.
    pub fn abort(&mut self, task: TaskId) -> bool {
        let is_left = self.stop(task);
        self.send_without_stopped();
        is_left
    }

    /// Like [`Session::abort`], without removal from the queues of sending tasks: one pass removes all stopped tasks.
    fn stop(&mut self, task: TaskId) -> bool {
        let key = task.0 as usize;
        let Some(task) = self.tasks.get_mut(key) else { return false };
        match &task.stage {
            Stage::Early => {
                self.early.insert(task.cmd_sn, Early::Skipped);
                self.close(key);
                return false;
            }
            Stage::Draining(_) => {
                self.close(key);
                return false;
            }
            Stage::Sending(sending) => {
                let at = at(&mut self.connections, task.connection);
                if !at.logged_out {
                    at.unsent_bytes -= u64::from(sending.end_bytes - sending.next_bytes);
                    at.made_bytes -= sending.made_bytes();
                }
            }
            Stage::Running | Stage::Receiving { .. } | Stage::Aborted => {}
        }
        task.stage = Stage::Aborted;
        true
    }

    /// Ends all tasks on a unit, or on all units, without a response. Returns the tasks to forget, see
    /// [`Session::abort`]: ended tasks that are not forgotten yet are included, tasks ahead of their CmdSN order are
    /// not. `cmd_sn` is the CmdSN of the request, if this session sent the request: its response covers commands with a
    /// smaller CmdSN (section 11.5.1). Later commands are still answered, though they may have arrived earlier on
    /// another connection.
    pub fn abort_all(&mut self, lun: Option<Lun>, cmd_sn: Option<u32>) -> Vec<TaskId> {
        // Commands not yet reported to the serving loop came after the request, which was reported in CmdSN order.
        let untold = |event: &Event| match event {
            Event::Run(run) => Some(run.task),
            _ => None,
        };
        let untold: HashSet<TaskId> = self.events.iter().filter_map(untold).collect();
        self.abort_those(|id, task| {
            let has_begun = !untold.contains(&id) && !matches!(task.stage, Stage::Early);
            // An immediate command carries the CmdSN of the next command.
            let is_covered = |cmd_sn| before(task.cmd_sn, cmd_sn) || !task.counted && task.cmd_sn == cmd_sn;
            has_begun && cmd_sn.is_none_or(is_covered) && lun.is_none_or(|lun| same_unit(task.lun, lun))
        })
    }

    pub(super) fn abort_those(&mut self, concerns: impl Fn(TaskId, &Task) -> bool) -> Vec<TaskId> {
        let all = self.tasks.iter().map(|(key, task)| (TaskId(key as u32), task));
        let mut all: Vec<_> = all.filter(|(id, task)| concerns(*id, task)).map(|(id, _)| id).collect();
        all.retain(|task| self.stop(*task));
        self.send_without_stopped();
        all
    }

    fn send_without_stopped(&mut self) {
        let is_sending =
            |key: &usize| matches!(self.tasks.get(*key), Some(Task { stage: Stage::Sending(_), .. }));
        self.connections.iter_mut().for_each(|connection| connection.sending.retain(is_sending));
    }

    /// Removes an aborted task that the serving loop has released, with its events; the task gets no response.
    pub fn forget(&mut self, task: TaskId) {
        self.events.retain(|event| event.task() != Some(task));
        self.close(task.0 as usize);
    }

    /// Removes many tasks at once; see [`Session::forget`].
    pub fn forget_all(&mut self, tasks: &HashSet<TaskId>) {
        self.events.retain(|event| event.task().is_none_or(|task| !tasks.contains(&task)));
        tasks.iter().for_each(|task| self.close(task.0 as usize));
    }

    /// Returns true for the tags of a burst that belongs to an ended task.
    pub(super) fn is_forgotten(&self, connection: ConnectionId, itt: u32, ttt: u32) -> bool {
        self.forgotten.has(connection, itt, ttt)
    }

    /// Removes a task from the tables; its data in flight will be received and discarded.
    pub(super) fn close(&mut self, key: usize) {
        let task = self.tasks.remove(key);
        // The tag may be reused after the loss of the connection of this task.
        if self.by_itt.get(&task.itt) == Some(&key) {
            self.by_itt.remove(&task.itt);
        }
        self.early_bytes -= task.early.len();
        let own = self.connections.iter_mut().find(|connection| connection.id == task.connection);
        if let Some(Connection { current, .. }) = own
            && matches!(current, Current::Task(current) if *current == key)
        {
            *current = Current::Ignored;
        }
        for burst in task.bursts.iter().filter(|burst| burst.next_bytes < burst.end_bytes) {
            self.forgotten.add(task.connection, task.itt, burst.ttt);
        }
        match task.stage {
            // Its CmdSN is released when it is due.
            Stage::Early => {}
            _ if task.counted => self.window.complete(),
            _ => self.immediate -= 1,
        }
    }
}

/// Returns true if two LUNs address one unit; a LUN has more than one encoding.
fn same_unit(one: Lun, other: Lun) -> bool {
    one == other || one.number().is_some() && one.number() == other.number()
}
