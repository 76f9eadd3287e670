//! Where a sender's bytes come from, and how they are handed to the kernel: with a copy or, as long as the kernel does
//! not copy them all the same, without.

use std::io::{self, Write};
use std::net::TcpStream;

use net::zero_copy;
use serde::Serialize;

/// Bytes written before the clock is looked at again.
const TURN_BYTES: usize = 8 << 20;

/// What comes of sending without a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ZeroCopy {
    /// Nobody asked for it.
    Off,
    /// Everything is sent so.
    On,
    /// The kernel copied what was sent so, and the rest was sent with a copy at once.
    Copied,
    /// The kernel had no room to remember what is on its way.
    NoRoom,
    /// The kernel or the socket cannot.
    Unsupported,
}

impl ZeroCopy {
    const ALL: [ZeroCopy; 5] =
        [ZeroCopy::Off, ZeroCopy::On, ZeroCopy::Copied, ZeroCopy::NoRoom, ZeroCopy::Unsupported];

    /// As an account has it.
    pub(super) fn word(self) -> u64 {
        ZeroCopy::ALL.iter().position(|state| *state == self).unwrap_or(0) as u64
    }

    /// What it was; a peer that says something else has not tried.
    pub(super) fn from_word(word: u64) -> ZeroCopy {
        usize::try_from(word).ok().and_then(|at| ZeroCopy::ALL.get(at).copied()).unwrap_or(ZeroCopy::Off)
    }
}

/// A sender's end of the flow.
#[derive(Debug)]
pub(super) struct Outlet<'a> {
    /// What is sent from its start to its end, and again. It is never changed, so that what the kernel has not copied
    /// arrives as it is.
    source: &'a [u8],
    /// Where the next write begins.
    at: usize,
    block_bytes: usize,
    zero_copy: ZeroCopy,
}

impl<'a> Outlet<'a> {
    /// Sends from `source`, which is not empty, beginning at `at`, with writes of `block_bytes`.
    pub(super) fn new(source: &'a [u8], at: usize, block_bytes: usize) -> Outlet<'a> {
        Outlet { source, at: at % source.len(), block_bytes, zero_copy: ZeroCopy::Off }
    }

    /// The same, without a copy if the kernel can.
    pub(super) fn without_copy(mut self, stream: &TcpStream) -> Outlet<'a> {
        self.zero_copy = match zero_copy::enable(stream) {
            Ok(()) => ZeroCopy::On,
            Err(_) => ZeroCopy::Unsupported,
        };
        self
    }

    pub(super) fn zero_copy(&self) -> ZeroCopy {
        self.zero_copy
    }

    /// Writes until the socket is full or it is time to look at the clock; the bytes, and whether there is room for more.
    pub(super) fn write(&mut self, stream: &TcpStream) -> io::Result<(u64, bool)> {
        let mut total = 0;
        while total < TURN_BYTES {
            let end = self.source.len().min(self.at + self.block_bytes);
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
            if self.at == self.source.len() {
                self.at = 0;
            }
        }
        Ok((total as u64, true))
    }

    /// Empties the socket's error queue, where the kernel says what it has copied.
    pub(super) fn look(&mut self, stream: &TcpStream) -> io::Result<()> {
        if self.zero_copy == ZeroCopy::Off {
            return Ok(());
        }
        if zero_copy::done(stream)?.copied > 0 && self.zero_copy == ZeroCopy::On {
            self.zero_copy = ZeroCopy::Copied;
        }
        Ok(())
    }

    fn hand_over(&mut self, mut stream: &TcpStream, end: usize) -> io::Result<usize> {
        let bytes = &self.source[self.at..end];
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

    /// Every byte of the source arrives in its turn, however it is cut and handed over.
    #[test]
    fn the_source_goes_round() {
        let source: Vec<u8> = (0..4001).map(|n| (n % 251) as u8).collect();
        for (at, block_bytes, without_copy) in [(0, 100_000, false), (100, 700, false), (4001, 640, true)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            near.set_nonblocking(true).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            let mut outlet = Outlet::new(&source, at, block_bytes);
            if without_copy {
                outlet = outlet.without_copy(&near);
            }
            let reader = std::thread::spawn(move || {
                let mut received = Vec::new();
                far.read_to_end(&mut received).map(|_| received)
            });
            let mut sent = 0;
            while sent < 10_000 {
                sent += outlet.write(&near).unwrap().0;
                outlet.look(&near).unwrap();
            }
            assert!(!without_copy || outlet.zero_copy() != ZeroCopy::Off);
            drop(near);
            let received = reader.join().unwrap().unwrap();
            assert_eq!(received.len() as u64, sent);
            let expected = source.iter().cycle().skip(at % source.len());
            assert!(received.iter().eq(expected.take(received.len())), "{at} {block_bytes}");
        }
    }
}
