//! Inbound commands: the command window, unsolicited data and CmdSN order (RFC 7143 sections 4.2.2.1, 4.2.5.2, 11.3).

use std::collections::VecDeque;

use wire::iscsi::{RESERVED_TAG, ScsiCommand, reject_reason};

use super::connection::{ConnectionId, Current, at};
use super::task::{Burst, Early, Run, Stage, Task, TaskId};
use super::{EARLY_ALONE_MAX_BYTES, EARLY_MAX_BYTES, Event, IMMEDIATE_MAX, Session};
use crate::fault::Fault;
use crate::window::Admit;

impl Session {
    /// Commands, requests ahead of their order, and bursts of ended commands that the session has in memory.
    pub fn held_commands(&self) -> usize {
        self.tasks.len() + self.early.len() + self.forgotten.len()
    }

    pub(super) fn begin_command(
        &mut self,
        connection: ConnectionId,
        command: &ScsiCommand,
    ) -> Result<(), Fault> {
        let itt = command.itt;
        let admit = match command.immediate {
            // The window does not hold immediate commands back: without a Reject the initiator would wait for ever.
            true if self.immediate >= IMMEDIATE_MAX => {
                at(&mut self.connections, connection).current =
                    Current::Refused(reject_reason::TOO_MANY_IMMEDIATE);
                return Ok(());
            }
            true => Admit::Next,
            false => self.window.admit(command.cmd_sn),
        };
        if admit == Admit::Outside || self.early.contains_key(&command.cmd_sn) && !command.immediate {
            return Ok(());
        }
        if self.by_itt.contains_key(&itt) || itt == RESERVED_TAG {
            return Err(Fault::contradiction("the task tag is already in use", itt));
        }
        self.forgotten.take_out(itt);
        let expected_bytes = command.expected_data_transfer_len;
        let bursts = self.unsolicited(command)?;
        let is_early = admit == Admit::Early;
        let key = self.tasks.insert(Task {
            connection,
            itt,
            lun: command.lun,
            cdb: command.cdb,
            attribute: command.attribute,
            read: command.read,
            write: command.write,
            expected_bytes,
            token: 0,
            cmd_sn: command.cmd_sn,
            counted: !command.immediate,
            stage: if is_early { Stage::Early } else { Stage::Running },
            bursts,
            next_r2t_sn: 0,
            early: Vec::new(),
            is_damaged: false,
        });
        at(&mut self.connections, connection).current = Current::Task(key);
        self.by_itt.insert(itt, key);
        if is_early {
            self.early.insert(command.cmd_sn, Early::Task(key));
        } else {
            if command.immediate {
                self.immediate += 1;
            } else {
                self.window.take(true);
            }
            self.run(key);
            self.run_early();
        }
        Ok(())
    }

    /// Unsolicited bursts of a command: immediate data and Data-Out (RFC 7143 sections 4.2.5.2, 13.10, 13.11, 13.14).
    pub(super) fn unsolicited(&self, command: &ScsiCommand) -> Result<VecDeque<Burst>, Fault> {
        let wrong = |what| Err(Fault::contradiction(what, command.itt));
        let immediate = command.data_segment_len;
        let most = command.expected_data_transfer_len.min(self.params.first_burst_len);
        if immediate > 0 && !command.write {
            return wrong("data with a command that writes nothing");
        }
        if immediate > 0 && !self.params.immediate_data {
            return wrong("immediate data, though ImmediateData=No was agreed");
        }
        if immediate > most {
            return wrong("more immediate data than FirstBurstLength or the expected length");
        }
        if !command.is_final && (!command.write || self.params.initial_r2t) {
            return wrong(
                "unsolicited data announced, though InitialR2T=Yes was agreed or nothing is written",
            );
        }
        let end_bytes = if command.is_final { immediate } else { most };
        let mut bursts = VecDeque::new();
        if end_bytes > 0 {
            bursts.push_back(Burst { ttt: RESERVED_TAG, next_bytes: 0, end_bytes, next_data_sn: 0 });
        }
        Ok(bursts)
    }

    pub(super) fn run(&mut self, key: usize) {
        let task = &mut self.tasks[key];
        task.stage = Stage::Running;
        let run = Run {
            task: TaskId(key as u32),
            connection: task.connection,
            lun: task.lun,
            cdb: task.cdb,
            attribute: task.attribute,
            read: task.read,
            write: task.write,
            expected_bytes: task.expected_bytes,
        };
        self.events.push_back(Event::Run(run));
    }

    /// Runs all early commands and requests that have become due.
    pub(super) fn run_early(&mut self) {
        loop {
            if !self.waiting.is_empty() {
                self.run_waiting();
            }
            match self.early.remove(&self.window.exp_cmd_sn()) {
                Some(Early::Task(key)) => {
                    self.window.take(true);
                    self.run(key);
                }
                Some(Early::Request(request)) => {
                    self.window.take(false);
                    self.early_bytes -= request.collected.len();
                    let connection = request.connection;
                    // No PDU follows the response to a logout (RFC 7143 section 11.14).
                    if at(&mut self.connections, connection).logged_out {
                        continue;
                    }
                    if let Err(fault) = self.carry_out(connection, &request.pdu, &request.collected) {
                        self.events.push_back(Event::Fault { connection, fault });
                    }
                }
                Some(Early::Skipped) => self.window.take(false),
                None => return,
            }
        }
    }

    pub(super) fn finish_command(
        &mut self,
        connection: ConnectionId,
        command: &ScsiCommand,
        header: &[u8; 48],
        collected: &[u8],
    ) -> Result<(), Fault> {
        let current = &mut at(&mut self.connections, connection).current;
        match (std::mem::replace(current, Current::Ignored), command.data_segment_len) {
            (Current::Refused(reason), _) => self.reject(connection, header, reason),
            (Current::Task(key), len @ 1..) => {
                self.keep_early(key, 0, collected)?;
                if let Some(burst) = self.tasks[key].bursts.front_mut() {
                    burst.next_bytes = len;
                    self.progress(key);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Keeps data that was collected because its task was not due. The task may have become due meanwhile, by a PDU
    /// received on another connection.
    pub(super) fn keep_early(
        &mut self,
        key: usize,
        offset_bytes: u32,
        collected: &[u8],
    ) -> Result<(), Fault> {
        let task = &mut self.tasks[key];
        match task.stage {
            _ if task.is_damaged || collected.is_empty() => {}
            Stage::Early => {
                let itt = task.itt;
                task.early.extend_from_slice(collected);
                return self.count_early(collected.len(), itt);
            }
            // Data beyond the length that the command moves is discarded.
            Stage::Receiving { wanted_bytes, .. } if offset_bytes < wanted_bytes => {
                let most = (wanted_bytes - offset_bytes) as usize;
                let data = collected[..collected.len().min(most)].to_vec();
                let (task, token) = (TaskId(key as u32), task.token);
                self.events.push_back(Event::Late { task, token, offset_bytes, data });
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn count_early(&mut self, bytes: usize, itt: u32) -> Result<(), Fault> {
        self.early_bytes += bytes;
        let most = if self.has_joined { EARLY_MAX_BYTES } else { EARLY_ALONE_MAX_BYTES };
        if self.early_bytes > most {
            return Err(Fault::contradiction("too much data of commands sent out of order", itt));
        }
        Ok(())
    }
}
