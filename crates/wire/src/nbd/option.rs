//! Headers of options and of their replies: NBD protocol, "Newstyle negotiation".

use super::field::message;

message! {
    /// An option request of the client; `len_bytes` of data follow.
    OptionRequest, 16 bytes, magic [MAGIC(0): u64 = 0x4948_4156_454f_5054];
    /// One of [`option_code`](super::option_code).
    option: u32 = 8,
    /// Length of the data.
    len_bytes: u32 = 12,
}

message! {
    /// A reply of the server to an option; `len_bytes` of data follow.
    OptionReplyHeader, 20 bytes, magic [MAGIC(0): u64 = 0x0003_e889_0455_65a9];
    /// The option that it answers.
    option: u32 = 8,
    /// One of [`reply_type`](super::reply_type).
    reply: u32 = 12,
    /// Length of the data.
    len_bytes: u32 = 16,
}

impl OptionReplyHeader {
    /// True if the option failed; the data are a text for a human then.
    pub const fn is_error(&self) -> bool {
        self.reply & 1 << 31 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::field::check;
    use crate::nbd::{option_code, reply_type};

    #[test]
    fn known_bytes() {
        let request = OptionRequest { option: option_code::GO, len_bytes: 12 };
        check("49484156454f5054 00000007 0000000c", &request);
        let reply = OptionReplyHeader { option: 7, reply: reply_type::ERR_UNKNOWN, len_bytes: 4 };
        check("0003e889045565a9 00000007 80000006 00000004", &reply);
        assert!(reply.is_error());
        assert!(!OptionReplyHeader { reply: reply_type::ACK, ..reply }.is_error());
    }
}
