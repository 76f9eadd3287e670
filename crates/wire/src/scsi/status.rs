//! Status codes: SAM-5 section 5.3.

/// Status of a command. Any byte is a status; the constants are those that SAM-5 assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub u8);

impl Status {
    /// Done.
    pub const GOOD: Self = Self(0x00);
    /// Sense data describe the condition.
    pub const CHECK_CONDITION: Self = Self(0x02);
    /// A PRE-FETCH found room.
    pub const CONDITION_MET: Self = Self(0x04);
    /// Try again later.
    pub const BUSY: Self = Self(0x08);
    /// Another initiator has reserved the logical unit.
    pub const RESERVATION_CONFLICT: Self = Self(0x18);
    /// No room for another task.
    pub const TASK_SET_FULL: Self = Self(0x28);
    /// An auto contingent allegiance is active.
    pub const ACA_ACTIVE: Self = Self(0x30);
    /// Aborted on behalf of another initiator.
    pub const TASK_ABORTED: Self = Self(0x40);
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match *self {
            Self::GOOD => "GOOD",
            Self::CHECK_CONDITION => "CHECK CONDITION",
            Self::CONDITION_MET => "CONDITION MET",
            Self::BUSY => "BUSY",
            Self::RESERVATION_CONFLICT => "RESERVATION CONFLICT",
            Self::TASK_SET_FULL => "TASK SET FULL",
            Self::ACA_ACTIVE => "ACA ACTIVE",
            Self::TASK_ABORTED => "TASK ABORTED",
            Self(code) => return write!(f, "status {code:02X}h"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_sam() {
        assert_eq!(Status::TASK_SET_FULL.to_string(), "TASK SET FULL");
        assert_eq!(Status(0x22).to_string(), "status 22h");
    }
}
