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

/// Makes a message's struct, `LEN`, `parse` and `emit` from a line per field with its offset. The fields and magic
/// numbers together cover every byte.
///
/// `magic [NAME(offset): type = value, ...]` makes a constant of each magic number, and `parse` fails on another number.
/// Without it every array of the length is a message, and `parse` cannot fail.
macro_rules! message {
    (@type
        $(#[$meta:meta])*
        $name:ident, $len:literal, [$($magic:ident($magic_at:literal): $magic_type:ty),*];
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

            fn load(bytes: &[u8; $len]) -> Self {
                Self { $($field: <$type as crate::nbd::field::Field>::load(bytes, $at),)+ }
            }

            /// Writes all bytes of the message.
            pub fn emit(&self, bytes: &mut [u8; $len]) {
                use crate::nbd::field::Field;
                $(<$magic_type>::store(Self::$magic, bytes, $magic_at);)*
                $(self.$field.store(bytes, $at);)+
            }

            /// The message as an array.
            pub fn to_bytes(&self) -> [u8; $len] {
                let mut bytes = [0; $len];
                self.emit(&mut bytes);
                bytes
            }
        }
    };
    (
        $(#[$meta:meta])*
        $name:ident, $len:literal bytes, magic [$($magic:ident($at:literal): $type:ty = $value:literal),+];
        $($fields:tt)+
    ) => {
        message! { @type $(#[$meta])* $name, $len, [$($magic($at): $type),+]; $($fields)+ }

        impl $name {
            $(
                #[doc = concat!("Magic number at offset ", $at, ".")]
                pub const $magic: $type = $value;
            )+

            /// Reads the message.
            ///
            /// # Errors
            /// Another magic number.
            pub fn parse(bytes: &[u8; $len]) -> Result<Self, crate::nbd::NbdFormatError> {
                $(
                    let found = <$type as crate::nbd::field::Field>::load(bytes, $at);
                    if found != Self::$magic {
                        return Err(crate::nbd::NbdFormatError::Magic {
                            message: stringify!($name),
                            expected: Self::$magic.into(),
                            found: found.into(),
                        });
                    }
                )+
                Ok(Self::load(bytes))
            }
        }

        #[cfg(test)]
        impl crate::nbd::field::Checked for $name {
            const MAGIC_OFFSETS: &'static [usize] = &[$($at),+];

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
    ($(#[$meta:meta])* $name:ident, $len:literal bytes; $($fields:tt)+) => {
        message! { @type $(#[$meta])* $name, $len, []; $($fields)+ }

        impl $name {
            /// Reads the message.
            pub fn parse(bytes: &[u8; $len]) -> Self {
                Self::load(bytes)
            }
        }

        #[cfg(test)]
        impl crate::nbd::field::Checked for $name {
            const MAGIC_OFFSETS: &'static [usize] = &[];

            fn reads(bytes: &[u8]) -> Result<Self, crate::nbd::NbdFormatError> {
                Ok(Self::parse(bytes.try_into().expect("as many bytes as the message has")))
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
    /// Offsets of its magic numbers.
    const MAGIC_OFFSETS: &'static [usize];

    fn reads(bytes: &[u8]) -> Result<Self, super::NbdFormatError>;
    fn writes(&self) -> Vec<u8>;
}

/// The bytes `hex` read as `message`, which writes the same over a buffer of 0xa5, so that an unset byte shows. Any other
/// magic number is refused.
#[cfg(test)]
#[track_caller]
pub(super) fn check<M: Checked>(hex: &str, message: &M) {
    let bytes = crate::hex::bytes(hex);
    assert_eq!(M::reads(&bytes).as_ref(), Ok(message));
    assert_eq!(message.writes(), bytes);
    for at in M::MAGIC_OFFSETS {
        let mut disturbed = bytes.clone();
        disturbed[*at] ^= 1;
        assert!(matches!(M::reads(&disturbed), Err(super::NbdFormatError::Magic { .. })));
    }
}
