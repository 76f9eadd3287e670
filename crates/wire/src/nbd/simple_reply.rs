//! Simple replies: NBD protocol, "Simple reply message".

use super::field::message;

message! {
    /// Ends a request. The data of a successful NBD_CMD_READ follow, without a length.
    SimpleReply, 16 bytes, magic [MAGIC(0): u32 = 0x6744_6698];
    /// 0, or one of [`error_number`](super::error_number).
    error: u32 = 4,
    /// The cookie of the request.
    cookie: u64 = 8,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::field::check;

    #[test]
    fn an_error() {
        check("67446698 0000001c 0000000000000009", &SimpleReply { error: 28, cookie: 9 });
    }
}
