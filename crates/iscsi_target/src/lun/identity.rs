//! Identity of a LUN, by which initiators and multipath distinguish LUNs: SPC-4 sections 7.8.6 (designators) and 7.8.15
//! (serial number).
//!
//! The identity is random, so that no two LUNs of any two targets share one, and is kept with the store: see
//! `persistent/store_identity.rs`. An operator may set it: `serial=` and `naa=`.

use std::fmt;
use std::str::FromStr;

use block::{OptionError, not};

/// The names of a LUN and of the target it belongs to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    /// Name of the target.
    pub iqn: String,
    /// Unit serial number.
    pub serial: Serial,
    /// Name of the logical unit.
    pub naa: Naa,
}

/// Unit serial number: 1 to 64 visible ASCII characters.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Serial(String);

/// NAA designator of 8 or 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Naa(NaaBytes);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum NaaBytes {
    Eight([u8; 8]),
    Sixteen([u8; 16]),
}

/// Tag of the only portal group of a target (RFC 7143 section 4.4.1): in the name of its port here, and in
/// login and SendTargets.
pub const PORTAL_GROUP_TAG: u16 = 1;

/// Longest serial number: initiators read 255 bytes of the page, and names of devices have to have room for it.
const SERIAL_MAX_BYTES: usize = 64;

/// NAA field of a locally assigned designator, in the top four bits: unique at this site, no registered company needed.
const NAA_LOCALLY_ASSIGNED: u64 = 0x3 << 60;

impl Serial {
    /// The number itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A number that no other LUN has.
    pub(super) fn fresh() -> Serial {
        Serial(format!("{:016x}", random()))
    }
}

impl FromStr for Serial {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Serial, OptionError> {
        let is_valid =
            (1..=SERIAL_MAX_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        let expected = "1 to 64 visible ASCII characters without blanks, such as serial=store1-disk7";
        is_valid.then(|| Serial(text.to_owned())).ok_or_else(|| not(text, "serial number", expected))
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Naa {
    /// The designator.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            NaaBytes::Eight(bytes) => bytes,
            NaaBytes::Sixteen(bytes) => bytes,
        }
    }

    /// A name that no other LUN has.
    pub(super) fn fresh() -> Naa {
        Naa(NaaBytes::Eight((NAA_LOCALLY_ASSIGNED | random() >> 4).to_be_bytes()))
    }
}

impl FromStr for Naa {
    type Err = OptionError;

    /// Hexadecimal digits, as they are or with the prefix of Linux's `wwid` or `by-id`.
    fn from_str(text: &str) -> Result<Naa, OptionError> {
        let expected = "16 hexadecimal digits that begin with 2, 3 or 5, or 32 that begin with 6, such as \
                        naa=3a1b2c3d4e5f6071";
        let digits = text.strip_prefix("naa.").or_else(|| text.strip_prefix("0x")).unwrap_or(text);
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let read = || match (digits.len(), digits.as_bytes().first()?) {
            (16, b'2' | b'3' | b'5') => {
                Some(NaaBytes::Eight(u64::from_str_radix(digits, 16).ok()?.to_be_bytes()))
            }
            (32, b'6') => Some(NaaBytes::Sixteen(u128::from_str_radix(digits, 16).ok()?.to_be_bytes())),
            _ => None,
        };
        is_hex.then(read).flatten().map(Naa).ok_or_else(|| not(text, "NAA designator", expected))
    }
}

impl fmt::Display for Naa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Unpredictable random number.
pub(super) fn random() -> u64 {
    let mut bytes = [0; 8];
    net::random::fill(&mut bytes);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_back() {
        for (text, written) in [
            ("3a1b2c3d4e5f6071", "3a1b2c3d4e5f6071"),
            ("naa.5000C500A1B2C3D4", "5000c500a1b2c3d4"),
            ("0x2000c500a1b2c3d4", "2000c500a1b2c3d4"),
            ("600140500a1b2c3d4e5f60718293a4b5", "600140500a1b2c3d4e5f60718293a4b5"),
        ] {
            let naa: Naa = text.parse().unwrap();
            assert_eq!(naa.to_string(), written);
            assert_eq!(naa.as_bytes().len() * 2, written.len());
        }
        for text in [
            "",
            "3",
            "1a1b2c3d4e5f6071",
            "6a1b2c3d4e5f6071",
            "3a1b2c3d4e5f607g",
            "3a1b2c3d4e5f60712",
            "+3a1b2c3d4e5f607",
        ] {
            let error = text.parse::<Naa>().unwrap_err().to_string();
            assert!(error.contains("is no NAA designator: expected 16"), "{text}: {error}");
        }
        assert_eq!("disk-7".parse::<Serial>().unwrap().as_str(), "disk-7");
        for text in ["", "two words", "ä", "tab\t", &"x".repeat(65)] {
            assert!(text.parse::<Serial>().is_err(), "{text}");
        }
    }

    #[test]
    fn fresh_names_are_locally_assigned_and_never_the_same() {
        let (one, other) = (Naa::fresh(), Naa::fresh());
        assert!(one != other && Serial::fresh() != Serial::fresh());
        assert_eq!(one.as_bytes()[0] >> 4, 3);
        assert_eq!(one.to_string().parse(), Ok(one));
        let serial = Serial::fresh();
        assert_eq!(serial.as_str().parse(), Ok(serial));
    }
}
