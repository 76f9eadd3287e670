//! Inbound payload: unsolicited bursts, R2Ts and their Data-Out PDUs (RFC 7143 sections 11.7, 11.8).

use wire::iscsi::{DataOut, R2t, RESERVED_TAG, reject_reason};

use super::connection::{ConnectionId, at};
use super::task::{Burst, Stage, Task, TaskId};
use super::{Event, Session, next_tag};
use crate::fault::Fault;

impl Session {
    pub(super) fn burst_of(&self, connection: ConnectionId, data: &DataOut) -> Result<(usize, usize), u8> {
        let key = *self.by_itt.get(&data.itt).ok_or(reject_reason::INVALID_PDU_FIELD)?;
        let Task { bursts, connection: own, .. } = &self.tasks[key];
        if *own != connection {
            return Err(reject_reason::INVALID_PDU_FIELD); // Allegiance: RFC 7143 section 4.2.5.
        }
        let index = bursts.iter().position(|burst| burst.ttt == data.ttt);
        let index = index.ok_or(reject_reason::INVALID_PDU_FIELD)?;
        let burst = &bursts[index];
        let end = u64::from(data.buffer_offset) + u64::from(data.data_segment_len);
        let is_complete = !data.is_final || burst.ttt == RESERVED_TAG || end == u64::from(burst.end_bytes);
        let fits = data.buffer_offset == burst.next_bytes && is_complete && end <= u64::from(burst.end_bytes);
        if fits || self.tasks[key].takes_anything() {
            Ok((key, index))
        } else {
            Err(reject_reason::PROTOCOL_ERROR)
        }
    }

    /// Returns true if the DataSN of a PDU shows that an earlier PDU was lost.
    pub(super) fn shows_loss(&self, key: usize, index: usize, data: &DataOut) -> bool {
        let task = &self.tasks[key];
        !task.takes_anything() && data.data_sn != task.bursts[index].next_data_sn
    }

    pub(super) fn handle_data_out(
        &mut self,
        connection: ConnectionId,
        data: &DataOut,
        header: &[u8; 48],
        collected: &[u8],
    ) -> Result<(), Fault> {
        let (key, index) = match self.burst_of(connection, data) {
            Ok(found) => found,
            // Error recovery level 0 cannot repair a burst out of order (RFC 7143 section 7.9).
            Err(reject_reason::PROTOCOL_ERROR) => {
                return Err(Fault::contradiction("Data-Out out of order or beyond its burst", data.itt));
            }
            Err(_) if self.is_forgotten(connection, data.itt, data.ttt) => return Ok(()),
            Err(reason) => {
                self.reject(connection, header, reason);
                return Ok(());
            }
        };
        if self.shows_loss(key, index, data) {
            self.damage(key);
        }
        self.keep_early(key, data.buffer_offset, collected)?;
        let task = &mut self.tasks[key];
        let counts = !task.takes_anything();
        let burst = &mut task.bursts[index];
        if counts {
            burst.next_bytes += data.data_segment_len;
            burst.next_data_sn = burst.next_data_sn.wrapping_add(1);
        }
        if data.is_final {
            // An unsolicited burst may end early; R2Ts solicit the rest.
            burst.end_bytes = burst.next_bytes;
        }
        self.progress(key);
        Ok(())
    }

    /// Marks a task as damaged: a DataSN out of order shows lost data. Error recovery level 0 has no retransmission: no
    /// more data is stored, and the command fails when the initiator has sent the rest (RFC 7143 sections 7.8 and 7.9).
    fn damage(&mut self, key: usize) {
        let task = &mut self.tasks[key];
        task.is_damaged = true;
        if matches!(task.stage, Stage::Receiving { .. }) {
            self.events.push_back(Event::Damaged { task: TaskId(key as u32), token: task.token });
        }
    }

    /// Continues a task after data has arrived: solicits more, or reports the end of the transfer.
    pub(super) fn progress(&mut self, key: usize) {
        let task = &mut self.tasks[key];
        let mut arrived = None;
        while task.bursts.front().is_some_and(|burst| burst.next_bytes == burst.end_bytes) {
            if matches!(task.stage, Stage::Early | Stage::Running) {
                return; // Kept, so that `receive` knows how much has arrived.
            }
            arrived = task.bursts.pop_front().map(|burst| (burst.ttt, burst.end_bytes));
        }
        match &mut task.stage {
            Stage::Receiving { .. } if task.is_damaged => {}
            Stage::Receiving { wanted_bytes, asked_bytes } => {
                if let Some((RESERVED_TAG, end)) = arrived {
                    *asked_bytes = end;
                }
                if task.bursts.is_empty() && *asked_bytes >= *wanted_bytes {
                    task.stage = Stage::Running;
                    self.events.push_back(Event::Received { task: TaskId(key as u32), token: task.token });
                } else {
                    self.solicit(key);
                }
            }
            Stage::Draining(answer) if task.bursts.is_empty() => {
                let answer = answer.clone();
                self.respond(key, &answer);
            }
            _ => {}
        }
    }

    /// Solicits the missing data, with as many R2Ts as MaxOutstandingR2T allows.
    pub(super) fn solicit(&mut self, key: usize) {
        let task = &mut self.tasks[key];
        if task.is_damaged || at(&mut self.connections, task.connection).logged_out {
            return;
        }
        let Stage::Receiving { wanted_bytes, asked_bytes } = &mut task.stage else { return };
        // The unsolicited burst comes first: its length is unknown until it ends.
        let is_unsolicited = |burst: &Burst| burst.ttt == RESERVED_TAG && burst.next_bytes < burst.end_bytes;
        if task.bursts.iter().any(is_unsolicited) {
            return;
        }
        task.bursts.retain(|burst| burst.next_bytes < burst.end_bytes);
        while *asked_bytes < *wanted_bytes
            && task.bursts.len() < usize::from(self.params.max_outstanding_r2t.max(1))
        {
            let desired_len = (*wanted_bytes - *asked_bytes).min(self.params.max_burst_len);
            let ttt = next_tag(&mut self.next_ttt);
            let r2t = R2t {
                lun: task.lun,
                itt: task.itt,
                ttt,
                stat_sn: 0,
                exp_cmd_sn: 0,
                max_cmd_sn: 0,
                r2t_sn: task.next_r2t_sn,
                buffer_offset: *asked_bytes,
                desired_len,
            };
            let end_bytes = *asked_bytes + desired_len;
            task.bursts.push_back(Burst { ttt, next_bytes: *asked_bytes, end_bytes, next_data_sn: 0 });
            task.next_r2t_sn = task.next_r2t_sn.wrapping_add(1);
            *asked_bytes = end_bytes;
            at(&mut self.connections, task.connection).urgent.push(r2t, Vec::new());
        }
        if task.bursts.is_empty() {
            task.stage = Stage::Running;
            self.events.push_back(Event::Received { task: TaskId(key as u32), token: task.token });
        }
    }
}
