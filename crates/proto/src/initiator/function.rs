//! Task management of the initiator (RFC 7143 sections 4.2.3.3, 11.5 and 11.6): requests to abort tasks, and the tasks
//! that will have no answer afterwards.

use wire::iscsi::{
    Lun, RESERVED_TAG, TaskManagementRequest, TaskManagementResponse, task_function, task_response,
};

use super::{Event, Session};
use crate::fault::Fault;
use crate::serial::before;

/// Task management function. TASK REASSIGN is missing: it needs error recovery level 2, which this initiator never
/// negotiates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// Aborts one command of this session.
    AbortTask {
        /// Token of the command, chosen by the caller.
        token: u64,
    },
    /// Aborts all commands of this session for a unit.
    AbortTaskSet {
        /// The unit.
        lun: Lun,
    },
    /// Ends the auto contingent allegiance of a unit.
    ClearAca {
        /// The unit.
        lun: Lun,
    },
    /// Aborts the commands of all initiators for a unit.
    ClearTaskSet {
        /// The unit.
        lun: Lun,
    },
    /// Resets a unit, for all initiators.
    LogicalUnitReset {
        /// The unit.
        lun: Lun,
    },
    /// Resets all units of the target.
    TargetWarmReset,
    /// Resets the target, which then closes all connections.
    TargetColdReset,
}

/// A function without a response yet.
#[derive(Debug)]
pub(super) struct Asked {
    function: Function,
    itt: u32,
    /// The connection that carries the request.
    cid: u16,
    /// ITT of the task to abort: the caller's token may name another task by now.
    referenced_itt: u32,
    /// CmdSN of the request, once it has been polled: the function concerns the commands before it.
    cmd_sn: Option<u32>,
}

impl Function {
    fn code(self) -> u8 {
        match self {
            Function::AbortTask { .. } => task_function::ABORT_TASK,
            Function::AbortTaskSet { .. } => task_function::ABORT_TASK_SET,
            Function::ClearAca { .. } => task_function::CLEAR_ACA,
            Function::ClearTaskSet { .. } => task_function::CLEAR_TASK_SET,
            Function::LogicalUnitReset { .. } => task_function::LOGICAL_UNIT_RESET,
            Function::TargetWarmReset => task_function::TARGET_WARM_RESET,
            Function::TargetColdReset => task_function::TARGET_COLD_RESET,
        }
    }
}

impl Session {
    /// Requests a task management function; [`Event::Managed`] follows, after an [`Event::Aborted`] for every command
    /// that it ended. A queued command is ended without a request; a command that is no longer open is reported as
    /// [`task_response::NO_SUCH_TASK`].
    pub fn manage(&mut self, function: Function) {
        let (mut cid, mut lun, mut referenced_itt, mut ref_cmd_sn) = (0, Lun(0), RESERVED_TAG, 0);
        match function {
            Function::AbortTask { token } => {
                let found = self.tasks.iter().find(|(_, task)| task.command.token == token);
                let Some((key, task)) = found else {
                    let response = task_response::NO_SUCH_TASK;
                    return self.events.push_back(Event::Managed { function, response });
                };
                if !task.is_sent {
                    self.abort(key, true);
                    let response = task_response::COMPLETE;
                    return self.events.push_back(Event::Managed { function, response });
                }
                // A task is managed on the connection of its command.
                (cid, lun, referenced_itt, ref_cmd_sn) = (task.cid, task.command.lun, task.itt, task.cmd_sn);
            }
            Function::AbortTaskSet { lun: of }
            | Function::ClearAca { lun: of }
            | Function::ClearTaskSet { lun: of }
            | Function::LogicalUnitReset { lun: of } => lun = of,
            Function::TargetWarmReset | Function::TargetColdReset => {}
        }
        let itt = self.service_tag(0x3000);
        let request = TaskManagementRequest {
            immediate: true,
            function: function.code(),
            lun,
            itt,
            referenced_itt,
            cmd_sn: 0,
            exp_stat_sn: 0,
            ref_cmd_sn,
            exp_data_sn: 0,
        };
        self.asked.push(Asked { function, itt, cid, referenced_itt, cmd_sn: None });
        self.connections[usize::from(cid)].urgent.push(request, Vec::new());
    }

    /// Stores the CmdSN of the request for a function, which has been polled.
    pub(super) fn note_asked(&mut self, itt: u32, cmd_sn: u32) {
        if let Some(asked) = self.asked.iter_mut().find(|asked| asked.itt == itt) {
            asked.cmd_sn = Some(cmd_sn);
        }
    }

    pub(super) fn handle_function(
        &mut self,
        cid: u16,
        response: &TaskManagementResponse,
    ) -> Result<(), Fault> {
        let is_ours = |asked: &Asked| asked.itt == response.itt && asked.cid == cid && asked.cmd_sn.is_some();
        let Some(index) = self.asked.iter().position(is_ours) else {
            return Err(Fault::contradiction("it answers a function that was not asked for", response.itt));
        };
        self.numbers(cid, Some(response.stat_sn), response.exp_cmd_sn, response.max_cmd_sn);
        let Asked { function, referenced_itt, cmd_sn, .. } = self.asked.remove(index);
        let ended: Vec<usize> = self
            .tasks
            .iter()
            .filter(|(_, task)| {
                let was_there = task.is_sent && cmd_sn.is_some_and(|cmd_sn| before(task.cmd_sn, cmd_sn));
                match (function, response.response) {
                    // A task unknown to the target will not be answered either.
                    (Function::AbortTask { .. }, task_response::COMPLETE | task_response::NO_SUCH_TASK) => {
                        task.itt == referenced_itt
                    }
                    (
                        Function::AbortTaskSet { lun }
                        | Function::ClearTaskSet { lun }
                        | Function::LogicalUnitReset { lun },
                        task_response::COMPLETE,
                    ) => was_there && task.command.lun == lun,
                    (Function::TargetWarmReset | Function::TargetColdReset, task_response::COMPLETE) => {
                        was_there
                    }
                    _ => false,
                }
            })
            .map(|(key, _)| key)
            .collect();
        for key in ended {
            self.abort(key, self.tasks[key].cid == cid);
        }
        self.events.push_back(Event::Managed { function, response: response.response });
        Ok(())
    }

    fn abort(&mut self, key: usize, is_fenced: bool) {
        let task = self.remove(key);
        self.events.push_back(Event::Aborted { token: task.command.token, is_fenced });
    }
}
