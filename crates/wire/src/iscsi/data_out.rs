//! SCSI Data-Out: RFC 7143 section 11.7.

use super::Lun;
use super::field::*;

pdu! {
    /// Carries write data to the target, unsolicited or solicited by an R2T.
    DataOut, fixed [];
    /// F: the last PDU of its sequence.
    is_final: bool = FINAL,
    /// Bytes of data.
    data_segment_len: u32 = DataSegmentLen,
    /// Logical unit, if `ttt` is given.
    lun: Lun = LUN,
    /// Initiator task tag of the command.
    itt: u32 = ITT,
    /// Target transfer tag of the R2T that is answered; the reserved tag in unsolicited data.
    ttt: u32 = TTT,
    /// ExpStatSN.
    exp_stat_sn: u32 = EXP_STAT_SN,
    /// Number of this PDU in its sequence, from 0.
    data_sn: u32 = DATA_SN,
    /// Offset in the command's data, in bytes.
    buffer_offset: u32 = BUFFER_OFFSET,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn the_end_of_a_sequence_of_libiscsi() {
        check(
            "05800000 00002000 00010000 00000000 3c99a683 80f33620 \
             00000000 0000000d 00000000 0000001f 00040000 00000000",
            DataOut {
                is_final: true,
                data_segment_len: 8192,
                lun: Lun::from_number(1),
                itt: 0x3c99_a683,
                ttt: 0x80f3_3620,
                exp_stat_sn: 13,
                data_sn: 31,
                buffer_offset: 0x40000,
            },
        );
    }

    #[test]
    #[should_panic(expected = "does not fit into 24 bits")]
    fn a_segment_of_16_mib_is_our_mistake() {
        let mut header = [0; 48];
        let pdu = DataOut::parse(&[0x05; 48]).expect("a Data-Out");
        DataOut { data_segment_len: 1 << 24, ..pdu }.emit(&mut header);
    }
}
