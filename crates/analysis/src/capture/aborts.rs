//! Task management: which commands a target has ended without a status (RFC 7143 sections 11.5 and 11.6).

use super::framer::Framed;

/// Requests that wait for their response; of more the oldest is forgotten.
const ASKED_MAX: usize = 16;

const ABORT_TASK: u8 = 1;
/// ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET, TARGET WARM RESET and TARGET COLD RESET; 3 is CLEAR ACA.
const OF_MANY: [u8; 5] = [2, 4, 5, 6, 7];
const FUNCTION_COMPLETE: u8 = 0;

/// Requests without a response.
#[derive(Clone, Debug, Default)]
pub(super) struct Aborts {
    /// Task tag of the request, its function, and the tag of the task that it is about.
    asked: Vec<(u32, u8, u32)>,
}

/// Commands that get no status any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Aborted {
    /// That with this task tag.
    One(u32),
    /// All of the connection, as far as is told here: of one LUN or of all.
    All,
}

impl Aborts {
    /// A request.
    pub(super) fn ask(&mut self, framed: &Framed) {
        let (Some(flags), Some(referenced)) = (framed.byte(1), framed.word(20)) else { return };
        if self.asked.len() == ASKED_MAX {
            self.asked.remove(0);
        }
        self.asked.push((framed.itt(), flags & 0x7f, referenced));
    }

    /// A response; what the target has ended.
    pub(super) fn answer(&mut self, framed: &Framed) -> Option<Aborted> {
        let at = self.asked.iter().position(|(itt, ..)| *itt == framed.itt())?;
        let (_, function, referenced) = self.asked.remove(at);
        match function {
            _ if framed.byte(2) != Some(FUNCTION_COMPLETE) => None,
            ABORT_TASK => Some(Aborted::One(referenced)),
            function if OF_MANY.contains(&function) => Some(Aborted::All),
            _ => None,
        }
    }
}
