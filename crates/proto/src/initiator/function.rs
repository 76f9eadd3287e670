//! Task management of the initiator (RFC 7143 sections 4.2.3.3, 11.5 and 11.6): asking the target to give
//! tasks up, and knowing afterwards which of them will never be answered.

use wire::iscsi::{
    Lun, RESERVED_TAG, TaskManagementRequest, TaskManagementResponse, task_function, task_response,
};

use super::{Event, Session};
use crate::fault::Fault;
use crate::serial::before;

/// What a target can be asked to do with tasks. TASK REASSIGN is not among them: it needs error recovery
/// level 2, which we never agree to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// Give up one command of ours.
    AbortTask {
        /// The caller's name of it.
        token: u64,
    },
    /// Give up all commands of this session for a unit.
    AbortTaskSet {
        /// The unit.
        lun: Lun,
    },
    /// End the auto contingent allegiance of a unit.
    ClearAca {
        /// The unit.
        lun: Lun,
    },
    /// Give up everybody's commands for a unit.
    ClearTaskSet {
        /// The unit.
        lun: Lun,
    },
    /// Reset a unit, for everybody.
    LogicalUnitReset {
        /// The unit.
        lun: Lun,
    },
    /// Reset all units of the target.
    TargetWarmReset,
    /// Reset the target, which then closes all connections.
    TargetColdReset,
}

/// A function that has not been answered.
#[derive(Debug)]
pub(super) struct Asked {
    function: Function,
    itt: u32,
    /// The connection that carries it.
    cid: u16,
    /// The task that is to be aborted: another may bear the caller's name of it by now.
    referenced_itt: u32,
    /// CmdSN of the request, once it has been polled: commands before it are those that it is about.
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
    /// Asks for a task management function; [`Event::Managed`] follows, after an [`Event::Aborted`] for every
    /// command that it ended. A command that has not been sent is ended without asking the target; one
    /// that is not open any more is reported as [`task_response::NO_SUCH_TASK`].
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
                // A task is managed on the connection that it belongs to.
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

    /// The request for a function is on its way, with this CmdSN.
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
                    // What the target does not know any more, it will not answer either.
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
