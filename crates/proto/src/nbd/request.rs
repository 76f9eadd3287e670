//! Commands of the transmission phase and the rules for them, the same at both ends.

use wire::nbd::{command, command_flag, transmission_flag};

use super::error::NbdError;
use super::violation::NbdViolation;
use super::{MINIMUM_BLOCK_MAX_BYTES, PAYLOAD_MAX_BYTES};

/// Smallest preferred block size, in bytes.
const PREFERRED_BLOCK_MIN_BYTES: u32 = 512;

/// Operation of a command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NbdOp {
    /// NBD_CMD_READ.
    Read,
    /// NBD_CMD_WRITE.
    Write,
    /// NBD_CMD_FLUSH: every write that was answered before is durable afterwards.
    Flush,
    /// NBD_CMD_TRIM: the contents are of no use any more.
    Trim,
    /// NBD_CMD_CACHE: the range will be read soon.
    Cache,
    /// NBD_CMD_WRITE_ZEROES.
    WriteZeroes,
    /// NBD_CMD_BLOCK_STATUS.
    BlockStatus,
}

impl NbdOp {
    /// Every operation.
    pub const ALL: [NbdOp; 7] = [
        NbdOp::Read,
        NbdOp::Write,
        NbdOp::Flush,
        NbdOp::Trim,
        NbdOp::Cache,
        NbdOp::WriteZeroes,
        NbdOp::BlockStatus,
    ];

    /// The number on the wire, one of [`wire::nbd::command`].
    pub const fn code(self) -> u16 {
        match self {
            NbdOp::Read => command::READ,
            NbdOp::Write => command::WRITE,
            NbdOp::Flush => command::FLUSH,
            NbdOp::Trim => command::TRIM,
            NbdOp::Cache => command::CACHE,
            NbdOp::WriteZeroes => command::WRITE_ZEROES,
            NbdOp::BlockStatus => command::BLOCK_STATUS,
        }
    }

    /// The operation of a number, if it is one of these.
    pub fn from_code(code: u16) -> Option<NbdOp> {
        NbdOp::ALL.into_iter().find(|op| op.code() == code)
    }

    /// The transmission flag without which the command is not sent; 0 if there is none.
    const fn needs(self) -> u16 {
        match self {
            NbdOp::Read | NbdOp::Write | NbdOp::BlockStatus => 0,
            NbdOp::Flush => transmission_flag::SEND_FLUSH,
            NbdOp::Trim => transmission_flag::SEND_TRIM,
            NbdOp::Cache => transmission_flag::SEND_CACHE,
            NbdOp::WriteZeroes => transmission_flag::SEND_WRITE_ZEROES,
        }
    }

    const fn flags(self) -> u16 {
        command_flag::FUA
            | match self {
                NbdOp::Read => command_flag::DF,
                NbdOp::WriteZeroes => command_flag::NO_HOLE | command_flag::FAST_ZERO,
                NbdOp::BlockStatus => command_flag::REQ_ONE,
                NbdOp::Write | NbdOp::Flush | NbdOp::Trim | NbdOp::Cache => 0,
            }
    }

    /// True if it changes the medium.
    const fn changes(self) -> bool {
        matches!(self, NbdOp::Write | NbdOp::Trim | NbdOp::WriteZeroes)
    }
}

/// A command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NbdCommand {
    /// Operation.
    pub op: NbdOp,
    /// Bits of [`wire::nbd::command_flag`].
    pub flags: u16,
    /// Offset of the range; 0 for a flush.
    pub offset_bytes: u64,
    /// Length of the range; 0 for a flush.
    pub len_bytes: u32,
}

/// Block size constraints in bytes (NBD_INFO_BLOCK_SIZE).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NbdBlockSizes {
    /// Every offset and length is a multiple of it: a power of two up to 64 KiB.
    pub minimum: u32,
    /// Best offsets and lengths: a power of two, at least 512 and the minimum.
    pub preferred: u32,
    /// Longest payload, at least the preferred size; 2^32 − 1 for no limit.
    pub maximum: u32,
}

impl NbdBlockSizes {
    /// The sizes of a server that announces none.
    pub const DEFAULT: NbdBlockSizes =
        NbdBlockSizes { minimum: 1, preferred: 4096, maximum: PAYLOAD_MAX_BYTES };

    /// Checks the sizes against the rules of the protocol.
    ///
    /// # Errors
    /// Sizes that no server may announce.
    pub fn check(&self) -> Result<(), NbdViolation> {
        let NbdBlockSizes { minimum, preferred, maximum } = *self;
        let is_right = minimum.is_power_of_two()
            && preferred.is_power_of_two()
            && minimum <= MINIMUM_BLOCK_MAX_BYTES
            && preferred >= minimum.max(PREFERRED_BLOCK_MIN_BYTES)
            && maximum >= preferred;
        is_right.then_some(()).ok_or(NbdViolation::BlockSizes { minimum, preferred, maximum })
    }

    /// Longest payload of this implementation under these constraints, in bytes.
    pub fn payload_max_bytes(&self) -> u32 {
        self.maximum.min(PAYLOAD_MAX_BYTES)
    }
}

/// Facts of an export that decide which commands it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportFacts {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bits of [`wire::nbd::transmission_flag`].
    pub flags: u16,
    /// Block size constraints.
    pub blocks: NbdBlockSizes,
}

impl ExportFacts {
    /// Validates a command; `has_allocation` says that `base:allocation` was agreed.
    ///
    /// # Errors
    /// The error that the command is answered with.
    pub fn validate(&self, command: &NbdCommand, has_allocation: bool) -> Result<(), NbdError> {
        let NbdCommand { op, flags, offset_bytes, len_bytes } = *command;
        let has = |flag: u16| self.flags & flag == flag;
        if op.changes() && has(transmission_flag::READ_ONLY) {
            return Err(NbdError::Eperm);
        }
        let is_refused = flags & !op.flags() != 0
            || !has(op.needs())
            || flags & command_flag::FUA != 0 && !has(transmission_flag::SEND_FUA)
            || flags & command_flag::DF != 0 && !has(transmission_flag::SEND_DF)
            || flags & command_flag::FAST_ZERO != 0 && !has(transmission_flag::SEND_FAST_ZERO)
            || op == NbdOp::BlockStatus && !has_allocation;
        if is_refused {
            return Err(NbdError::Einval);
        }
        if op == NbdOp::Flush {
            return if (offset_bytes, len_bytes) == (0, 0) { Ok(()) } else { Err(NbdError::Einval) };
        }
        let block = self.blocks.minimum;
        if len_bytes == 0 || !len_bytes.is_multiple_of(block) || !offset_bytes.is_multiple_of(block.into()) {
            return Err(NbdError::Einval);
        }
        if matches!(op, NbdOp::Read | NbdOp::Write) && len_bytes > self.blocks.payload_max_bytes() {
            // EOVERFLOW is for replies that would be too long.
            return Err(if op == NbdOp::Read { NbdError::Eoverflow } else { NbdError::Einval });
        }
        match offset_bytes.checked_add(len_bytes.into()) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ if matches!(op, NbdOp::Write | NbdOp::WriteZeroes) => Err(NbdError::Enospc),
            _ => Err(NbdError::Einval),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals() {
        let all = 0x0fff & !transmission_flag::READ_ONLY & !transmission_flag::SEND_FUA;
        let blocks = NbdBlockSizes { minimum: 512, preferred: 4096, maximum: 1 << 20 };
        let facts = ExportFacts { size_bytes: 1 << 21, flags: all, blocks };
        let read_only = ExportFacts { flags: all | transmission_flag::READ_ONLY, ..facts };
        let slow = ExportFacts { flags: all & !transmission_flag::SEND_FAST_ZERO, ..facts };
        let plain = ExportFacts { flags: transmission_flag::HAS_FLAGS, ..facts };
        #[rustfmt::skip]
        let table = [
            (facts, NbdOp::Read, 0, 0, 512, Ok(())),
            (facts, NbdOp::Read, 0, 0, 0, Err(NbdError::Einval)),
            (facts, NbdOp::Read, 0, 1, 512, Err(NbdError::Einval)),
            (facts, NbdOp::Read, 0, 512, 513, Err(NbdError::Einval)),
            (facts, NbdOp::Read, 0, 0, (1 << 20) + 512, Err(NbdError::Eoverflow)),
            (facts, NbdOp::Write, 0, 0, (1 << 20) + 512, Err(NbdError::Einval)),
            (facts, NbdOp::Read, 0, 1 << 21, 512, Err(NbdError::Einval)),
            (facts, NbdOp::Write, 0, 1 << 21, 512, Err(NbdError::Enospc)),
            (facts, NbdOp::WriteZeroes, 0, u64::MAX - 511, 512, Err(NbdError::Enospc)),
            (facts, NbdOp::WriteZeroes, 0, 0, 1 << 21, Ok(())),
            (facts, NbdOp::Trim, 0, 1 << 21, 512, Err(NbdError::Einval)),
            (read_only, NbdOp::Write, 0, 0, 512, Err(NbdError::Eperm)),
            (read_only, NbdOp::Trim, 0, 0, 512, Err(NbdError::Eperm)),
            (read_only, NbdOp::WriteZeroes, command_flag::FUA, 0, 512, Err(NbdError::Eperm)),
            (read_only, NbdOp::Read, 0, 0, 512, Ok(())),
            (facts, NbdOp::Flush, 0, 0, 0, Ok(())),
            (facts, NbdOp::Flush, 0, 0, 512, Err(NbdError::Einval)),
            (plain, NbdOp::Flush, 0, 0, 0, Err(NbdError::Einval)),
            (plain, NbdOp::Trim, 0, 0, 512, Err(NbdError::Einval)),
            (facts, NbdOp::Write, command_flag::FUA, 0, 512, Err(NbdError::Einval)),
            (facts, NbdOp::Write, command_flag::PAYLOAD_LEN, 0, 512, Err(NbdError::Einval)),
            (facts, NbdOp::Read, command_flag::DF, 0, 512, Ok(())),
            (plain, NbdOp::Read, command_flag::DF, 0, 512, Err(NbdError::Einval)),
            (facts, NbdOp::Write, command_flag::DF, 0, 512, Err(NbdError::Einval)),
            (facts, NbdOp::WriteZeroes, command_flag::FAST_ZERO | command_flag::NO_HOLE, 0, 512, Ok(())),
            (slow, NbdOp::WriteZeroes, command_flag::FAST_ZERO, 0, 512, Err(NbdError::Einval)),
            (slow, NbdOp::WriteZeroes, command_flag::NO_HOLE, 0, 512, Ok(())),
            (facts, NbdOp::Trim, command_flag::FAST_ZERO, 0, 512, Err(NbdError::Einval)),
            (facts, NbdOp::Read, command_flag::REQ_ONE, 0, 512, Err(NbdError::Einval)),
            (facts, NbdOp::BlockStatus, 0, 0, 512, Err(NbdError::Einval)),
        ];
        for (facts, op, flags, offset_bytes, len_bytes, expected) in table {
            let command = NbdCommand { op, flags, offset_bytes, len_bytes };
            assert_eq!(facts.validate(&command, false), expected, "{command:?}");
        }
        let status = NbdCommand {
            op: NbdOp::BlockStatus,
            flags: command_flag::REQ_ONE,
            offset_bytes: 0,
            len_bytes: 512,
        };
        assert_eq!(facts.validate(&status, true), Ok(()));
        assert_eq!(facts.validate(&status, false), Err(NbdError::Einval));
    }

    #[test]
    fn block_sizes() {
        let sizes =
            |minimum, preferred, maximum| NbdBlockSizes { minimum, preferred, maximum }.check().is_ok();
        assert!(sizes(1, 4096, 32 << 20) && sizes(512, 512, u32::MAX) && sizes(65_536, 65_536, 65_536));
        assert!(!sizes(0, 4096, 4096), "no minimum");
        assert!(!sizes(131_072, 131_072, 131_072), "minimum above 64 KiB");
        assert!(!sizes(1024, 512, 4096), "preferred below minimum");
        assert!(!sizes(1, 256, 4096), "preferred below 512");
        assert!(!sizes(512, 1000, 4096), "preferred not a power of two");
        assert!(!sizes(512, 4096, 4000), "maximum below preferred");
        assert!(sizes(512, 4096, 5000), "any maximum above preferred");
    }
}
