//! Fixed newstyle handshake: NBD protocol, "Newstyle negotiation".

use super::field::message;

message! {
    /// The server's first message: `NBDMAGIC`, `IHAVEOPT` and the handshake flags.
    NewstyleGreeting, 18 bytes,
    magic [INIT_MAGIC(0): u64 = 0x4e42_444d_4147_4943, OPTION_MAGIC(8): u64 = 0x4948_4156_454f_5054];
    /// Bits of [`handshake_flag`](super::handshake_flag).
    flags: u16 = 16,
}

message! {
    /// The client's answer to the greeting.
    ClientFlags, 4 bytes;
    /// Bits of [`client_flag`](super::client_flag).
    flags: u32 = 0,
}

message! {
    /// The answer to NBD_OPT_EXPORT_NAME. [`ExportNameReply::PADDING_LEN`] bytes of zeros follow unless both ends set
    /// NO_ZEROES.
    ExportNameReply, 10 bytes;
    /// Size of the export in bytes.
    size_bytes: u64 = 0,
    /// Bits of [`transmission_flag`](super::transmission_flag).
    flags: u16 = 8,
}

impl ExportNameReply {
    /// Zeros behind the reply, in bytes.
    pub const PADDING_LEN: usize = 124;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::field::check;

    #[test]
    fn known_bytes() {
        check("4e42444d41474943 49484156454f5054 0003", &NewstyleGreeting { flags: 3 });
        check("00000003", &ClientFlags { flags: 3 });
        check("0000000040000000 0065", &ExportNameReply { size_bytes: 1 << 30, flags: 0x65 });
    }

    #[test]
    fn an_oldstyle_greeting_is_refused() {
        let mut bytes = NewstyleGreeting { flags: 0 }.to_bytes();
        bytes[8..16].copy_from_slice(&[0, 0, 0x42, 0x02, 0x81, 0x86, 0x12, 0x53]);
        let error = NewstyleGreeting::parse(&bytes).expect_err("oldstyle");
        assert_eq!(
            error.to_string(),
            "NewstyleGreeting has the magic number 0x420281861253, expected 0x49484156454f5054"
        );
    }
}
