//! Persistent reservations, data of PERSISTENT RESERVE IN and OUT: SPC-5 sections 6.16, 6.17.

use super::DataError;
use super::data::need;
use crate::be;

/// Type of a reservation: the access that it denies to others (SPC-5 table 245).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReservationType {
    /// Only the holder writes.
    WriteExclusive = 1,
    /// Only the holder reads and writes.
    ExclusiveAccess = 3,
    /// Only registered sessions write.
    WriteExclusiveRegistrants = 5,
    /// Only registered sessions read and write.
    ExclusiveAccessRegistrants = 6,
    /// Only registered sessions write, and all of them are holders.
    WriteExclusiveAll = 7,
    /// Only registered sessions read and write, and all of them are holders.
    ExclusiveAccessAll = 8,
}

impl ReservationType {
    /// The type with this code.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::WriteExclusive,
            3 => Self::ExclusiveAccess,
            5 => Self::WriteExclusiveRegistrants,
            6 => Self::ExclusiveAccessRegistrants,
            7 => Self::WriteExclusiveAll,
            8 => Self::ExclusiveAccessAll,
            _ => return None,
        })
    }

    /// Reading is for others, too.
    pub const fn allows_reads(self) -> bool {
        matches!(self, Self::WriteExclusive | Self::WriteExclusiveRegistrants | Self::WriteExclusiveAll)
    }

    /// True if every registered session has the holder's rights.
    pub const fn admits_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Every registered session is a holder.
    pub const fn is_held_by_all(self) -> bool {
        matches!(self, Self::WriteExclusiveAll | Self::ExclusiveAccessAll)
    }
}

/// The parameter list of PERSISTENT RESERVE OUT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReserveParameters {
    /// RESERVATION KEY: the sender's.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY: the new one, or the one to preempt.
    pub action_key: u64,
    /// SPEC_I_PT: other initiators are registered, too.
    pub for_others: bool,
    /// ALL_TG_PT: for all ports of the target.
    pub all_ports: bool,
    /// APTPL: kept over a power cycle.
    pub persist: bool,
}

impl ReserveParameters {
    /// Bytes of the list.
    pub const LEN: usize = 24;

    /// Writes the list.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        be::put_u64(&mut bytes, 0, self.key);
        be::put_u64(&mut bytes, 8, self.action_key);
        bytes[20] = u8::from(self.for_others) << 3 | u8::from(self.all_ports) << 2 | u8::from(self.persist);
        bytes
    }

    /// Reads the list.
    ///
    /// # Errors
    /// [`DataError::Truncated`] below 24 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, DataError> {
        need("PERSISTENT RESERVE OUT parameter list", bytes, Self::LEN)?;
        Ok(Self {
            key: be::u64_at(bytes, 0),
            action_key: be::u64_at(bytes, 8),
            for_others: bytes[20] & 0x08 != 0,
            all_ports: bytes[20] & 0x04 != 0,
            persist: bytes[20] & 0x01 != 0,
        })
    }
}

/// READ KEYS data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReserveKeys {
    /// PRGENERATION: counts changes of the registrations.
    pub generation: u32,
    /// One per registered session.
    pub keys: Vec<u64>,
}

impl ReserveKeys {
    /// Writes the data.
    pub fn emit(&self) -> Vec<u8> {
        let keys: Vec<u8> = self.keys.iter().flat_map(|key| key.to_be_bytes()).collect();
        with_header(self.generation, &keys)
    }
}

/// Writes READ RESERVATION data: the holder's key and the type, if there is a reservation.
pub fn emit_reservation(generation: u32, held: Option<(u64, ReservationType)>) -> Vec<u8> {
    let mut body = Vec::new();
    if let Some((key, kind)) = held {
        body.extend_from_slice(&key.to_be_bytes());
        body.extend_from_slice(&[0, 0, 0, 0, 0, kind as u8, 0, 0]);
    }
    with_header(generation, &body)
}

/// REPORT CAPABILITIES data: all six types are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReserveCapabilities {
    /// CRH: RESERVE and RELEASE do no harm to a registered session (SPC-2).
    pub compatible: bool,
    /// ATP_C: registrations for all ports are possible.
    pub all_ports: bool,
    /// PTPL_C: reservations can be kept over a power cycle.
    pub can_persist: bool,
    /// PTPL_A: they are.
    pub persists: bool,
}

impl ReserveCapabilities {
    /// Writes the data.
    pub fn emit(self) -> [u8; 8] {
        const TYPE_MASK_VALID: u8 = 0x80;
        const TYPES: [u8; 2] = [0xea, 0x01];
        let flags =
            u8::from(self.compatible) << 4 | u8::from(self.all_ports) << 2 | u8::from(self.can_persist);
        [0, 8, flags, TYPE_MASK_VALID | u8::from(self.persists), TYPES[0], TYPES[1], 0, 0]
    }
}

/// A registered session in READ FULL STATUS data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registrant<'a> {
    /// Its key.
    pub key: u64,
    /// The reservation it holds.
    pub holds: Option<ReservationType>,
    /// RELATIVE TARGET PORT IDENTIFIER.
    pub relative_port: u16,
    /// Name of the initiator.
    pub name: &'a str,
    /// Its part of the session id.
    pub isid: [u8; 6],
}

/// Writes the first `most_bytes` of READ FULL STATUS data; the length in its header is that of all.
pub fn emit_full_status<'a>(
    generation: u32,
    registrants: impl IntoIterator<Item = Registrant<'a>>,
    most_bytes: usize,
) -> Vec<u8> {
    let mut data = with_header(generation, &[]);
    let header_bytes = data.len();
    let mut body_bytes = 0;
    for registrant in registrants {
        body_bytes += registrant.descriptor_bytes();
        if data.len() < most_bytes {
            registrant.put(&mut data);
        }
    }
    data[4..header_bytes].copy_from_slice(&(body_bytes as u32).to_be_bytes());
    data.truncate(most_bytes);
    data
}

impl Registrant<'_> {
    fn put(&self, data: &mut Vec<u8>) {
        let port = self.transport_id();
        data.extend_from_slice(&self.key.to_be_bytes());
        data.extend_from_slice(&[0; 4]);
        data.extend_from_slice(&[
            u8::from(self.holds.is_some()),
            self.holds.map_or(0, |kind| kind as u8),
            0,
            0,
            0,
            0,
        ]);
        data.extend_from_slice(&self.relative_port.to_be_bytes());
        data.extend_from_slice(&(port.len() as u32).to_be_bytes());
        data.extend_from_slice(&port);
    }

    fn descriptor_bytes(&self) -> usize {
        const BEFORE_PORT: usize = 24;
        const AROUND_NAME: usize = 4 + ",i,0x".len() + 12 + 1;
        BEFORE_PORT + (AROUND_NAME + self.name.len()).next_multiple_of(4).max(24)
    }

    /// TransportID of an iSCSI initiator port: SPC-5 section 7.6.4.6.
    fn transport_id(&self) -> Vec<u8> {
        const WITH_ISID_ISCSI: u8 = 0x45;
        let isid: String = self.isid.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut bytes = vec![WITH_ISID_ISCSI, 0, 0, 0];
        bytes.extend_from_slice(format!("{},i,0x{isid}\0", self.name).as_bytes());
        let len = bytes.len().next_multiple_of(4).max(24);
        bytes.resize(len, 0);
        be::put_u16(&mut bytes, 2, (len - 4) as u16);
        bytes
    }
}

fn with_header(generation: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).expect("there are not that many registrations");
    [&generation.to_be_bytes(), &len.to_be_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::check::{bytes, check};

    #[test]
    fn parameter_list() {
        let list = ReserveParameters {
            key: 1,
            action_key: 0xabba << 48,
            for_others: true,
            all_ports: true,
            persist: true,
        };
        let hex = "0000000000000001 abba000000000000 00000000 0d 000000";
        check(hex, &list, ReserveParameters::parse, |list| list.emit().to_vec());
    }

    #[test]
    fn returned_data() {
        let keys = ReserveKeys { generation: 3, keys: vec![1, 2] };
        assert_eq!(keys.emit(), bytes("00000003 00000010 0000000000000001 0000000000000002"));
        assert_eq!(emit_reservation(3, None), bytes("00000003 00000000"));
        let held = Some((7, ReservationType::ExclusiveAccess));
        assert_eq!(
            emit_reservation(3, held),
            bytes("00000003 00000010 0000000000000007 00000000 00 03 0000")
        );
        let capabilities = ReserveCapabilities { compatible: true, ..ReserveCapabilities::default() };
        assert_eq!(capabilities.emit(), bytes("0008 10 80 ea01 0000")[..]);
        let capabilities = ReserveCapabilities { can_persist: true, persists: true, ..Default::default() };
        assert_eq!(capabilities.emit(), bytes("0008 01 81 ea01 0000")[..]);
        let registrant = Registrant {
            key: 7,
            holds: Some(ReservationType::WriteExclusive),
            relative_port: 1,
            name: "iqn.a",
            isid: [0x80, 0, 0, 1, 2, 3],
        };
        let hex = "00000001 00000034 0000000000000007 00000000 01 01 00000000 0001 0000001c \
                   45000018 69716e2e61 2c692c3078 383030303030303130323033 00 00";
        assert_eq!(emit_full_status(1, [registrant], usize::MAX), bytes(hex));
        assert_eq!(emit_full_status(1, [registrant], 48), bytes(hex)[..48]);
        let long = Registrant { name: "iqn.2026-11.org.example:long", ..registrant };
        let all = emit_full_status(1, [registrant, long, registrant], usize::MAX);
        assert_eq!(all[4..8], (all.len() as u32 - 8).to_be_bytes());
        for most_bytes in [0, 4, 8, 50, 100, 200] {
            let most_bytes = most_bytes.min(all.len());
            let found = emit_full_status(1, [registrant, long, registrant], most_bytes);
            assert_eq!(found, all[..most_bytes], "{most_bytes}");
        }
    }

    #[test]
    fn types() {
        for code in 0..=15 {
            assert!(ReservationType::from_code(code).is_none_or(|kind| kind as u8 == code));
        }
        assert_eq!((0..=15).filter(|&code| ReservationType::from_code(code).is_some()).count(), 6);
    }
}
