//! SCSI Command: RFC 7143 section 11.3.

use super::field::*;
use super::header::Header;
use super::{Error, Lun};

pdu! {
    /// Requests execution of a SCSI command, with immediate data in the data segment.
    ScsiCommand, fixed [];
    /// I: delivered outside the order of CmdSN.
    immediate: bool = IMMEDIATE,
    /// F: no unsolicited Data-Out follows.
    is_final: bool = FINAL,
    /// R: data flows to the initiator.
    read: bool = Bit { at: 1, mask: 0x40 },
    /// W: data flows to the target.
    write: bool = Bit { at: 1, mask: 0x20 },
    /// Task attribute: order among other tasks.
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
pub enum TaskAttribute {
    /// Treated as simple.
    Untagged,
    /// May be reordered.
    Simple,
    /// After all earlier tasks, before all later ones.
    Ordered,
    /// Before all that wait.
    HeadOfQueue,
    /// Part of clearing an auto contingent allegiance.
    Aca,
    /// 5 to 7: a command that a target refuses. The PDU is as good as any other.
    Reserved(u8),
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
            reserved => TaskAttribute::Reserved(reserved),
        })
    }

    fn store(&self, value: TaskAttribute, header: &mut Header) {
        header[1] |= match value {
            TaskAttribute::Untagged => 0,
            TaskAttribute::Simple => 1,
            TaskAttribute::Ordered => 2,
            TaskAttribute::HeadOfQueue => 3,
            TaskAttribute::Aca => 4,
            TaskAttribute::Reserved(reserved) => reserved & 0x07,
        };
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
    fn attributes_are_told_apart() {
        use TaskAttribute::*;

        let all = [Untagged, Simple, Ordered, HeadOfQueue, Aca, Reserved(5), Reserved(6), Reserved(7)];
        let mut header = [0; 48];
        for (value, attribute) in all.into_iter().enumerate() {
            header[..2].copy_from_slice(&[0x01, value as u8]);
            let parsed = ScsiCommand::parse(&header).unwrap();
            assert_eq!(parsed.attribute, attribute);
            let mut emitted = [0xa5; 48];
            parsed.emit(&mut emitted);
            assert_eq!(emitted, header);
        }
    }
}
