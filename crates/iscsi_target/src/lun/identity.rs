//! The names by which initiators and multipath tell LUNs apart: the same after every start, different
//! for any two LUNs of any two targets.
//!
//! They are derived from the target's name, the number and the place of the bytes by a 64-bit hash, so
//! that nobody has to keep a file of them. The hash is no secret and no proof of anything.

/// The names of a LUN and of the target it belongs to (SPC-4 section 7.8.6).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    /// Name of the target.
    pub iqn: String,
    /// Unit serial number: 16 hexadecimal digits.
    pub serial: String,
    /// NAA designator, format 3h, locally assigned: unique at this site, no registered company needed.
    pub naa: [u8; 8],
}

/// Tag of the only portal group of a target (RFC 7143 section 4.4.1): in the name of its port here, and in
/// login and SendTargets.
pub const PORTAL_GROUP_TAG: u16 = 1;

/// NAA field of a locally assigned designator, in the top four bits.
const NAA_LOCALLY_ASSIGNED: u64 = 0x3 << 60;

impl Identity {
    pub(super) fn derive(iqn: &str, number: u16, kind: &str, origin: &[u8]) -> Identity {
        // Lengths in front, so that no two lists of parts run together into the same bytes.
        let parts = [iqn.as_bytes(), &number.to_be_bytes(), kind.as_bytes(), origin];
        let hash = parts.iter().fold(FNV_OFFSET, |hash, part| {
            let hash = fnv(hash, &(part.len() as u64).to_be_bytes());
            fnv(hash, part)
        });
        let value = spread(hash);
        Identity {
            iqn: iqn.to_owned(),
            serial: format!("{value:016x}"),
            naa: (NAA_LOCALLY_ASSIGNED | (value & !(0xf << 60))).to_be_bytes(),
        }
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a: published, stable, and enough for a handful of names. Std's hasher may change any day.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

/// FNV leaves the last bytes in the low bits; two multiplications carry them to all of them.
fn spread(mut value: u64) -> u64 {
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        value = (value ^ (value >> 30)).wrapping_mul(factor);
    }
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_stable_over_releases() {
        let identity = Identity::derive("iqn.2026-11.io.farlun:lab", 0, "memory", b"");
        assert_eq!(identity.serial, "2b583dad365d21c3");
        assert_eq!(identity.naa[0] >> 4, 3, "locally assigned");
        assert_eq!(identity.naa[1..], u64::from_str_radix(&identity.serial, 16).unwrap().to_be_bytes()[1..]);
    }

    #[test]
    fn every_part_counts() {
        let base = Identity::derive("iqn.a", 0, "file", b"/x");
        for other in [
            Identity::derive("iqn.b", 0, "file", b"/x"),
            Identity::derive("iqn.a", 1, "file", b"/x"),
            Identity::derive("iqn.a", 0, "memory", b"/x"),
            Identity::derive("iqn.a", 0, "file", b"/y"),
            Identity::derive("iqn.a", 0, "fil", b"e/x"),
        ] {
            assert_ne!(base, other);
            assert_ne!(base.naa, other.naa);
        }
    }
}
