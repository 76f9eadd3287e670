//! Sink of a receiver's bytes: a buffer that the next ones overwrite. Only the last bytes are kept: they are the far end's
//! trailer.

use std::io::{self, Read};
use std::net::TcpStream;

/// Bytes read between two looks at the clock.
const TURN_BYTES: usize = 8 << 20;

/// Readiness of the socket after a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readiness {
    /// Empty.
    Wait,
    /// Probably not empty.
    Now,
    /// Closed by the peer.
    Closed,
}

/// Sink of a flow.
#[derive(Debug)]
pub(crate) struct ByteSink {
    /// Space for one read.
    buffer: Vec<u8>,
    tail: Vec<u8>,
    /// Length of the tail to keep, in bytes.
    kept: usize,
}

impl ByteSink {
    /// A sink that reads `block_bytes` at a time and keeps the last `kept` bytes of all.
    pub(crate) fn new(block_bytes: usize, kept: usize) -> ByteSink {
        // Not zero: its pages are allocated before the time counts.
        ByteSink { buffer: vec![0x5a; block_bytes], tail: Vec::new(), kept }
    }

    /// Reads until the socket is empty or the clock is due; returns the bytes read, and the readiness.
    pub(crate) fn read(&mut self, mut stream: &TcpStream) -> io::Result<(u64, Readiness)> {
        let mut total = 0;
        while total < TURN_BYTES {
            match stream.read(&mut self.buffer) {
                Ok(0) => return Ok((total as u64, Readiness::Closed)),
                Ok(read) => {
                    total += read;
                    self.keep(read);
                    if read < self.buffer.len() {
                        return Ok((total as u64, Readiness::Wait));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok((total as u64, Readiness::Wait));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((total as u64, Readiness::Now))
    }

    /// The last bytes of all.
    pub(crate) fn tail(&self) -> &[u8] {
        &self.tail
    }

    fn keep(&mut self, read: usize) {
        self.tail.extend_from_slice(&self.buffer[read.saturating_sub(self.kept)..read]);
        let excess = self.tail.len().saturating_sub(self.kept);
        self.tail.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_last_bytes_are_kept_however_they_come() {
        for (block_bytes, kept) in [(1 << 20, 5), (4, 5), (5, 5), (3, 100)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            near.write_all(b"abcdefghijkl").unwrap();
            drop(near);
            let mut sink = ByteSink::new(block_bytes, kept);
            let (mut total, mut readiness) = (0, Readiness::Now);
            while readiness != Readiness::Closed {
                let (read, left) = sink.read(&far).unwrap();
                (total, readiness) = (total + read, left);
            }
            let all = b"abcdefghijkl";
            assert_eq!(
                (total, sink.tail()),
                (12, &all[all.len().saturating_sub(kept)..]),
                "{block_bytes} {kept}"
            );
        }
    }
}
