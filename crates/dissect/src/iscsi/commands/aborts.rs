//! Task management: commands that a target ends without a status (RFC 7143 sections 11.5 and 11.6).

use crate::events::waiting::WaitingRequests;
use crate::iscsi::commands::table::OutstandingCommand;
use crate::iscsi::pdu::FramedPdu;

const ABORT_TASK: u8 = 1;
/// ABORT TASK SET, CLEAR TASK SET and LOGICAL UNIT RESET; 3 is CLEAR ACA.
const OF_A_LUN: [u8; 3] = [2, 4, 5];
/// TARGET WARM RESET and TARGET COLD RESET.
const OF_ALL: [u8; 2] = [6, 7];
const FUNCTION_COMPLETE: u8 = 0;

/// Task management requests without a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskManagement {
    requests: WaitingRequests<AbortRequest>,
}

#[derive(Clone, Copy, Debug)]
struct AbortRequest {
    function: u8,
    /// Referenced task tag.
    referenced: u32,
    lun: Option<(u32, u32)>,
    /// Number of its packet; commands after it are not affected.
    packet: u64,
}

/// Commands that the target has ended without a status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aborted {
    /// The command with this task tag.
    One(u32),
    /// The commands of this LUN, or of all if it is unknown, with requests before this packet.
    Before(Option<(u32, u32)>, u64),
}

impl Aborted {
    /// True if a command is among several aborted ones.
    pub(crate) fn has(self, command: &OutstandingCommand) -> bool {
        match self {
            Aborted::One(_) => false,
            Aborted::Before(lun, packet) => {
                let is_of_lun = lun.zip(command.request.lun).is_none_or(|(one, other)| one == other);
                is_of_lun && command.request.packet.number < packet
            }
        }
    }
}

impl TaskManagement {
    /// Takes a task management request.
    pub(crate) fn request(&mut self, pdu: &FramedPdu) {
        let (Some(flags), Some(referenced)) = (pdu.byte(1), pdu.word(20)) else { return };
        let function = flags & 0x7f;
        let lun = pdu.word(8).zip(pdu.word(12));
        self.requests.add(pdu.itt(), AbortRequest { function, referenced, lun, packet: pdu.last.number });
    }

    /// Takes a task management response; returns the commands that it ends.
    pub(crate) fn response(&mut self, pdu: &FramedPdu) -> Option<Aborted> {
        let AbortRequest { function, referenced, lun, packet } = self.requests.remove(pdu.itt())?;
        match function {
            _ if pdu.response() != Some(FUNCTION_COMPLETE) => None,
            ABORT_TASK => Some(Aborted::One(referenced)),
            function if OF_A_LUN.contains(&function) => Some(Aborted::Before(lun, packet)),
            function if OF_ALL.contains(&function) => Some(Aborted::Before(None, packet)),
            _ => None,
        }
    }
}
