//! Text keys and their values: RFC 7143 section 6.1.
//!
//! `key=value` in UTF-8, each ended by a NUL. `proto` knows the keys and their valid values. The caller joins text that
//! was split over several PDUs (the C bit) first.

/// Most bytes of a key.
pub const KEY_LEN_MAX: usize = 63;

/// Reasons why a data segment is not key=value text. Offsets are in bytes from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The last pair has no NUL.
    #[error("the pair at byte {at} is not ended by a NUL")]
    NotTerminated {
        /// Offset of the pair.
        at: usize,
    },
    /// A pair without an equals sign.
    #[error("the pair at byte {at} has no equals sign")]
    NoEquals {
        /// Offset of the pair.
        at: usize,
    },
    /// An empty or too long key.
    #[error("the key at byte {at} has {found} bytes, expected 1 to {KEY_LEN_MAX}")]
    KeyLength {
        /// Offset of the key.
        at: usize,
        /// Length of the key.
        found: usize,
    },
    /// A character that keys may not have.
    #[error(
        "the key has the byte {found:#04x} at byte {at}, expected a letter, a digit or one of . - + @ _ #"
    )]
    KeyCharacter {
        /// Offset of the character.
        at: usize,
        /// The character.
        found: u8,
    },
    /// A value that is not UTF-8.
    #[error("the value at byte {at} is not UTF-8")]
    NotUtf8 {
        /// Offset of the value.
        at: usize,
    },
}

/// Iterates over the pairs of a data segment, keys before values. Ends after the first error; NULs behind the
/// last pair are skipped.
pub fn pairs(data_segment: &[u8]) -> Pairs<'_> {
    Pairs { bytes: data_segment, at: 0 }
}

/// See [`pairs`].
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a str, &'a str), TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.bytes[self.at..];
        if rest.iter().all(|&byte| byte == 0) {
            self.at = self.bytes.len();
            return None;
        }
        let start = self.at;
        let pair = match rest.iter().position(|&byte| byte == 0) {
            Some(len) => {
                self.at += len + 1;
                split(&rest[..len], start)
            }
            None => Err(TextError::NotTerminated { at: start }),
        };
        if pair.is_err() {
            self.at = self.bytes.len();
        }
        Some(pair)
    }
}

/// Appends pairs to a data segment.
#[derive(Debug)]
pub struct TextWriter<'a> {
    bytes: &'a mut Vec<u8>,
}

impl<'a> TextWriter<'a> {
    /// Continues at the end of `bytes`.
    pub const fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Appends one pair.
    ///
    /// # Panics
    /// If the key is not one that [`pairs`] accepts, or the value has a NUL.
    pub fn push(&mut self, key: &str, value: &str) -> &mut Self {
        assert!(check_key(key.as_bytes(), 0).is_ok(), "{key:?} is not a text key");
        assert!(!value.contains('\0'), "the value {value:?} of {key} has a NUL");
        for part in [key, "=", value, "\0"] {
            self.bytes.extend_from_slice(part.as_bytes());
        }
        self
    }
}

/// Reasons why a value is not of its key's type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Neither decimal nor hexadecimal, or above 2^64 − 1.
    #[error("found {found:?}, expected a decimal number or 0x and hexadecimal digits, below 2^64")]
    Number {
        /// The value.
        found: String,
    },
    /// Neither Yes nor No.
    #[error("found {found:?}, expected Yes or No")]
    Boolean {
        /// The value.
        found: String,
    },
    /// Neither hexadecimal nor base64.
    #[error("found {found:?}, expected 0x and hexadecimal digits or 0b and base64")]
    Binary {
        /// The value.
        found: String,
    },
}

/// A numerical value: decimal, or hexadecimal after `0x`.
///
/// # Errors
/// [`ValueError::Number`].
pub fn number(value: &str) -> Result<u64, ValueError> {
    let (digits, radix) = match strip_prefix(value, b'x') {
        Some(digits) => (digits, 16),
        None => (value, 10),
    };
    // from_str_radix would take a sign.
    let plain = !digits.is_empty() && digits.bytes().all(|digit| char::from(digit).is_digit(radix));
    let parsed = if plain { u64::from_str_radix(digits, radix).ok() } else { None };
    parsed.ok_or_else(|| ValueError::Number { found: value.into() })
}

/// A boolean value.
///
/// # Errors
/// [`ValueError::Boolean`].
pub fn boolean(value: &str) -> Result<bool, ValueError> {
    match value {
        "Yes" => Ok(true),
        "No" => Ok(false),
        _ => Err(ValueError::Boolean { found: value.into() }),
    }
}

/// The values of a list, in the order of preference.
pub fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',')
}

/// A large binary value: hexadecimal after `0x`, base64 after `0b`. An odd number of hexadecimal digits begins
/// with half a byte.
///
/// # Errors
/// [`ValueError::Binary`].
pub fn binary(value: &str) -> Result<Vec<u8>, ValueError> {
    let bytes = match (strip_prefix(value, b'x'), strip_prefix(value, b'b')) {
        (Some(digits), _) => from_hex(digits),
        (_, Some(digits)) => from_base64(digits),
        _ => None,
    };
    bytes.ok_or_else(|| ValueError::Binary { found: value.into() })
}

/// A binary value as text: `0x` and hexadecimal digits.
pub fn binary_text(bytes: &[u8]) -> String {
    use std::fmt::Write;

    bytes.iter().fold(String::from("0x"), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}

fn split(pair: &[u8], at: usize) -> Result<(&str, &str), TextError> {
    let equals = pair.iter().position(|&byte| byte == b'=').ok_or(TextError::NoEquals { at })?;
    let key = check_key(&pair[..equals], at)?;
    let value_at = at + equals + 1;
    let value = str::from_utf8(&pair[equals + 1..]).map_err(|_| TextError::NotUtf8 { at: value_at })?;
    Ok((key, value))
}

/// The sign # is for the public extension keys of RFC 3720. A first letter that is not a capital is let pass:
/// the key will be answered as not understood.
fn check_key(key: &[u8], at: usize) -> Result<&str, TextError> {
    if key.is_empty() || key.len() > KEY_LEN_MAX {
        return Err(TextError::KeyLength { at, found: key.len() });
    }
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b".-+@_#".contains(&byte);
    match key.iter().position(|&byte| !legal(byte)) {
        Some(index) => Err(TextError::KeyCharacter { at: at + index, found: key[index] }),
        None => Ok(str::from_utf8(key).expect("legal characters are ASCII")),
    }
}

fn strip_prefix(value: &str, letter: u8) -> Option<&str> {
    let prefixed = value.len() > 2 && value.as_bytes()[0] == b'0' && value.as_bytes()[1] | 0x20 == letter;
    prefixed.then(|| &value[2..])
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let nibbles = digits.chars().map(|digit| digit.to_digit(16).map(|nibble| nibble as u8));
    let mut bytes = Vec::with_capacity(digits.len().div_ceil(2));
    let mut half = (digits.len() % 2 == 1).then_some(0);
    for nibble in nibbles {
        let nibble = nibble?;
        match half.take() {
            Some(high) => bytes.push(high << 4 | nibble),
            None => half = Some(nibble),
        }
    }
    Some(bytes)
}

/// RFC 4648 section 4, with or without the padding.
fn from_base64(digits: &str) -> Option<Vec<u8>> {
    let body = digits.trim_end_matches('=');
    let padding = digits.len() - body.len();
    if padding > 2 || padding > 0 && !digits.len().is_multiple_of(4) || body.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(body.len() * 3 / 4);
    let (mut bits, mut bit_count) = (0u32, 0);
    for digit in body.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            bytes.push((bits >> bit_count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_error(bytes: &[u8]) -> TextError {
        pairs(bytes).find_map(Result::err).expect("an error")
    }

    #[test]
    fn pairs_go_both_ways() {
        let mut bytes = Vec::new();
        TextWriter::new(&mut bytes)
            .push("SendTargets", "All")
            .push("TargetAlias", "a=b, ö")
            .push("X-empty", "");
        assert_eq!(bytes, "SendTargets=All\0TargetAlias=a=b, ö\0X-empty=\0".as_bytes());
        bytes.extend_from_slice(&[0; 3]);
        let read = pairs(&bytes).collect::<Result<Vec<_>, _>>();
        assert_eq!(read, Ok(vec![("SendTargets", "All"), ("TargetAlias", "a=b, ö"), ("X-empty", "")]));
        assert_eq!(pairs(&[0; 4]).next(), None);
    }

    #[test]
    fn errors_say_where_and_end_the_iteration() {
        assert_eq!(first_error(b"A=1\0B=2"), TextError::NotTerminated { at: 4 });
        assert_eq!(first_error(b"A=1\0\0B=2\0"), TextError::NoEquals { at: 4 });
        assert_eq!(first_error(b"=1\0"), TextError::KeyLength { at: 0, found: 0 });
        let long = ["A".repeat(64).as_bytes(), b"=1\0"].concat();
        assert_eq!(first_error(&long), TextError::KeyLength { at: 0, found: 64 });
        assert_eq!(first_error(b"A=1\0B C=2\0"), TextError::KeyCharacter { at: 5, found: b' ' });
        assert_eq!(first_error(b"A=\xff\0"), TextError::NotUtf8 { at: 2 });
        assert_eq!(pairs(b"A\0B=2\0").count(), 1);
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!([number("262144"), number("0x40000"), number("0X0")], [Ok(262_144), Ok(0x40000), Ok(0)]);
        assert_eq!(number("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["", "0x", "-1", "+1", "1 ", "0xg", "18446744073709551616", "１"] {
            assert_eq!(number(wrong), Err(ValueError::Number { found: wrong.into() }));
        }
    }

    #[test]
    fn booleans_and_lists_are_exact() {
        assert_eq!([boolean("Yes"), boolean("No")], [Ok(true), Ok(false)]);
        assert_eq!(boolean("yes"), Err(ValueError::Boolean { found: "yes".into() }));
        assert_eq!(list("None,CRC32C").collect::<Vec<_>>(), ["None", "CRC32C"]);
    }

    #[test]
    fn binary_values_are_hexadecimal_or_base64() {
        assert_eq!(binary("0x1fF"), Ok(vec![0x01, 0xff]));
        // RFC 4648 section 10, with and without padding.
        assert_eq!(binary("0bZm9vYmE="), Ok(b"fooba".to_vec()));
        assert_eq!(binary("0BZm9vYg"), Ok(b"foob".to_vec()));
        assert_eq!(binary(&binary_text(&[0, 0xa5, 0xff])), Ok(vec![0, 0xa5, 0xff]));
        for wrong in ["12", "0x", "0xö", "0bZ", "0b=", "0bZg=", "0bZm9v====", "0bZ=9v", "ö"] {
            assert_eq!(binary(wrong), Err(ValueError::Binary { found: wrong.into() }));
        }
    }

    #[test]
    #[should_panic(expected = "is not a text key")]
    fn writing_an_illegal_key_is_our_mistake() {
        TextWriter::new(&mut Vec::new()).push("A=B", "1");
    }
}
