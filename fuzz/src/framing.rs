//! The target `framing`: PDUs with digests over a socket, in pieces, some of them damaged on the way.

use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};

use engine::{Connection, Course, Digests, Landing, Receiver, Scratch, Stop};
use net::Poll;
use wire::iscsi::{BHS_LEN, Bhs, padding};

use crate::input::Input;

/// The longest data segment that the receiver takes.
const SEGMENT_MAX: usize = 32 << 10;
/// PDUs of one input.
const PDUS_MAX: usize = 64;
const DIGEST_BYTES: usize = 4;

/// A PDU as it was received: its header, the length of its additional segments, and its data unless they were damaged.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Received {
    header: [u8; BHS_LEN],
    ahs_len: usize,
    data: Option<Vec<u8>>,
}

/// Keeps everything. The first byte of a header says where its data go.
#[derive(Default)]
struct Keeper {
    ahs_len: usize,
    place: Vec<u8>,
    laid_bytes: usize,
    all: Vec<Received>,
}

#[derive(Debug)]
struct TooLong;

impl Receiver for Keeper {
    type Place = usize;
    type Error = TooLong;

    fn header(&mut self, header: &[u8; BHS_LEN], ahs: &[u8]) -> Result<Landing<usize>, TooLong> {
        let len = Bhs::new(header).data_segment_len();
        assert_eq!(ahs.len(), Bhs::new(header).ahs_len());
        self.ahs_len = ahs.len();
        self.laid_bytes = 0;
        if len > SEGMENT_MAX {
            return Err(TooLong);
        }
        self.place = vec![0; len];
        Ok(match header[0] % 3 {
            0 => Landing::Discard,
            1 => Landing::Collect,
            _ => Landing::Place { place: len, len_bytes: len },
        })
    }

    fn space(&mut self, place: &usize, offset_bytes: usize, len_bytes: usize) -> &mut [u8] {
        assert_eq!((*place, self.laid_bytes), (self.place.len(), offset_bytes), "one piece behind the other");
        &mut self.place[offset_bytes..offset_bytes + len_bytes]
    }

    fn laid(&mut self, _place: &usize, len_bytes: usize) {
        self.laid_bytes += len_bytes;
    }

    fn pdu(&mut self, header: &[u8; BHS_LEN], collected: &[u8]) -> Result<(), TooLong> {
        let data = match header[0] % 3 {
            0 => vec![0; self.place.len()],
            1 => collected.to_vec(),
            _ => std::mem::take(&mut self.place),
        };
        self.all.push(Received { header: *header, ahs_len: self.ahs_len, data: Some(data) });
        Ok(())
    }

    fn bad_header(&mut self) -> TooLong {
        TooLong
    }

    fn bad_data(&mut self, header: &[u8; BHS_LEN]) -> Result<(), TooLong> {
        self.all.push(Received { header: *header, ahs_len: self.ahs_len, data: None });
        Ok(())
    }
}

/// PDUs as bytes, and what a receiver makes of them up to the first that ends the connection.
pub(crate) fn framing(data: &[u8]) {
    let mut input = Input::new(data);
    let pick = input.byte();
    let digests = Digests { header: pick & 1 != 0, data: pick & 2 != 0 };
    let (mut bytes, mut expected, mut is_over) = (Vec::new(), Vec::new(), false);
    for _ in 0..PDUS_MAX {
        if input.is_empty() {
            break;
        }
        is_over |= !put(&mut input, digests, &mut bytes, &mut expected, is_over);
    }
    let mut pieces = Vec::new();
    let mut rest = &bytes[..];
    // Pieces as the input has them from its beginning, so that a short input has them too.
    let mut sizes = Input::new(data);
    while pieces.len() < 16 && !rest.is_empty() && pick & 4 != 0 {
        let (piece, behind) = rest.split_at((sizes.number() as usize & 0xfff).clamp(1, rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    assert_eq!(received(&pieces, digests), expected);
}

/// Appends one PDU. Returns false for one that ends the connection.
fn put(
    input: &mut Input<'_>,
    digests: Digests,
    bytes: &mut Vec<u8>,
    expected: &mut Vec<Received>,
    is_over: bool,
) -> bool {
    let mut header = [0; BHS_LEN];
    (header[0], header[1]) = (input.byte(), input.byte());
    let kind = input.byte();
    header[4] = kind & 7;
    // Some fill several reads, some are longer than the receiver takes.
    let len = match kind >> 3 & 7 {
        0 => 0,
        1 => SEGMENT_MAX - usize::from(input.byte()),
        2 => SEGMENT_MAX + 1,
        _ => input.number() as usize & 0x3ff,
    };
    header[5..8].copy_from_slice(&(len as u32).to_be_bytes()[1..]);
    let ahs_len = 4 * usize::from(header[4]);
    let mut front = header.to_vec();
    front.resize(BHS_LEN + ahs_len, input.byte());
    let fill = input.byte();
    let segment: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(fill)).collect();
    let mut padded = segment.clone();
    padded.resize(len + padding(len), 0);
    let damage = kind >> 6;
    bytes.extend_from_slice(&front);
    if digests.header {
        let sum = crc32c::crc32c(&front).to_le_bytes();
        bytes.extend_from_slice(&sum);
        if damage == 1 {
            let last = bytes.len() - 1;
            bytes[last - usize::from(input.byte()) % DIGEST_BYTES] ^= 0x10;
        }
    }
    bytes.extend_from_slice(&padded);
    if digests.data && len > 0 {
        bytes.extend_from_slice(&crc32c::crc32c(&padded).to_le_bytes());
        if damage == 2 {
            let last = bytes.len() - 1;
            bytes[last - input.number() as usize % (padded.len() + DIGEST_BYTES)] ^= 0x10;
        }
    }
    if is_over || len > SEGMENT_MAX || digests.header && damage == 1 {
        return false;
    }
    let data = match () {
        () if digests.data && damage == 2 && len > 0 => None,
        () if header[0] % 3 == 0 => Some(vec![0; len]),
        () => Some(segment),
    };
    expected.push(Received { header, ahs_len, data });
    true
}

/// Sends pieces, each after the one before was received as far as it can be.
fn received(pieces: &[&[u8]], digests: Digests) -> Vec<Received> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut near = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (far, _) = listener.accept().expect("the other end");
    far.set_nonblocking(true).expect("a socket option");
    near.set_nodelay(true).expect("a socket option");
    let poll = Poll::new().expect("an epoll instance");
    let mut connection: Connection<usize, Vec<u8>> =
        Connection::new(far, &poll, 0, Course::default()).expect("a connection");
    connection.set_digests(digests);
    let (mut scratch, mut keeper) = (Scratch::new(), Keeper::default());
    for piece in pieces {
        // A receiver that has refused what came reads no more.
        if near.write_all(piece).is_err() || connection.receive(&mut scratch, &mut keeper).is_err() {
            return keeper.all;
        }
    }
    // Fails if the receiver has closed, which it does not.
    let _ = near.shutdown(Shutdown::Write);
    loop {
        match connection.receive(&mut scratch, &mut keeper) {
            Ok(_) => std::thread::yield_now(),
            Err(Stop::Closed | Stop::Refused(TooLong)) => return keeper.all,
            Err(Stop::Io(error)) => panic!("{error}"),
        }
    }
}
