//! Task management: which commands a target has ended without a status (RFC 7143 sections 11.5 and 11.6).

use super::framer::Framed;
use super::open::Open;

/// Requests that wait for their response; of more the oldest is forgotten.
const ASKED_MAX: usize = 16;

const ABORT_TASK: u8 = 1;
/// ABORT TASK SET, CLEAR TASK SET and LOGICAL UNIT RESET; 3 is CLEAR ACA.
const OF_A_LUN: [u8; 3] = [2, 4, 5];
/// TARGET WARM RESET and TARGET COLD RESET.
const OF_ALL: [u8; 2] = [6, 7];
const FUNCTION_COMPLETE: u8 = 0;

/// Requests without a response.
#[derive(Clone, Debug, Default)]
pub(super) struct Aborts {
    asked: Vec<Asked>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    itt: u32,
    function: u8,
    /// The tag of the task that it is about.
    referenced: u32,
    lun: Option<(u32, u32)>,
    /// What was sent later it is not about.
    packet: u64,
}

/// Commands that get no status any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Aborted {
    /// That with this task tag.
    One(u32),
    /// Those of this LUN, or of all if it is not known, that were sent before this packet.
    Before(Option<(u32, u32)>, u64),
}

impl Aborted {
    /// Whether a command is among several.
    pub(super) fn has(self, open: &Open) -> bool {
        match self {
            Aborted::One(_) => false,
            Aborted::Before(lun, packet) => {
                let is_of_lun = lun.zip(open.lun).is_none_or(|(one, other)| one == other);
                is_of_lun && open.request.packet < packet
            }
        }
    }
}

impl Aborts {
    /// A request.
    pub(super) fn ask(&mut self, framed: &Framed) {
        let (Some(flags), Some(referenced)) = (framed.byte(1), framed.word(20)) else { return };
        if self.asked.len() == ASKED_MAX {
            self.asked.remove(0);
        }
        let lun = framed.word(8).zip(framed.word(12));
        let packet = framed.last.packet;
        self.asked.push(Asked { itt: framed.itt(), function: flags & 0x7f, referenced, lun, packet });
    }

    /// A response; what the target has ended.
    pub(super) fn answer(&mut self, framed: &Framed) -> Option<Aborted> {
        let at = self.asked.iter().position(|asked| asked.itt == framed.itt())?;
        let Asked { function, referenced, lun, packet, .. } = self.asked.remove(at);
        match function {
            _ if framed.byte(2) != Some(FUNCTION_COMPLETE) => None,
            ABORT_TASK => Some(Aborted::One(referenced)),
            function if OF_A_LUN.contains(&function) => Some(Aborted::Before(lun, packet)),
            function if OF_ALL.contains(&function) => Some(Aborted::Before(None, packet)),
            _ => None,
        }
    }
}
