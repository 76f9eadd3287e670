//! The table from which a fixed message's `parse` and `emit` are made, so that the two cannot disagree.

use crate::be;

/// An integer of a message, stored in big-endian order.
pub(super) trait Field {
    fn load(bytes: &[u8], at: usize) -> Self;
    fn store(self, bytes: &mut [u8], at: usize);
}

impl Field for u16 {
    fn load(bytes: &[u8], at: usize) -> u16 {
        be::u16_at(bytes, at)
    }

    fn store(self, bytes: &mut [u8], at: usize) {
        be::put_u16(bytes, at, self);
    }
}

impl Field for u32 {
    fn load(bytes: &[u8], at: usize) -> u32 {
        be::u32_at(bytes, at)
    }

    fn store(self, bytes: &mut [u8], at: usize) {
        be::put_u32(bytes, at, self);
    }
}

impl Field for u64 {
    fn load(bytes: &[u8], at: usize) -> u64 {
        be::u64_at(bytes, at)
    }

    fn store(self, bytes: &mut [u8], at: usize) {
        be::put_u64(bytes, at, self);
    }
}

/// Makes a message's struct, `LEN`, `parse` and `emit` from its magic numbers and a line per field with its offset.
/// The fields and magic numbers together cover every byte.
macro_rules! message {
    (
        $(#[$meta:meta])*
        $name:ident, $len:literal bytes, magic [$($magic_at:literal: $magic_type:ty = $magic:literal),*];
        $($(#[$field_meta:meta])* $field:ident: $type:ty = $at:literal,)+
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)+
        }

        impl $name {
            /// Length of the message in bytes.
            pub const LEN: usize = $len;

            /// Reads the message.
            ///
            /// # Errors
            /// Another magic number.
            pub fn parse(bytes: &[u8; $len]) -> Result<Self, crate::nbd::NbdFormatError> {
                use crate::nbd::field::Field;
                $(
                    let found = <$magic_type>::load(bytes, $magic_at);
                    if found != $magic {
                        return Err(crate::nbd::NbdFormatError::Magic {
                            message: stringify!($name),
                            expected: $magic,
                            found: found.into(),
                        });
                    }
                )*
                Ok(Self { $($field: <$type>::load(bytes, $at),)+ })
            }

            /// Writes all bytes of the message.
            pub fn emit(&self, bytes: &mut [u8; $len]) {
                use crate::nbd::field::Field;
                $(<$magic_type>::store($magic, bytes, $magic_at);)*
                $(self.$field.store(bytes, $at);)+
            }

            /// The message as an array.
            pub fn to_bytes(&self) -> [u8; $len] {
                let mut bytes = [0; $len];
                self.emit(&mut bytes);
                bytes
            }
        }

        #[cfg(test)]
        impl crate::nbd::field::Checked for $name {
            fn reads(bytes: &[u8]) -> Result<Self, crate::nbd::NbdFormatError> {
                Self::parse(bytes.try_into().expect("as many bytes as the message has"))
            }

            fn writes(&self) -> Vec<u8> {
                let mut bytes = [0xa5; $len];
                self.emit(&mut bytes);
                bytes.to_vec()
            }
        }
    };
}
pub(super) use message;

/// A fixed message under test.
#[cfg(test)]
pub(super) trait Checked: Sized + std::fmt::Debug + PartialEq {
    fn reads(bytes: &[u8]) -> Result<Self, super::NbdFormatError>;
    fn writes(&self) -> Vec<u8>;
}

/// The bytes `hex` read as `message`, which writes the same over a buffer of 0xa5, so that an unset byte shows. With a
/// magic number (`has_magic`), another first byte is refused.
#[cfg(test)]
#[track_caller]
pub(super) fn check<M: Checked>(hex: &str, message: &M, has_magic: bool) {
    let digits = hex.split_whitespace().collect::<String>();
    let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
    let mut bytes = bytes.collect::<Result<Vec<u8>, _>>().expect("hexadecimal");
    assert_eq!(M::reads(&bytes).as_ref(), Ok(message));
    assert_eq!(message.writes(), bytes);
    if has_magic {
        bytes[0] ^= 1;
        assert!(matches!(M::reads(&bytes), Err(super::NbdFormatError::Magic { .. })));
    }
}
