//! SCSI Command: RFC 7143 section 11.3.

use super::field::*;
use super::{Error, Lun};

pdu! {
    /// Asks a target to execute a SCSI command, with immediate data if there is a data segment.
    ScsiCommand, fixed [];
    /// I: delivered outside the order of CmdSN.
    immediate: bool = IMMEDIATE,
    /// F: no unsolicited Data-Out follows.
    is_final: bool = FINAL,
    /// R: data flows to the initiator.
    read: bool = Bit { at: 1, mask: 0x40 },
    /// W: data flows to the target.
    write: bool = Bit { at: 1, mask: 0x20 },
    /// How the task is ordered among others.
    attribute: TaskAttribute = Attribute,
    /// Additional header segments, in words of four bytes.
    ahs_len: u8 = At(4),
    /// Bytes of immediate data.
    data_segment_len: u32 = DataSegmentLen,
    /// Logical unit.
    lun: Lun = LUN,
    /// Initiator task tag.
    itt: u32 = ITT,
    /// Bytes the initiator expects to move; of a bidirectional command, to write.
    expected_data_transfer_len: u32 = At(20),
    /// CmdSN.
    cmd_sn: u32 = CMD_SN,
    /// ExpStatSN.
    exp_stat_sn: u32 = EXP_STAT_SN,
    /// The command descriptor block, or its first 16 bytes if an extended CDB follows.
    cdb: [u8; 16] = At(32),
}

/// Task attributes: RFC 7143 section 11.3.1.2, SAM-5 section 8.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TaskAttribute {
    /// Treated as simple.
    Untagged = 0,
    /// May be reordered.
    Simple = 1,
    /// After all that came before, before all that come after.
    Ordered = 2,
    /// Before all that wait.
    HeadOfQueue = 3,
    /// Part of clearing an auto contingent allegiance.
    Aca = 4,
}

struct Attribute;

impl Place<TaskAttribute> for Attribute {
    fn load(&self, header: &Header) -> Result<TaskAttribute, Error> {
        Ok(match header[1] & 0x07 {
            0 => TaskAttribute::Untagged,
            1 => TaskAttribute::Simple,
            2 => TaskAttribute::Ordered,
            3 => TaskAttribute::HeadOfQueue,
            4 => TaskAttribute::Aca,
            found => return Err(Error::TaskAttribute { found }),
        })
    }

    fn store(&self, value: TaskAttribute, header: &mut Header) {
        header[1] |= value as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn a_write_of_libiscsi() {
        check(
            "01a10000 00002000 00010000 00000000 3c99a683 00200000 \
             78a0ab18 0000000c 2a000000 00000010 00000000 00000000",
            ScsiCommand {
                immediate: false,
                is_final: true,
                read: false,
                write: true,
                attribute: TaskAttribute::Simple,
                ahs_len: 0,
                data_segment_len: 8192,
                lun: Lun::from_number(1),
                itt: 0x3c99_a683,
                expected_data_transfer_len: 2 << 20,
                cmd_sn: 0x78a0_ab18,
                exp_stat_sn: 12,
                cdb: [0x2a, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0],
            },
        );
    }

    #[test]
    fn attributes_are_told_apart_and_reserved_ones_refused() {
        use TaskAttribute::*;

        let mut header = [0; 48];
        for (value, attribute) in [Untagged, Simple, Ordered, HeadOfQueue, Aca].into_iter().enumerate() {
            header[..2].copy_from_slice(&[0x01, value as u8]);
            assert_eq!(ScsiCommand::parse(&header).map(|command| command.attribute), Ok(attribute));
        }
        header[1] = 0x05;
        assert_eq!(ScsiCommand::parse(&header), Err(Error::TaskAttribute { found: 5 }));
    }
}
