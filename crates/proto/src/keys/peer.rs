//! The private key by which two farlun peers recognise each other, and the form of its value.
//!
//! RFC 7143 section 13.22: a key that is not registered with IANA begins with `X-`, followed by a reversed DNS name and
//! the purpose of the key; it is for normal sessions only, and no peer has to understand it. Registered keys had the
//! prefix `X#` (RFC 3720 section 12.22; `X#NodeArchitecture` is one) and need none any more. This key is not
//! registered, so `X-` stays. `Y-` and `Z-` are not for keys: they begin unregistered names of digests (section 13.1)
//! and of authentication methods (section 12.1) among the values. The name keeps to the key characters of section 6.1
//! (a capital letter, then letters, digits, `.`, `-`, `+`, `@`, `_`, 63 bytes at most), because some peers drop a
//! connection over a key that they cannot parse.

/// The name of the key.
pub(super) const NAME: &str = "X-io.farlun.peer";

/// Value of the key on this side: software and version.
pub const SOFTWARE: &str = concat!("farlun/", env!("CARGO_PKG_VERSION"));

/// The longest accepted value, in bytes.
const LONGEST: usize = 64;

/// The peer's software, or `None` if the value is not of the form `name/version`.
pub fn read_software(value: &str) -> Option<String> {
    let (name, version) = value.split_once('/')?;
    let plain = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+'))
    };
    (value.len() <= LONGEST && plain(name) && plain(version)).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_value_is_understood_and_our_key_is_a_legal_name() {
        assert_eq!(read_software(SOFTWARE).as_deref(), Some(SOFTWARE));
        assert!(NAME.len() <= 63 && NAME.starts_with("X-"));
        assert!(NAME.bytes().all(|b| b.is_ascii_alphanumeric() || b".-+@_".contains(&b)));
    }

    #[test]
    fn other_values_name_nobody() {
        let long = format!("farlun/{}", "1".repeat(64));
        for value in
            ["", "farlun", "/1", "farlun/", "far lun/1", "farlun/1/2", "NotUnderstood", "Reject", &long]
        {
            assert_eq!(read_software(value), None, "{value:?}");
        }
    }
}
