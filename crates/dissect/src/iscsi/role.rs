//! Role of the sender of a direction.

use wire::iscsi::Opcode;

/// Role of a direction's sender, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Role {
    #[default]
    Unknown,
    Initiator,
    Target,
}

impl Role {
    /// Role of a sender of PDUs with this opcode.
    pub(crate) fn from_opcode(opcode: Opcode) -> Self {
        if opcode.is_request() { Self::Initiator } else { Self::Target }
    }

    /// Role of the peer.
    pub(crate) fn peer(self) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Initiator => Self::Target,
            Self::Target => Self::Initiator,
        }
    }
}
