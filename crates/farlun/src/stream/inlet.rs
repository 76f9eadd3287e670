//! Where a receiver's bytes go: into a buffer that the next ones overwrite. Only the last are kept, since the far end's
//! trailer comes last.

use std::io::{self, Read};
use std::net::TcpStream;

/// Bytes read before the clock is looked at again.
const TURN_BYTES: usize = 8 << 20;

/// What there is to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum More {
    /// Nothing now.
    Wait,
    /// Probably something.
    Now,
    /// Nothing ever again: the peer has closed.
    Never,
}

/// A receiver's end of the flow.
#[derive(Debug)]
pub(super) struct Inlet {
    /// As long as what is read at once.
    buffer: Vec<u8>,
    last: Vec<u8>,
    /// How many bytes are kept.
    kept: usize,
}

impl Inlet {
    /// Reads `block_bytes` at once and keeps the last `kept` of all.
    pub(super) fn new(block_bytes: usize, kept: usize) -> Inlet {
        // Filled with something, so that its pages are there before time is counted.
        Inlet { buffer: vec![0x5a; block_bytes], last: Vec::new(), kept }
    }

    /// Reads until nothing is left or it is time to look at the clock; the bytes, and what is left.
    pub(super) fn read(&mut self, mut stream: &TcpStream) -> io::Result<(u64, More)> {
        let mut total = 0;
        while total < TURN_BYTES {
            match stream.read(&mut self.buffer) {
                Ok(0) => return Ok((total as u64, More::Never)),
                Ok(read) => {
                    total += read;
                    self.keep(read);
                    if read < self.buffer.len() {
                        return Ok((total as u64, More::Wait));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok((total as u64, More::Wait));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((total as u64, More::Now))
    }

    /// The last bytes of all.
    pub(super) fn last(&self) -> &[u8] {
        &self.last
    }

    fn keep(&mut self, read: usize) {
        self.last.extend_from_slice(&self.buffer[read.saturating_sub(self.kept)..read]);
        let excess = self.last.len().saturating_sub(self.kept);
        self.last.drain(..excess);
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
            let mut inlet = Inlet::new(block_bytes, kept);
            let (mut total, mut more) = (0, More::Now);
            while more != More::Never {
                let (read, left) = inlet.read(&far).unwrap();
                (total, more) = (total + read, left);
            }
            let all = b"abcdefghijkl";
            assert_eq!(
                (total, inlet.last()),
                (12, &all[all.len().saturating_sub(kept)..]),
                "{block_bytes} {kept}"
            );
        }
    }
}
