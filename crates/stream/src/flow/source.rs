//! Source of a sender's bytes, and their hand-over to the kernel: with a copy, or without one (MSG_ZEROCOPY) as long as
//! the kernel does not copy all the same.

use std::io::{self, Write};
use std::net::TcpStream;

use net::zero_copy;
use serde::Serialize;

/// Bytes written between two looks at the clock.
const TURN_BYTES: usize = 8 << 20;

/// State of sending without a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ZeroCopy {
    /// Not requested.
    Off,
    /// In use.
    On,
    /// The kernel copied all the same; the rest was sent with a copy.
    Copied,
    /// The kernel had no memory for notifications of bytes in flight.
    NoRoom,
    /// Not supported by the kernel or the socket.
    Unsupported,
}

impl ZeroCopy {
    const ALL: [ZeroCopy; 5] =
        [ZeroCopy::Off, ZeroCopy::On, ZeroCopy::Copied, ZeroCopy::NoRoom, ZeroCopy::Unsupported];

    /// Value in the counters.
    pub(crate) fn word(self) -> u64 {
        ZeroCopy::ALL.iter().position(|state| *state == self).unwrap_or(0) as u64
    }

    /// State for a value of the counters; unknown values count as off.
    pub(crate) fn from_word(word: u64) -> ZeroCopy {
        usize::try_from(word).ok().and_then(|at| ZeroCopy::ALL.get(at).copied()).unwrap_or(ZeroCopy::Off)
    }
}

/// Source of a flow.
#[derive(Debug)]
pub(crate) struct ByteSource<'a> {
    /// Bytes sent from start to end, again and again. They never change, so that bytes that the kernel does not copy
    /// arrive unchanged.
    buffer: &'a [u8],
    /// Offset of the next write.
    at: usize,
    block_bytes: usize,
    zero_copy: ZeroCopy,
}

impl<'a> ByteSource<'a> {
    /// A source from `buffer`, which is not empty, that begins at `at` and writes `block_bytes` at a time.
    pub(crate) fn new(buffer: &'a [u8], at: usize, block_bytes: usize) -> ByteSource<'a> {
        ByteSource { buffer, at: at % buffer.len(), block_bytes, zero_copy: ZeroCopy::Off }
    }

    /// The same source, without a copy if the kernel supports that.
    pub(crate) fn without_copy(mut self, stream: &TcpStream) -> ByteSource<'a> {
        self.zero_copy = match zero_copy::enable(stream) {
            Ok(()) => ZeroCopy::On,
            Err(_) => ZeroCopy::Unsupported,
        };
        self
    }

    pub(crate) fn zero_copy(&self) -> ZeroCopy {
        self.zero_copy
    }

    /// Writes until the socket is full or the clock is due; returns the bytes written, and true if there is room for more.
    pub(crate) fn write(&mut self, stream: &TcpStream) -> io::Result<(u64, bool)> {
        let mut total = 0;
        while total < TURN_BYTES {
            let end = self.buffer.len().min(self.at + self.block_bytes);
            let written = match self.hand_over(stream, end) {
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok((total as u64, false)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            total += written;
            self.at += written;
            if self.at < end {
                return Ok((total as u64, false));
            }
            if self.at == self.buffer.len() {
                self.at = 0;
            }
        }
        Ok((total as u64, true))
    }

    /// Empties the socket's error queue, where the kernel reports copies.
    pub(crate) fn read_completions(&mut self, stream: &TcpStream) -> io::Result<()> {
        if self.zero_copy == ZeroCopy::Off {
            return Ok(());
        }
        if zero_copy::done(stream)?.copied > 0 && self.zero_copy == ZeroCopy::On {
            self.zero_copy = ZeroCopy::Copied;
        }
        Ok(())
    }

    fn hand_over(&mut self, mut stream: &TcpStream, end: usize) -> io::Result<usize> {
        let bytes = &self.buffer[self.at..end];
        if self.zero_copy == ZeroCopy::On {
            match zero_copy::send(stream, bytes) {
                Err(error) if zero_copy::has_no_room(&error) => self.zero_copy = ZeroCopy::NoRoom,
                result => return result,
            }
        }
        stream.write(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn words_survive() {
        for state in ZeroCopy::ALL {
            assert_eq!(ZeroCopy::from_word(state.word()), state);
        }
        assert_eq!(ZeroCopy::from_word(u64::MAX), ZeroCopy::Off);
    }

    /// Every byte of the source arrives in its turn, however the writes are split.
    #[test]
    fn the_source_goes_round() {
        let source: Vec<u8> = (0..4001).map(|n| (n % 251) as u8).collect();
        for (at, block_bytes, without_copy) in [(0, 100_000, false), (100, 700, false), (4001, 640, true)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            near.set_nonblocking(true).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            let mut sender = ByteSource::new(&source, at, block_bytes);
            if without_copy {
                sender = sender.without_copy(&near);
            }
            let reader = std::thread::spawn(move || {
                let mut received = Vec::new();
                far.read_to_end(&mut received).map(|_| received)
            });
            let mut sent = 0;
            while sent < 10_000 {
                sent += sender.write(&near).unwrap().0;
                sender.read_completions(&near).unwrap();
            }
            assert!(!without_copy || sender.zero_copy() != ZeroCopy::Off);
            drop(near);
            let received = reader.join().unwrap().unwrap();
            assert_eq!(received.len() as u64, sent);
            let expected = source.iter().cycle().skip(at % source.len());
            assert!(received.iter().eq(expected.take(received.len())), "{at} {block_bytes}");
        }
    }
}
