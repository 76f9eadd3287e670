//! Compact requests: NBD protocol, "Request message".

use super::field::message;

message! {
    /// A request of the transmission phase. The payload follows NBD_CMD_WRITE.
    RequestHeader, 28 bytes, magic [MAGIC(0): u32 = 0x2560_9513];
    /// Bits of [`command_flag`](super::command_flag).
    flags: u16 = 4,
    /// One of [`command`](super::command).
    command: u16 = 6,
    /// The client's name of the request, repeated in every reply.
    cookie: u64 = 8,
    /// Offset of the range in bytes.
    offset_bytes: u64 = 16,
    /// Length of the range in bytes.
    len_bytes: u32 = 24,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::field::check;
    use crate::nbd::{command, command_flag};

    #[test]
    fn a_write_with_fua() {
        let request = RequestHeader {
            flags: command_flag::FUA,
            command: command::WRITE,
            cookie: 0x0102_0304_0506_0708,
            offset_bytes: 1 << 32,
            len_bytes: 4096,
        };
        check("25609513 0001 0001 0102030405060708 0000000100000000 00001000", &request);
    }
}
