//! An NBD client down to the byte.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use e2e::ours::NbdServer;
use wire::nbd::{ExportNameReply, NewstyleGreeting, RequestHeader, SimpleReply, command};

/// Limit of each wait.
const LIMIT: Duration = Duration::from_secs(60);

/// A connection in the transmission phase, with simple replies.
pub(super) struct RawClient {
    pub(super) stream: TcpStream,
    /// Transmission flags of the export.
    pub(super) flags: u16,
    cookie: u64,
}

/// A connection that has received the greeting and sent nothing.
#[track_caller]
pub(super) fn connect(server: &NbdServer) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("the server accepts");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream.set_write_timeout(Some(LIMIT)).expect("a limit");
    stream.set_nodelay(true).expect("a socket option");
    stream.read_exact(&mut [0; NewstyleGreeting::LEN]).expect("a greeting");
    stream
}

impl RawClient {
    /// Chooses the export with the empty name.
    #[track_caller]
    pub(super) fn open(server: &NbdServer) -> RawClient {
        let mut stream = connect(server);
        // Fixed newstyle without zeroes; NBD_OPT_EXPORT_NAME.
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").expect("room for an option");
        let mut bytes = [0; ExportNameReply::LEN];
        stream.read_exact(&mut bytes).expect("the export");
        let flags = ExportNameReply::parse(&bytes).flags;
        RawClient { stream, flags, cookie: 0 }
    }

    /// Sends the header of a request. Returns its cookie.
    #[track_caller]
    pub(super) fn send(&mut self, command: u16, offset_bytes: u64, len_bytes: u32) -> u64 {
        self.cookie += 1;
        let cookie = self.cookie;
        let request = RequestHeader { flags: 0, command, cookie, offset_bytes, len_bytes };
        self.stream.write_all(&request.to_bytes()).expect("room for a request");
        cookie
    }

    /// Error number and cookie of the next reply, if there is one before the end of the connection.
    pub(super) fn reply(&mut self) -> Option<(u32, u64)> {
        let mut bytes = [0; SimpleReply::LEN];
        self.stream.read_exact(&mut bytes).ok()?;
        let reply = SimpleReply::parse(&bytes).expect("a simple reply");
        Some((reply.error, reply.cookie))
    }

    /// Writes and waits for the answer. Returns its error number.
    #[track_caller]
    pub(super) fn write(&mut self, offset_bytes: u64, data: &[u8]) -> u32 {
        let cookie = self.send(command::WRITE, offset_bytes, data.len() as u32);
        self.stream.write_all(data).expect("room for data");
        let (error, answered) = self.reply().expect("an answer");
        assert_eq!(answered, cookie);
        error
    }

    /// Reads; the error number if it is refused.
    #[track_caller]
    pub(super) fn read(&mut self, offset_bytes: u64, len: usize) -> Result<Vec<u8>, u32> {
        let cookie = self.send(command::READ, offset_bytes, len as u32);
        let (error, answered) = self.reply().expect("an answer");
        assert_eq!(answered, cookie);
        if error != 0 {
            return Err(error);
        }
        let mut data = vec![0; len];
        self.stream.read_exact(&mut data).expect("the data");
        Ok(data)
    }
}

/// Bytes of a pattern that depends on its seed.
pub(super) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}
