//! Sending PDUs: a queue of (header, data) that one vectored write empties, many PDUs at a time. Data
//! stays where it is; the queue holds what names it.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::net::TcpStream;

use wire::iscsi::{BHS_LEN, padding};

/// A PDU ready to go.
#[derive(Debug)]
pub struct Outgoing<D> {
    /// Its header.
    pub header: [u8; BHS_LEN],
    /// What names its data, if it has any.
    pub data: Option<D>,
    /// The data is payload (it counts as application bytes).
    pub is_payload: bool,
}

/// Where PDUs come from.
pub trait Sender {
    /// Names data.
    type Data;

    /// The next PDU, if there is one now.
    fn next(&mut self) -> Option<Outgoing<Self::Data>>;

    /// The data that a name stands for. Its length does not change while the name lives.
    fn bytes<'a>(&'a self, data: &'a Self::Data) -> &'a [u8];
}

/// Bytes queued before a write is made.
const FILL_BYTES: usize = 1 << 20;
/// PDUs in one write; each takes up to three slices.
const BATCH: usize = 128;
const SLICES: usize = 3 * BATCH;
const PADDING: [u8; 3] = [0; 3];

/// The sending half of a connection.
#[derive(Debug)]
pub(crate) struct Tx<D> {
    queue: VecDeque<Queued<D>>,
    queued_bytes: usize,
    /// Bytes of the first PDU that the socket already has.
    sent_bytes: usize,
    payload_bytes: u64,
}

#[derive(Debug)]
struct Queued<D> {
    header: [u8; BHS_LEN],
    data: Option<D>,
    data_bytes: usize,
    payload_bytes: usize,
}

impl<D> Queued<D> {
    fn total_bytes(&self) -> usize {
        BHS_LEN + self.data_bytes + padding(self.data_bytes)
    }
}

impl<D> Tx<D> {
    pub(crate) fn new() -> Tx<D> {
        Tx { queue: VecDeque::new(), queued_bytes: 0, sent_bytes: 0, payload_bytes: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Payload handed to the socket so far.
    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// Takes PDUs from `sender` until there is enough for one write.
    pub(crate) fn fill<S: Sender<Data = D>>(&mut self, sender: &mut S) {
        while self.queued_bytes < FILL_BYTES && self.queue.len() < BATCH {
            let Some(Outgoing { header, data, is_payload }) = sender.next() else { break };
            let data_bytes = data.as_ref().map_or(0, |data| sender.bytes(data).len());
            let payload_bytes = if is_payload { data_bytes } else { 0 };
            let queued = Queued { header, data, data_bytes, payload_bytes };
            self.queued_bytes += queued.total_bytes();
            self.queue.push_back(queued);
        }
    }

    /// One write of what is queued; the bytes it took, which is less than queued if the socket is full.
    pub(crate) fn write<S: Sender<Data = D>>(
        &mut self,
        mut stream: &TcpStream,
        sender: &S,
    ) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut used = 0;
        let mut skip = self.sent_bytes;
        for queued in self.queue.iter().take(BATCH) {
            let data = queued.data.as_ref().map_or(&[][..], |data| sender.bytes(data));
            for part in [&queued.header, data, &PADDING[..padding(queued.data_bytes)]] {
                if skip >= part.len() {
                    skip -= part.len();
                } else {
                    slices[used] = IoSlice::new(&part[skip..]);
                    (used, skip) = (used + 1, 0);
                }
            }
        }
        let written = stream.write_vectored(&slices[..used])?;
        self.sent(written);
        Ok(written)
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes - self.sent_bytes
    }

    fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        while let Some(first) = self.queue.front() {
            let total = first.total_bytes();
            if self.sent_bytes < total {
                break;
            }
            self.sent_bytes -= total;
            self.queued_bytes -= total;
            self.payload_bytes += first.payload_bytes as u64;
            self.queue.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    struct Canned(VecDeque<Vec<u8>>);

    impl Sender for Canned {
        type Data = Vec<u8>;

        fn next(&mut self) -> Option<Outgoing<Vec<u8>>> {
            let data = self.0.pop_front()?;
            Some(Outgoing { header: [data.len() as u8; BHS_LEN], data: Some(data), is_payload: true })
        }

        fn bytes<'a>(&'a self, data: &'a Vec<u8>) -> &'a [u8] {
            data
        }
    }

    #[test]
    fn everything_arrives_in_order_through_a_small_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let data: Vec<Vec<u8>> = (0..400usize).map(|n| vec![n as u8; n * 37 % 9001]).collect();
        let mut expected = Vec::new();
        for data in &data {
            expected.extend_from_slice(&[data.len() as u8; BHS_LEN]);
            expected.extend_from_slice(data);
            expected.resize(expected.len() + padding(data.len()), 0);
        }
        let total = expected.len();
        let reader = std::thread::spawn(move || {
            let mut received = vec![0; total];
            peer.read_exact(&mut received).unwrap();
            received
        });
        let payload: usize = data.iter().map(Vec::len).sum();
        let (mut tx, mut sender) = (Tx::new(), Canned(data.into()));
        loop {
            tx.fill(&mut sender);
            if tx.is_empty() {
                break;
            }
            tx.write(&stream, &sender).unwrap();
        }
        assert_eq!(reader.join().unwrap(), expected);
        assert_eq!((tx.payload_bytes(), tx.queued_bytes()), (payload as u64, 0));
    }
}
