//! The common test of every PDU.

use super::{BHS_LEN, Bhs, Opcode, Pdu};

/// Checks that the header `hex` reads as `pdu`, and that `pdu` writes the same bytes over a buffer of 0xa5, which shows
/// unset bytes; a header of all ones must survive reading and writing unchanged.
#[track_caller]
pub(super) fn check(hex: &str, pdu: impl Into<Pdu>) {
    let (bytes, pdu) = (header(hex), pdu.into());
    assert_eq!(Pdu::parse(&bytes), Ok(pdu));
    assert_eq!(emit(&pdu), bytes);
    assert_eq!(pdu.itt(), Bhs::new(&bytes).itt());
    assert_eq!(pdu.data_segment_len() as usize, Bhs::new(&bytes).data_segment_len());

    let mut ones = [0xff; BHS_LEN];
    ones[0] = 0xc0 | pdu.opcode().code();
    if pdu.opcode() == Opcode::ScsiCommand {
        // All ones are a reserved task attribute.
        ones[1] = 0xf8;
    }
    let read = Pdu::parse(&ones).expect("every header of the opcode can be read");
    assert_eq!(Pdu::parse(&emit(&read)), Ok(read));
}

/// The header that `hex` writes, with any spaces.
#[track_caller]
pub(super) fn header(hex: &str) -> [u8; BHS_LEN] {
    crate::hex::bytes(hex).try_into().expect("48 bytes")
}

fn emit(pdu: &Pdu) -> [u8; BHS_LEN] {
    let mut bytes = [0xa5; BHS_LEN];
    pdu.emit(&mut bytes);
    bytes
}
