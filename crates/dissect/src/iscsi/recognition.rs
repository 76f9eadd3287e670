//! Recognition of iSCSI: both directions must fit. A port is a hint, and data may look like a header.

/// Evidence that a connection carries iSCSI.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recognition {
    /// Task tag of the last login request.
    login: Option<u32>,
    /// Answers with the task tag of an outstanding request.
    answers: u32,
    /// Requests or responses whose number followed the one before.
    moves: u32,
    /// The other direction has no packets: no answer can be seen.
    pub(super) is_alone: bool,
    is_recognised: bool,
}

/// Answers that must fit, on the well-known port and on others. Two words of 32 bits have agreed then, in headers whose
/// every field is plausible.
const ANSWERS_MIN: [u32; 2] = [1, 2];
/// Numbers that must follow each other where only one direction is in the capture.
const MOVES_MIN: u32 = 8;

impl Recognition {
    /// True if the connection carries iSCSI.
    pub(super) fn is_recognised(&self) -> bool {
        self.is_recognised
    }

    /// Takes a login request.
    pub(super) fn login_request(&mut self, itt: u32) {
        self.login = Some(itt);
    }

    /// Takes a login response.
    pub(super) fn login_response(&mut self, itt: u32) {
        self.is_recognised |= self.login == Some(itt);
    }

    /// Takes an answer to an outstanding request.
    pub(super) fn answer(&mut self, is_well_known_port: bool) {
        self.answers += 1;
        self.is_recognised |= self.answers >= ANSWERS_MIN[usize::from(!is_well_known_port)];
    }

    /// Takes a PDU whose number follows the one before.
    pub(super) fn moves(&mut self) {
        self.moves += 1;
        self.is_recognised |= self.is_alone && self.moves >= MOVES_MIN;
    }
}
