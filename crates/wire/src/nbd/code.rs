//! Numbers and flags of the NBD protocol under its own names, one module per field.

use crate::codes::codes;

codes! {
    /// NBD_FLAG_*: handshake flags of the server.
    handshake_flag: u16 {
        FIXED_NEWSTYLE = 1, "fixed newstyle";
        NO_ZEROES = 2, "no zeros behind the answer to NBD_OPT_EXPORT_NAME";
    }

    /// NBD_FLAG_C_*: handshake flags of the client.
    client_flag: u32 {
        FIXED_NEWSTYLE = 1, "fixed newstyle";
        NO_ZEROES = 2, "no zeros behind the answer to NBD_OPT_EXPORT_NAME";
    }

    /// NBD_OPT_*: options.
    option: u32 {
        EXPORT_NAME = 1, "NBD_OPT_EXPORT_NAME";
        ABORT = 2, "NBD_OPT_ABORT";
        LIST = 3, "NBD_OPT_LIST";
        STARTTLS = 5, "NBD_OPT_STARTTLS";
        INFO = 6, "NBD_OPT_INFO";
        GO = 7, "NBD_OPT_GO";
        STRUCTURED_REPLY = 8, "NBD_OPT_STRUCTURED_REPLY";
        LIST_META_CONTEXT = 9, "NBD_OPT_LIST_META_CONTEXT";
        SET_META_CONTEXT = 10, "NBD_OPT_SET_META_CONTEXT";
        EXTENDED_HEADERS = 11, "NBD_OPT_EXTENDED_HEADERS";
    }

    /// NBD_REP_*: replies to options.
    reply_type: u32 {
        ACK = 1, "done";
        SERVER = 2, "an export";
        INFO = 3, "information about an export";
        META_CONTEXT = 4, "a metadata context";
        ERR_UNSUP = 1 << 31 | 1, "option not supported";
        ERR_POLICY = 1 << 31 | 2, "forbidden by policy";
        ERR_INVALID = 1 << 31 | 3, "invalid request";
        ERR_PLATFORM = 1 << 31 | 4, "not supported on this platform";
        ERR_TLS_REQD = 1 << 31 | 5, "TLS required";
        ERR_UNKNOWN = 1 << 31 | 6, "no such export";
        ERR_SHUTDOWN = 1 << 31 | 7, "server is shutting down";
        ERR_BLOCK_SIZE_REQD = 1 << 31 | 8, "block sizes must be requested";
        ERR_TOO_BIG = 1 << 31 | 9, "request too big";
        ERR_EXT_HEADER_REQD = 1 << 31 | 10, "extended headers required";
    }

    /// NBD_INFO_*: information about an export.
    info_type: u16 {
        EXPORT = 0, "size and flags";
        NAME = 1, "canonical name";
        DESCRIPTION = 2, "description";
        BLOCK_SIZE = 3, "block sizes";
    }

    /// NBD_FLAG_*: transmission flags of an export.
    transmission_flag: u16 {
        HAS_FLAGS = 1, "has flags";
        READ_ONLY = 1 << 1, "read-only";
        SEND_FLUSH = 1 << 2, "NBD_CMD_FLUSH";
        SEND_FUA = 1 << 3, "NBD_CMD_FLAG_FUA";
        ROTATIONAL = 1 << 4, "rotational medium";
        SEND_TRIM = 1 << 5, "NBD_CMD_TRIM";
        SEND_WRITE_ZEROES = 1 << 6, "NBD_CMD_WRITE_ZEROES";
        SEND_DF = 1 << 7, "NBD_CMD_FLAG_DF";
        CAN_MULTI_CONN = 1 << 8, "a flush holds for all connections";
        SEND_RESIZE = 1 << 9, "NBD_CMD_RESIZE";
        SEND_CACHE = 1 << 10, "NBD_CMD_CACHE";
        SEND_FAST_ZERO = 1 << 11, "NBD_CMD_FLAG_FAST_ZERO";
        BLOCK_STATUS_PAYLOAD = 1 << 12, "payload of NBD_CMD_BLOCK_STATUS";
    }

    /// NBD_CMD_*: commands.
    command: u16 {
        READ = 0, "NBD_CMD_READ";
        WRITE = 1, "NBD_CMD_WRITE";
        DISC = 2, "NBD_CMD_DISC";
        FLUSH = 3, "NBD_CMD_FLUSH";
        TRIM = 4, "NBD_CMD_TRIM";
        CACHE = 5, "NBD_CMD_CACHE";
        WRITE_ZEROES = 6, "NBD_CMD_WRITE_ZEROES";
        BLOCK_STATUS = 7, "NBD_CMD_BLOCK_STATUS";
        RESIZE = 8, "NBD_CMD_RESIZE";
    }

    /// NBD_CMD_FLAG_*: flags of a command.
    command_flag: u16 {
        FUA = 1, "force unit access";
        NO_HOLE = 1 << 1, "zeros are allocated";
        DF = 1 << 2, "the reply is not fragmented";
        REQ_ONE = 1 << 3, "one extent";
        FAST_ZERO = 1 << 4, "fail if zeroing is not faster than writing";
        PAYLOAD_LEN = 1 << 5, "the length is that of a payload";
    }

    /// NBD_REPLY_FLAG_*: flags of a chunk.
    chunk_flag: u16 {
        DONE = 1, "last chunk of the reply";
    }

    /// NBD_REPLY_TYPE_*: kinds of chunks.
    chunk_type: u16 {
        NONE = 0, "no payload";
        OFFSET_DATA = 1, "data";
        OFFSET_HOLE = 2, "a hole";
        BLOCK_STATUS = 5, "block status";
        ERROR = 1 << 15 | 1, "error";
        ERROR_OFFSET = 1 << 15 | 2, "error at an offset";
    }

    /// NBD_STATE_*: flags of the context `base:allocation`.
    state_flag: u32 {
        HOLE = 1, "not allocated";
        ZERO = 2, "reads as zeros";
    }

    /// Error numbers of replies; any other counts as EINVAL.
    error_number: u32 {
        EPERM = 1, "operation not permitted";
        EIO = 5, "input/output error";
        ENOMEM = 12, "out of memory";
        EINVAL = 22, "invalid argument";
        ENOSPC = 28, "no space left on device";
        EOVERFLOW = 75, "value too large";
        ENOTSUP = 95, "operation not supported";
        ESHUTDOWN = 108, "server is shutting down";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from the section "Values" of the protocol text. The words also say which constant has the number.
    #[test]
    fn known_values_have_words() {
        let options = [1, 2, 3, 5, 6, 7, 8, 9, 10].map(option::text);
        assert_eq!(
            options.map(|text| text.expect("an option")),
            [
                "NBD_OPT_EXPORT_NAME",
                "NBD_OPT_ABORT",
                "NBD_OPT_LIST",
                "NBD_OPT_STARTTLS",
                "NBD_OPT_INFO",
                "NBD_OPT_GO",
                "NBD_OPT_STRUCTURED_REPLY",
                "NBD_OPT_LIST_META_CONTEXT",
                "NBD_OPT_SET_META_CONTEXT",
            ]
        );
        assert_eq!(option::text(4), None, "NBD_OPT_PEEK_EXPORT was withdrawn");
        let commands = [0, 1, 2, 3, 4, 5, 6, 7].map(command::text);
        assert_eq!(
            commands.map(|text| text.expect("a command")),
            [
                "NBD_CMD_READ",
                "NBD_CMD_WRITE",
                "NBD_CMD_DISC",
                "NBD_CMD_FLUSH",
                "NBD_CMD_TRIM",
                "NBD_CMD_CACHE",
                "NBD_CMD_WRITE_ZEROES",
                "NBD_CMD_BLOCK_STATUS",
            ]
        );
        assert_eq!(reply_type::text(0x8000_0005), Some("TLS required"));
        assert_eq!(reply_type::text(0x8000_0006), Some("no such export"));
        assert_eq!(reply_type::text(0x8000_0009), Some("request too big"));
        assert_eq!(reply_type::text(5), None);
        assert_eq!(chunk_type::text(5), Some("block status"));
        assert_eq!(chunk_type::text(0x8002), Some("error at an offset"));
        assert_eq!(info_type::text(3), Some("block sizes"));
        assert_eq!([28, 75, 95].map(error_number::text).map(|text| text.is_some()), [true; 3]);
        assert_eq!(error_number::text(2), None);
    }

    #[test]
    fn bits_of_flags() {
        use transmission_flag as flag;
        let transmission = [
            flag::HAS_FLAGS,
            flag::READ_ONLY,
            flag::SEND_FLUSH,
            flag::SEND_FUA,
            flag::ROTATIONAL,
            flag::SEND_TRIM,
            flag::SEND_WRITE_ZEROES,
            flag::SEND_DF,
            flag::CAN_MULTI_CONN,
            flag::SEND_RESIZE,
            flag::SEND_CACHE,
            flag::SEND_FAST_ZERO,
            flag::BLOCK_STATUS_PAYLOAD,
        ];
        for (bit, flag) in transmission.into_iter().enumerate() {
            assert_eq!(flag, 1 << bit, "bit {bit}");
        }
        use command_flag as of;
        assert_eq!(
            [of::FUA, of::NO_HOLE, of::DF, of::REQ_ONE, of::FAST_ZERO],
            [0x01, 0x02, 0x04, 0x08, 0x10]
        );
        assert_eq!((chunk_flag::DONE, state_flag::HOLE, state_flag::ZERO), (1, 1, 2));
        assert_eq!((handshake_flag::FIXED_NEWSTYLE, handshake_flag::NO_ZEROES), (1, 2));
        assert_eq!((client_flag::FIXED_NEWSTYLE, client_flag::NO_ZEROES), (1, 2));
    }
}
