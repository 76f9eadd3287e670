//! Task management: what a request asks for, and tasks that end without an answer (RFC 7143 sections 4.2.3, 11.5,
//! 11.6).
//!
//! The machine finds the task that ABORT TASK means and keeps CmdSN in order; which units and sessions a function
//! concerns, and when everything it ends has come to rest, is the serving loop's to know.
//!
//! Deviation from section 4.2.3.3: data that was sent for on behalf of an ended task is taken and forgotten, but not
//! waited for, since most initiators stop sending it as soon as they have asked for the end.

use std::collections::HashSet;

use wire::iscsi::{Lun, TaskManagementRequest, TaskManagementResponse, task_function, task_response};

use super::connection::{Connection, ConnectionId, Current, at};
use super::task::{Early, Stage, Task, TaskId, Waiting};
use super::{Event, Session};
use crate::serial::before;

/// Requests that may be under way at once; they are as a rule immediate, so the window does not bound them.
const MANAGED_MAX: usize = 64;

/// What a task management request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// End this task.
    AbortTask(TaskId),
    /// End all tasks of this session on a unit.
    AbortTaskSet(Lun),
    /// End all tasks of all sessions on a unit.
    ClearTaskSet(Lun),
    /// The same, and the unit is as it was at first.
    LunReset(Lun),
    /// That for every unit.
    WarmReset,
    /// That, and every session ends.
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
        // A sender that has used up its window gives it the number behind.
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

    /// Answers [`Event::Manage`] with a value of [`task_response`], when every task that the function ended has
    /// been let go of.
    pub fn answer_manage(&mut self, connection: ConnectionId, itt: u32, response: u8) {
        self.managed = self.managed.saturating_sub(1);
        self.end_managing(connection, itt, response);
    }

    fn end_managing(&mut self, connection: ConnectionId, itt: u32, response: u8) {
        let (stat_sn, exp_cmd_sn, max_cmd_sn) = (0, 0, 0);
        let response = TaskManagementResponse { response, itt, stat_sn, exp_cmd_sn, max_cmd_sn };
        // Who asked may have left meanwhile.
        let asked = self.connections.iter_mut().find(|asked| asked.id == connection && !asked.logged_out);
        if let Some(asked) = asked {
            asked.urgent.push(response, Vec::new());
        }
    }

    /// Requests to end tasks, the last of which has come by now (section 4.2.3.3).
    pub(super) fn run_waiting(&mut self) {
        let exp_cmd_sn = self.window.exp_cmd_sn();
        let has_turn = |waiting: &Waiting| !before(exp_cmd_sn, waiting.request.cmd_sn);
        let ready: Vec<_> = self.waiting.extract_if(.., |waiting| has_turn(waiting)).collect();
        for Waiting { connection, request } in ready {
            self.manage(connection, &request);
        }
    }

    /// The task that ABORT TASK means; `None` if it has not come and, from now on, counts as received (section
    /// 11.6.1).
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
        // Whoever handles the request goes on with what has its turn now.
        self.early.insert(cmd_sn, Early::Skipped);
        Ok(None)
    }

    /// Ends one task without an answer. What the serving loop still has of it is its to end:
    /// [`Session::forget`] when it has. False if there is nothing to forget.
    pub fn abort(&mut self, task: TaskId) -> bool {
        let is_left = self.stop(task);
        self.send_without_stopped();
        is_left
    }

    /// [`Session::abort`], but for the list of those that send: it is looked through once for all.
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

    /// Ends all tasks on a unit, or on all units, without an answer; those to be forgotten, see
    /// [`Session::abort`]. A task that was ended before and is not forgotten yet is among them, one whose turn has
    /// not come is not. `cmd_sn` is that of the request, if it came from this session: its response covers what has
    /// a smaller one (section 11.5.1), and the rest is still answered, though it may have come before on another
    /// connection.
    pub fn abort_all(&mut self, lun: Option<Lun>, cmd_sn: Option<u32>) -> Vec<TaskId> {
        // What the serving loop has not been told of came after the request: that was told in its turn.
        let untold = |event: &Event| match event {
            Event::Run(run) => Some(run.task),
            _ => None,
        };
        let untold: HashSet<TaskId> = self.events.iter().filter_map(untold).collect();
        self.abort_those(|id, task| {
            let has_begun = !untold.contains(&id) && !matches!(task.stage, Stage::Early);
            // An immediate command has the number of the next one.
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

    /// Drops an aborted task that the serving loop has released, with its events; it gets no answer.
    pub fn forget(&mut self, task: TaskId) {
        self.events.retain(|event| event.task() != Some(task));
        self.close(task.0 as usize);
    }

    /// Drops many tasks at once; see [`Session::forget`].
    pub fn forget_all(&mut self, tasks: &HashSet<TaskId>) {
        self.events.retain(|event| event.task().is_none_or(|task| !tasks.contains(&task)));
        tasks.iter().for_each(|task| self.close(task.0 as usize));
    }

    /// Whether this is data for a task that was ended.
    pub(super) fn is_forgotten(&self, connection: ConnectionId, itt: u32, ttt: u32) -> bool {
        self.forgotten.has(connection, itt, ttt)
    }

    /// Takes a task out of the tables; its data that is still on its way will be taken and forgotten.
    pub(super) fn close(&mut self, key: usize) {
        let task = self.tasks.remove(key);
        // The tag may be in use again, after the connection was lost on which this task came.
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
            // Its number is given back when its turn comes.
            Stage::Early => {}
            _ if task.counted => self.window.complete(),
            _ => self.immediate -= 1,
        }
    }
}

/// Two addresses of one unit; it may be written in more than one way.
fn same_unit(one: Lun, other: Lun) -> bool {
    one == other || one.number().is_some() && one.number() == other.number()
}
