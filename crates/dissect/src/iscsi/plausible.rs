//! Plausibility checks of basic header segments: RFC 7143 section 11.
//!
//! In sync few fields are checked. Out of sync, also at the beginning in mid-connection, every field with few valid
//! values is checked, so that data is hardly ever taken for a header.

use wire::iscsi::Opcode;

use crate::iscsi::role::Role;

/// A bit for every assigned opcode.
const ASSIGNED: u64 = {
    let (mut bits, mut n) = (0, 0);
    while n < Opcode::ALL.len() {
        bits |= 1 << Opcode::ALL[n].code();
        n += 1;
    }
    bits
};

/// Known bytes that a header found out of sync must have.
pub(super) const STRICT_LEN: usize = 28;

/// Opcode of a header that `sender` may send. Checks the fields that determine the length of the PDU.
pub(super) fn in_sync(header: &[u8; 48], sender: Role) -> Option<Opcode> {
    let opcode = Opcode::from_code(header[0] & 0x3f).ok()?;
    let is_sender = sender == Role::Unknown || sender == Role::from_opcode(opcode);
    (header[0] & 0x80 == 0 && is_sender && shape(opcode, header)).then_some(opcode)
}

/// Opcode of bytes that can only be a header of `sender`, at least [`STRICT_LEN`] bytes.
pub(super) fn out_of_sync(bytes: &[u8], sender: Role) -> Option<Opcode> {
    // Most positions are rejected here: a header is searched at every byte.
    if bytes.len() < STRICT_LEN || bytes[0] & 0x80 != 0 || ASSIGNED >> (bytes[0] & 0x3f) & 1 == 0 {
        return None;
    }
    let mut header = [0; 48];
    let known = bytes.len().min(48);
    header[..known].copy_from_slice(&bytes[..known]);
    let opcode = in_sync(&header, sender)?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    // Single-level LUN, or none.
    let flat_lun = header[10..16] == [0; 6];
    let tagged = word(16) != u32::MAX;
    let window = || known < 36 || word(32).wrapping_sub(word(28)).wrapping_add(1) < 1 << 20;
    let good = match opcode {
        Opcode::ScsiCommand => flat_lun && tagged && header[4] <= 12 && is_command(&header, word(20)),
        Opcode::DataOut => flat_lun && tagged && data_len(&header) > 0 && word(24) == 0,
        Opcode::DataIn => flat_lun && tagged && window() && (data_len(&header) > 0 || header[1] & 1 != 0),
        Opcode::R2t => flat_lun && tagged && word(20) != u32::MAX && window(),
        Opcode::ScsiResponse => header[8..16] == [0; 8] && tagged && data_len(&header) <= 512 && window(),
        Opcode::NopOut => flat_lun && (tagged || word(20) != u32::MAX) && data_len(&header) <= 8192,
        Opcode::NopIn => flat_lun && (tagged || word(20) != u32::MAX) && window(),
        Opcode::LoginRequest | Opcode::LoginResponse => tagged && is_stage(header[1]),
        Opcode::TaskManagementRequest | Opcode::TaskManagementResponse => flat_lun && tagged,
        // Rare, and with few fields to check.
        _ => false,
    };
    good.then_some(opcode)
}

/// True if `bytes` are a read or write of which CDB and expected length agree: data that looks like this by chance is out
/// of the question, even without any knowledge of the session.
pub(super) fn is_certain(bytes: &[u8]) -> bool {
    let Some(header) = bytes.first_chunk::<48>() else { return false };
    if header[0] & 0x3f != Opcode::ScsiCommand.code() || out_of_sync(header, Role::Unknown).is_none() {
        return false;
    }
    let cdb = &header[32..];
    let blocks = match cdb[0] {
        0x08 | 0x0a => u32::from_be_bytes([0, 0, 0, cdb[4]]),
        0x28 | 0x2a => u32::from_be_bytes([0, 0, cdb[7], cdb[8]]),
        0xa8 | 0xaa => u32::from_be_bytes([cdb[6], cdb[7], cdb[8], cdb[9]]),
        0x88 | 0x8a => u32::from_be_bytes([cdb[10], cdb[11], cdb[12], cdb[13]]),
        _ => return false,
    };
    // The last bits of these operation codes: 8 reads, a writes.
    let flag = if cdb[0] & 0x0f == 0x08 { 0x40 } else { 0x20 };
    let bytes = u32::from_be_bytes([header[20], header[21], header[22], header[23]]);
    let block = bytes.checked_div(blocks).filter(|block| bytes == block * blocks);
    header[1] & 0x60 == flag && block.is_some_and(|block| matches!(block, 512 | 520 | 528 | 4096 | 4160))
}

/// True for opcodes of which [`out_of_sync`] finds none.
pub(super) fn is_rare(opcode: Opcode) -> bool {
    use Opcode::{
        AsyncMessage, LogoutRequest, LogoutResponse, Reject, SnackRequest, TextRequest, TextResponse,
    };
    matches!(
        opcode,
        TextRequest | TextResponse | LogoutRequest | LogoutResponse | Reject | AsyncMessage | SnackRequest
    )
}

/// True if flags, lengths and expected length of a SCSI command agree (RFC 7143 section 11.3).
fn is_command(header: &[u8; 48], expected: u32) -> bool {
    let (flags, moves) = (header[1], header[1] & 0x60 != 0);
    // Without the final bit unsolicited data follows, which only a write has; so it is with immediate data.
    let writes = flags & 0x20 != 0;
    let is_whole = flags & 0x80 != 0 && data_len(header) == 0;
    (writes || is_whole) && (expected > 0) == moves
}

/// True for stages of a login: RFC 7143 section 11.12.3.
fn is_stage(flags: u8) -> bool {
    let (current, next) = (flags >> 2 & 3, flags & 3);
    current < 2 && (flags & 0x80 == 0 || (next > current && next != 2))
}

fn data_len(header: &[u8; 48]) -> usize {
    usize::from(header[5]) << 16 | usize::from(header[6]) << 8 | usize::from(header[7])
}

/// Checks flags, reserved bytes and lengths of an opcode.
fn shape(opcode: Opcode, header: &[u8; 48]) -> bool {
    let (flags, len) = (header[1], data_len(header));
    let reserved = header[2] == 0 && header[3] == 0;
    let only_commands = header[4] == 0 || opcode == Opcode::ScsiCommand;
    let response = opcode.is_request() || header[0] & 0x40 == 0;
    only_commands
        && response
        && match opcode {
            Opcode::NopOut | Opcode::NopIn => flags == 0x80 && reserved,
            Opcode::ScsiCommand => flags & 0x18 == 0 && flags & 0x07 <= 4 && reserved,
            Opcode::TaskManagementRequest => flags & 0x80 != 0 && len == 0 && reserved,
            Opcode::LoginRequest => flags & 0x30 == 0 && reserved && len <= 1 << 16,
            Opcode::LoginResponse => flags & 0x30 == 0 && header[2] == 0 && len <= 1 << 16,
            Opcode::TextRequest | Opcode::TextResponse => flags & 0x3f == 0 && reserved,
            Opcode::DataOut => flags & 0x7f == 0 && reserved,
            Opcode::LogoutRequest => flags & 0x80 != 0 && len == 0 && reserved,
            Opcode::SnackRequest => flags & 0xf0 == 0x80 && len == 0 && reserved,
            Opcode::ScsiResponse => flags & 0xe1 == 0x80 && status(header[3]),
            Opcode::TaskManagementResponse | Opcode::LogoutResponse => flags == 0x80 && len == 0,
            Opcode::DataIn => {
                flags & 0x38 == 0
                    && header[2] == 0
                    && if flags & 1 != 0 { status(header[3]) } else { header[3] == 0 }
            }
            Opcode::R2t => flags == 0x80 && len == 0 && reserved,
            Opcode::AsyncMessage => flags == 0x80 && reserved,
            Opcode::Reject => flags == 0x80 && header[3] == 0,
        }
}

/// True for a status code of SAM-5 section 5.3.
fn status(code: u8) -> bool {
    matches!(code, 0x00 | 0x02 | 0x04 | 0x08 | 0x18 | 0x28 | 0x30 | 0x40)
}

#[cfg(test)]
mod tests {
    use wire::iscsi::{Lun, Pdu, R2t};

    use super::*;

    fn r2t() -> [u8; 48] {
        let pdu = R2t {
            lun: Lun::from_number(1),
            itt: 5,
            ttt: 9,
            stat_sn: 1,
            exp_cmd_sn: 10,
            max_cmd_sn: 41,
            r2t_sn: 0,
            buffer_offset: 0,
            desired_len: 512,
        };
        let mut header = [0; 48];
        Pdu::from(pdu).emit(&mut header);
        header
    }

    #[test]
    fn a_header_is_found_by_its_sender() {
        let mut header = r2t();
        for (sender, found) in [(Role::Unknown, true), (Role::Target, true), (Role::Initiator, false)] {
            assert_eq!(out_of_sync(&header, sender).is_some(), found);
            assert_eq!(in_sync(&header, sender).is_some(), found);
        }
        assert_eq!(out_of_sync(&header[..28], Role::Target), Some(Opcode::R2t));
        assert_eq!(out_of_sync(&header[..27], Role::Target), None);
        // MaxCmdSN far from ExpCmdSN.
        header[32] = 0x40;
        assert_eq!(out_of_sync(&header, Role::Target), None);
        assert_eq!(in_sync(&header, Role::Target), Some(Opcode::R2t));
    }

    #[test]
    fn data_is_hardly_ever_a_header() {
        // A linear congruential generator is random enough here.
        let mut state = 7_u64;
        let mut found = 0;
        let mut bytes = [0; 48];
        for _ in 0..1_000_000 {
            bytes.rotate_left(1);
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes[47] = (state >> 56) as u8;
            found += u32::from(out_of_sync(&bytes, Role::Unknown).is_some());
        }
        assert_eq!(found, 0);
        for byte in 0..=255 {
            assert_eq!(out_of_sync(&[byte; 48], Role::Unknown), None, "{byte:02x} all over");
        }
    }
}
