//! What a session makes of the target's PDUs: each belongs to something that was asked for, on its connection, and says
//! what it has to say.

use wire::iscsi::{NopIn, NopOut, Pdu, RESERVED_TAG, ScsiResponse, split_sense, task_response};
use wire::scsi::{Sense, SenseKey, Status};

use super::peer::Peer;
use super::task::{Effect, Expect, Task};

impl Peer {
    /// Takes a PDU that came over a connection with these segments; a ping is to be answered.
    #[track_caller]
    pub(crate) fn take(
        &mut self,
        (cid, segment): (u16, usize),
        (pdu, data): (Pdu, Vec<u8>),
    ) -> Option<NopIn> {
        let itt = pdu.itt();
        if let Some(task) = self.open.get(&itt) {
            assert_eq!(task.cid, cid, "an answer on another connection: {pdu:?} to {task:?}");
        }
        match pdu {
            Pdu::AsyncMessage(_) => {}
            Pdu::NopIn(ping) if itt == RESERVED_TAG => return Some(ping),
            Pdu::R2t(_) if self.aborted.contains(&itt) => {}
            Pdu::R2t(r2t) => {
                let task = self.open.get_mut(&itt).expect("an R2T for an open task");
                assert_eq!(r2t.r2t_sn, task.next_r2t_sn, "{r2t:?}");
                task.next_r2t_sn += 1;
                let end = r2t.buffer_offset as usize + r2t.desired_len as usize;
                assert!(r2t.desired_len > 0 && r2t.desired_len as usize <= self.terms.max_burst, "{r2t:?}");
                assert!(end <= task.out.len(), "more is sent for than there is: {r2t:?}");
                self.seen.sent_for += 1;
                if !task.is_ending {
                    self.due.push(r2t);
                }
            }
            Pdu::DataIn(part) => {
                let task = self.open.get_mut(&itt).expect("data for an open task");
                task.take_data(&part, &data, segment, self.terms.max_burst);
                if part.status.is_some() {
                    let task = self.open.remove(&itt).expect("it was there");
                    self.finished(task, None);
                }
            }
            Pdu::ScsiResponse(response) => {
                let task = self.remove(itt, &pdu);
                self.due.retain(|r2t| r2t.itt != itt);
                self.finished(task, Some((&response, &data)));
            }
            Pdu::NopIn(_) if self.perhaps.remove(&itt) => {}
            Pdu::NopIn(_) | Pdu::TextResponse(_) => match &self.remove(itt, &pdu).expect {
                Expect::Echo(echo) => assert!(data == echo[..echo.len().min(segment)]),
                expect => {
                    assert!(matches!(expect, Expect::Anything | Expect::Perhaps), "{expect:?}: {pdu:?}");
                }
            },
            Pdu::TaskManagementResponse(response) => {
                let task = self.remove(itt, &pdu);
                self.managed(&task, response.response);
            }
            Pdu::LogoutResponse(response) => {
                assert_eq!((self.remove(itt, &pdu).expect, response.response), (Expect::LoggedOut, 0));
            }
            other => panic!("nobody asked for {other:?}"),
        }
        None
    }

    #[track_caller]
    fn remove(&mut self, itt: u32, pdu: &Pdu) -> Task {
        self.open.remove(&itt).unwrap_or_else(|| panic!("nobody asked: {pdu:?}"))
    }

    #[track_caller]
    fn managed(&mut self, task: &Task, response: u8) {
        match task.expect {
            Expect::AbortOf(aborted) => {
                self.due.retain(|r2t| r2t.itt != aborted);
                // Its answer may have come before.
                let Some(task) = self.open.remove(&aborted) else { return };
                let may_be_gone = task.is_doubtful && response == task_response::NO_SUCH_TASK;
                assert!(
                    may_be_gone || response == task_response::COMPLETE,
                    "the abort of {task:?}: {response}"
                );
                self.seen.aborted += 1;
                if task.is_ending {
                    self.aborted.insert(aborted);
                }
                if task.is_doubtful {
                    self.lost.push(task);
                }
            }
            Expect::Anything => {}
            ref expect => {
                assert_eq!((expect, response), (&Expect::Managed, task_response::COMPLETE), "{task:?}");
            }
        }
    }

    pub(crate) fn pong(&mut self, number: usize, ping: &NopIn) {
        let pong = NopOut {
            immediate: true,
            data_segment_len: 0,
            lun: ping.lun,
            itt: RESERVED_TAG,
            ttt: ping.ttt,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.lines[number].stat_sn,
        };
        let bytes = self.lines[number].seal(pong, &[]);
        self.lines[number].send(&bytes);
    }

    #[track_caller]
    fn finished(&mut self, task: Task, response: Option<(&ScsiResponse, &[u8])>) {
        let status = response.map_or(0, |(response, _)| response.status);
        let sense = response.filter(|(response, _)| response.status == 2).map(|(_, data)| {
            let sense = split_sense(data).expect("sense data").0;
            let sense = Sense::parse(sense).expect("sense data");
            (sense.key, sense.asc)
        });
        if let (Some((SenseKey::UnitAttention, _)), true) = (sense, task.may_be_told) {
            assert!(self.attention.get(task.lun) == Some(&true), "an attention for nothing: {task:?}");
            self.seen.told += 1;
            return;
        }
        // What comes in place of a write is answered when its data has come to an end: not before later ones.
        if let (Some(has_told), true) = (self.has_told.get_mut(task.lun), task.may_be_told) {
            *has_told = true;
        }
        match &task.expect {
            Expect::Good => {
                assert_eq!((status, sense), (0, None), "{task:?}");
                let moved = task.expected_bytes.min(task.actual_bytes);
                if let Some((response, _)) = response {
                    let residual = task.expected_bytes.abs_diff(task.actual_bytes);
                    assert_eq!(response.residual as usize, residual, "{task:?}");
                }
                match &task.effect {
                    Effect::Reads { .. } => assert_eq!(task.received.len(), moved, "{task:?}"),
                    Effect::Tells { data } => assert_eq!(task.received, *data, "{task:?}"),
                    Effect::Nothing | Effect::Writes { .. } => {}
                }
                self.seen.good += 1;
                self.ended.push(task);
            }
            Expect::Check(key, asc) => {
                assert_eq!(sense, Some((*key, *asc)), "{task:?}");
                self.seen.refused += 1;
            }
            Expect::Conflict => {
                assert_eq!(Status(status), Status::RESERVATION_CONFLICT, "{sense:?} {task:?}");
                self.seen.conflicts += 1;
            }
            Expect::Anything => {}
            other => panic!("a SCSI response to {other:?}"),
        }
    }
}
