//! The eighteen PDUs by their operation codes: RFC 7143 section 11.2.1.2.

/// Operation code: the PDU of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is the name of its PDU, described at the type of that name")]
pub enum Opcode {
    NopOut = 0x00,
    ScsiCommand = 0x01,
    TaskManagementRequest = 0x02,
    LoginRequest = 0x03,
    TextRequest = 0x04,
    DataOut = 0x05,
    LogoutRequest = 0x06,
    SnackRequest = 0x10,
    NopIn = 0x20,
    ScsiResponse = 0x21,
    TaskManagementResponse = 0x22,
    LoginResponse = 0x23,
    TextResponse = 0x24,
    DataIn = 0x25,
    LogoutResponse = 0x26,
    R2t = 0x31,
    AsyncMessage = 0x32,
    Reject = 0x3f,
}

impl Opcode {
    /// All operation codes in ascending order.
    pub const ALL: [Self; 18] = [
        Self::NopOut,
        Self::ScsiCommand,
        Self::TaskManagementRequest,
        Self::LoginRequest,
        Self::TextRequest,
        Self::DataOut,
        Self::LogoutRequest,
        Self::SnackRequest,
        Self::NopIn,
        Self::ScsiResponse,
        Self::TaskManagementResponse,
        Self::LoginResponse,
        Self::TextResponse,
        Self::DataIn,
        Self::LogoutResponse,
        Self::R2t,
        Self::AsyncMessage,
        Self::Reject,
    ];

    /// The six-bit code.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// True for PDUs of an initiator; a target sends the others.
    pub const fn is_request(self) -> bool {
        self.code() < 0x20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_finds_its_opcode_and_no_other_does() {
        let known = (0..=0xff).filter_map(|code| Opcode::from_code(code).ok()).collect::<Vec<_>>();
        assert_eq!(known, Opcode::ALL);
        assert_eq!(known.iter().filter(|opcode| opcode.is_request()).count(), 8);
    }
}
