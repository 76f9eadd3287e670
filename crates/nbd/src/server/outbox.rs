//! Replies on their way to a socket: one vectored write over many of them.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use block::{Buffer, Lent};

use super::stream::Stream;

/// Queued bytes from which on a write is due, and the limit of one write.
const FILL_BYTES: usize = 256 << 10;
/// Replies in one write; each takes up to two slices.
const BATCH: usize = 128;

/// Replies that the socket does not have.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<Reply>,
    queued_bytes: usize,
    /// Bytes of the first reply that the socket has.
    sent_bytes: usize,
}

/// A reply.
#[derive(Debug)]
struct Reply {
    header: Vec<u8>,
    data: ReplyData,
}

/// Data of a reply.
#[derive(Debug)]
pub(super) enum ReplyData {
    None,
    /// Bytes of the device itself.
    Lent {
        offset_bytes: u64,
        len: usize,
    },
    Buffer(Buffer),
}

impl ReplyData {
    fn len(&self) -> usize {
        match self {
            ReplyData::None => 0,
            ReplyData::Lent { len, .. } => *len,
            ReplyData::Buffer(buffer) => buffer.len(),
        }
    }

    fn bytes<'a>(&'a self, lent: Option<&'a Lent>) -> &'a [u8] {
        match (self, lent) {
            (ReplyData::Buffer(buffer), _) => buffer,
            (ReplyData::Lent { offset_bytes, len }, Some(lent)) => lent.bytes(*offset_bytes, *len),
            (ReplyData::Lent { .. }, None) => unreachable!("a device that lends its bytes goes on lending"),
            (ReplyData::None, _) => &[],
        }
    }
}

impl Reply {
    fn len(&self) -> usize {
        self.header.len() + self.data.len()
    }
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns true while another reply fits into the next write.
    pub(super) fn has_room(&self) -> bool {
        self.queued_bytes < FILL_BYTES && self.queue.len() < BATCH
    }

    pub(super) fn push(&mut self, header: Vec<u8>, data: ReplyData) {
        let reply = Reply { header, data };
        self.queued_bytes += reply.len();
        self.queue.push_back(reply);
    }

    /// Writes once. Returns the bytes written, and true if the socket has taken all that it was offered.
    pub(super) fn write(&mut self, stream: &Stream, lent: Option<&Lent>) -> io::Result<(usize, bool)> {
        let mut slices = [IoSlice::new(&[]); 2 * BATCH];
        let (mut used, mut offered) = (0, 0);
        let mut skip = self.sent_bytes;
        'replies: for reply in self.queue.iter().take(BATCH) {
            for part in [&reply.header[..], reply.data.bytes(lent)] {
                if skip >= part.len() {
                    skip -= part.len();
                    continue;
                }
                let part = &part[std::mem::take(&mut skip)..];
                let part = &part[..part.len().min(FILL_BYTES - offered)];
                slices[used] = IoSlice::new(part);
                (used, offered) = (used + 1, offered + part.len());
                if offered == FILL_BYTES {
                    break 'replies;
                }
            }
        }
        let written = stream.write_vectored(&slices[..used])?;
        self.sent(written);
        Ok((written, written == offered))
    }

    fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        self.queued_bytes -= bytes;
        while let Some(first) = self.queue.front()
            && self.sent_bytes >= first.len()
        {
            self.sent_bytes -= first.len();
            self.queue.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use block::{Buffers, Memory};

    use super::*;

    /// Replies of all kinds arrive in order through a socket that takes little at a time.
    #[test]
    fn everything_arrives_in_order() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let stream = Stream::Unix(near);
        let mut memory = Memory::zeroed(4 << 20).unwrap();
        memory.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251) as u8);
        let lent = Lent::Memory(memory);
        let buffers = Buffers::new(0);
        let mut expected = Vec::new();
        let mut replies = VecDeque::new();
        for n in 0..300usize {
            let header = vec![n as u8; 16 + n % 5];
            expected.extend_from_slice(&header);
            let len = if n == 7 { 3 << 20 } else { n * 37 % 9001 + 1 };
            let data = match n % 3 {
                0 => ReplyData::None,
                1 => ReplyData::Lent { offset_bytes: n as u64, len },
                _ => {
                    let mut buffer = buffers.take(len);
                    buffer.fill(n as u8);
                    ReplyData::Buffer(buffer)
                }
            };
            expected.extend_from_slice(data.bytes(Some(&lent)));
            replies.push_back((header, data));
        }
        let total = expected.len();
        let reader = std::thread::spawn(move || {
            let mut received = vec![0; total];
            received.chunks_mut(50_021).for_each(|part| far.read_exact(part).unwrap());
            received
        });
        let mut outbox = Outbox::default();
        loop {
            while outbox.has_room()
                && let Some((header, data)) = replies.pop_front()
            {
                outbox.push(header, data);
            }
            if outbox.is_empty() {
                break;
            }
            match outbox.write(&stream, Some(&lent)) {
                Ok((written, _)) => assert!(written > 0),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert!(reader.join().unwrap() == expected);
        assert_eq!((outbox.queued_bytes, outbox.sent_bytes, buffers.held_bytes()), (0, 0, 0));
    }
}
