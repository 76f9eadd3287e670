//! Whether bytes can be a basic header segment: RFC 7143 section 11.
//!
//! A receiver that is in step needs little; one that has lost its place, or begins in mid-connection, compares every
//! field that has few values, so that data is hardly ever taken for a header.

use wire::iscsi::Opcode;

/// Who sends on a direction, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Side {
    #[default]
    Unknown,
    Initiator,
    Target,
}

impl Side {
    pub(super) fn of(opcode: Opcode) -> Self {
        if opcode.is_request() { Self::Initiator } else { Self::Target }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Initiator => Self::Target,
            Self::Target => Self::Initiator,
        }
    }
}

/// A bit for every opcode there is.
const ASSIGNED: u64 = {
    let (mut bits, mut n) = (0, 0);
    while n < Opcode::ALL.len() {
        bits |= 1 << Opcode::ALL[n].code();
        n += 1;
    }
    bits
};

/// Bytes that must be known to find a lost place.
pub(super) const STRICT_LEN: usize = 28;

/// The opcode of a header that `side` may send; checks what decides how many bytes follow.
pub(super) fn in_step(header: &[u8; 48], side: Side) -> Option<Opcode> {
    let opcode = Opcode::from_code(header[0] & 0x3f).ok()?;
    let right_side = side == Side::Unknown || side == Side::of(opcode);
    (header[0] & 0x80 == 0 && right_side && shape(opcode, header)).then_some(opcode)
}

/// The opcode of what can be nothing else than a header; `bytes` are at least [`STRICT_LEN`].
pub(super) fn out_of_step(bytes: &[u8], side: Side) -> Option<Opcode> {
    // Most bytes are sorted out here: a lost place is looked for at every one.
    if bytes.len() < STRICT_LEN || bytes[0] & 0x80 != 0 || ASSIGNED >> (bytes[0] & 0x3f) & 1 == 0 {
        return None;
    }
    let mut header = [0; 48];
    let known = bytes.len().min(48);
    header[..known].copy_from_slice(&bytes[..known]);
    let opcode = in_step(&header, side)?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    // A single-level LUN, or none.
    let flat_lun = header[10..16] == [0; 6];
    let tagged = word(16) != u32::MAX;
    let window = || known < 36 || word(32).wrapping_sub(word(28)).wrapping_add(1) < 1 << 20;
    let good = match opcode {
        Opcode::ScsiCommand => flat_lun && tagged && header[4] <= 12,
        Opcode::DataOut => flat_lun && tagged && data_len(&header) > 0 && word(24) == 0,
        Opcode::DataIn => flat_lun && tagged && window(),
        Opcode::R2t => flat_lun && tagged && word(20) != u32::MAX && window(),
        Opcode::ScsiResponse => header[8..16] == [0; 8] && tagged && data_len(&header) <= 512 && window(),
        Opcode::NopOut => flat_lun && (tagged || word(20) != u32::MAX) && data_len(&header) <= 8192,
        Opcode::NopIn => flat_lun && (tagged || word(20) != u32::MAX) && window(),
        Opcode::LoginRequest | Opcode::LoginResponse => tagged,
        Opcode::TaskManagementRequest | Opcode::TaskManagementResponse => flat_lun && tagged,
        // Rare, and with little that could be compared.
        _ => false,
    };
    good.then_some(opcode)
}

fn data_len(header: &[u8; 48]) -> usize {
    usize::from(header[5]) << 16 | usize::from(header[6]) << 8 | usize::from(header[7])
}

/// Flags, reserved bytes and lengths that every PDU of the opcode has.
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

/// Statuses of SAM-5 section 5.3.
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
    fn a_header_is_found_by_who_may_send_it() {
        let mut header = r2t();
        for (side, found) in [(Side::Unknown, true), (Side::Target, true), (Side::Initiator, false)] {
            assert_eq!(out_of_step(&header, side).is_some(), found);
            assert_eq!(in_step(&header, side).is_some(), found);
        }
        assert_eq!(out_of_step(&header[..28], Side::Target), Some(Opcode::R2t));
        assert_eq!(out_of_step(&header[..27], Side::Target), None);
        // MaxCmdSN far from ExpCmdSN.
        header[32] = 0x40;
        assert_eq!(out_of_step(&header, Side::Target), None);
        assert_eq!(in_step(&header, Side::Target), Some(Opcode::R2t));
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
            found += u32::from(out_of_step(&bytes, Side::Unknown).is_some());
        }
        assert_eq!(found, 0);
        for byte in 0..=255 {
            assert_eq!(out_of_step(&[byte; 48], Side::Unknown), None, "{byte:02x} all over");
        }
    }
}
