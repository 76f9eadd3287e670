//! Receiving PDUs: one read fills a large scratch buffer with many small PDUs; the rest of a large payload is read
//! directly into its final place, and the bytes behind it into the scratch buffer by the same system call.
//!
//! Between wakes a connection keeps a partial header, and whole PDUs if its turn ended before them. The scratch buffer
//! belongs to the thread.

use std::io::{self, IoSliceMut, Read};
use std::net::TcpStream;

use event::Instant;
use net::clock;
use wire::iscsi::{BHS_LEN, Bhs, padding};

use super::digest::{DIGEST_BYTES, Digests, Sum};
use super::quantum::Quantum;

/// Bytes that one read may bring.
const SCRATCH_BYTES: usize = 256 << 10;
/// A payload with at least this much missing is read straight into its place.
const DIRECT_BYTES: usize = 16 << 10;
/// Bytes read behind such a payload: enough for the next header, too few for copying much of the next payload.
const AFTER_DIRECT_BYTES: usize = 4 << 10;

/// The thread's buffer for reads.
#[derive(Debug)]
pub struct Scratch(Box<[u8]>);

impl Scratch {
    /// A buffer for all connections of a thread.
    pub fn new() -> Scratch {
        Scratch(vec![0; SCRATCH_BYTES].into_boxed_slice())
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

/// Destination of a data segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Landing<P> {
    /// Nowhere.
    Discard,
    /// Passed on with the PDU; its length has been checked.
    Collect,
    /// The first `len_bytes` at `place`; the rest nowhere.
    Place {
        /// Destination.
        place: P,
        /// Its length.
        len_bytes: usize,
    },
}

/// Position of a PDU in its stream, whose first byte is 0; with padding and digests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Offset of its first byte.
    pub begin: u64,
    /// Behind its last byte.
    pub end: u64,
}

/// The owner of a connection, as consumer of its PDUs.
pub trait Receiver {
    /// Destination of payload.
    type Place;
    /// Reason to drop the connection.
    type Error;

    /// A header with its additional segments has arrived. The owner checks the length of the data
    /// segment here, before any of it is kept.
    fn header(&mut self, header: &[u8; BHS_LEN], ahs: &[u8]) -> Result<Landing<Self::Place>, Self::Error>;

    /// The memory of `len_bytes` bytes at `offset_bytes` of a place.
    fn space(&mut self, place: &Self::Place, offset_bytes: usize, len_bytes: usize) -> &mut [u8];

    /// Reports payload that arrived at a destination.
    fn laid(&mut self, _place: &Self::Place, _len_bytes: usize) {}

    /// The data segment has been laid down; `collected` holds it if it was to be collected.
    fn pdu(&mut self, header: &[u8; BHS_LEN], collected: &[u8]) -> Result<(), Self::Error>;

    /// The digest of a header is wrong: nothing in it can be believed, nor where the next PDU begins.
    fn bad_header(&mut self) -> Self::Error;

    /// In place of [`Receiver::pdu`]: the digest of the data segment is wrong, whatever became of its data.
    fn bad_data(&mut self, header: &[u8; BHS_LEN]) -> Result<(), Self::Error>;

    /// True if the next PDU may be given to this receiver now. Otherwise it is kept for a later turn or another
    /// receiver.
    fn wants_more(&self) -> bool {
        true
    }

    /// True if the receiver needs arrival times: the clock is then read after every read.
    fn wants_times(&self) -> bool {
        false
    }

    /// Arrival time of the following bytes: end of their read.
    fn came(&mut self, _at: Instant) {}

    /// Position of the PDU of the next call of [`Receiver::pdu`].
    fn lies(&mut self, _span: Span) {}
}

/// Reason of the end of receiving.
#[derive(Debug)]
pub enum Stop<E> {
    /// The peer closed the connection.
    Closed,
    /// The socket failed.
    Io(io::Error),
    /// The owner will have no more of it.
    Refused(E),
}

/// The receiving half of a connection.
#[derive(Debug)]
pub(crate) struct Rx<P> {
    /// Received bytes that were not consumed: a partial header, or whole PDUs if the receiver or the quantum ended the
    /// turn. The first `kept_at` bytes are consumed.
    kept: Vec<u8>,
    kept_at: usize,
    /// PDUs that may still begin in this turn.
    pdus_left: usize,
    segment: Option<Segment<P>>,
    collected: Vec<u8>,
    payload_bytes: u64,
    /// Bytes of all PDUs before the current one.
    stream_bytes: u64,
    /// End of the last read, if the receiver needs arrival times.
    read_at: Instant,
    digests: Digests,
}

#[derive(Debug)]
struct Segment<P> {
    header: [u8; BHS_LEN],
    /// Header with additional segments and digest.
    header_bytes: usize,
    landing: Landing<P>,
    done_bytes: usize,
    /// With padding and digest.
    total_bytes: usize,
    data_bytes: usize,
    check: Option<Check>,
}

/// The digest of a data segment as it arrives.
#[derive(Debug)]
struct Check {
    /// Data and padding.
    padded_bytes: usize,
    sum: Sum,
    digest: [u8; DIGEST_BYTES],
}

impl Check {
    /// Takes the bytes behind the first `done_bytes` of the segment.
    fn take(&mut self, bytes: &[u8], done_bytes: usize) {
        let summed = self.padded_bytes.saturating_sub(done_bytes).min(bytes.len());
        let (data, digest) = bytes.split_at(summed);
        self.sum = self.sum.and(data);
        if !digest.is_empty() {
            let at = done_bytes + summed - self.padded_bytes;
            self.digest[at..][..digest.len()].copy_from_slice(digest);
        }
    }

    fn is_good(&self) -> bool {
        self.sum.to_wire() == self.digest
    }
}

impl<P> Segment<P> {
    /// Bytes still missing at the destination.
    fn missing_bytes(&self) -> usize {
        match &self.landing {
            Landing::Place { len_bytes, .. } => len_bytes.saturating_sub(self.done_bytes),
            Landing::Discard | Landing::Collect => 0,
        }
    }
}

impl<P> Rx<P> {
    pub(crate) fn new() -> Rx<P> {
        Rx {
            kept: Vec::new(),
            kept_at: 0,
            pdus_left: usize::MAX,
            segment: None,
            collected: Vec::new(),
            payload_bytes: 0,
            stream_bytes: 0,
            read_at: Instant::ZERO,
            digests: Digests::default(),
        }
    }

    pub(crate) fn set_digests(&mut self, digests: Digests) {
        self.digests = digests;
    }

    /// Gives back the memory that is not in use.
    pub(crate) fn rest(&mut self) {
        self.kept.shrink_to_fit();
        self.collected.shrink_to_fit();
    }

    /// Memory of received bytes that were not consumed.
    pub(crate) fn held_bytes(&self) -> usize {
        self.kept.len() + self.collected.len()
    }

    /// Payload laid down at places so far.
    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// Reads until the socket is empty or the quantum is used up; `true` if there may be more.
    pub(crate) fn receive<R: Receiver<Place = P>>(
        &mut self,
        stream: &TcpStream,
        scratch: &mut Scratch,
        receiver: &mut R,
        quantum: Quantum,
    ) -> Result<bool, Stop<R::Error>> {
        self.pdus_left = quantum.pdus;
        if self.kept.len() - self.kept_at >= BHS_LEN {
            self.take_kept(receiver).map_err(Stop::Refused)?;
        }
        let mut total = 0;
        while total < quantum.bytes && self.pdus_left > 0 && receiver.wants_more() {
            let (read, room) = match self.read(stream, scratch, receiver, quantum.bytes - total) {
                Ok(read) => read,
                Err(Stop::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(Stop::Io(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(stop) => return Err(stop),
            };
            total += read;
            if read < room && !self.holds_back(self.kept.len(), receiver) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if the remaining bytes may be whole PDUs, which belong to another turn.
    fn holds_back<R: Receiver<Place = P>>(&self, left_bytes: usize, receiver: &R) -> bool {
        left_bytes >= BHS_LEN && (self.pdus_left == 0 || !receiver.wants_more())
    }

    /// One read; returns the bytes read and the bytes offered: `most_bytes` or a little more.
    fn read<R: Receiver<Place = P>>(
        &mut self,
        mut stream: &TcpStream,
        scratch: &mut Scratch,
        receiver: &mut R,
        most_bytes: usize,
    ) -> Result<(usize, usize), Stop<R::Error>> {
        let scratch = &mut scratch.0;
        let missing = self.segment.as_ref().map_or(0, Segment::missing_bytes);
        if let (Some(segment), DIRECT_BYTES..) = (&mut self.segment, missing) {
            let Landing::Place { place, .. } = &segment.landing else {
                unreachable!("only places miss bytes");
            };
            let direct = missing.min(most_bytes.max(DIRECT_BYTES));
            let space = receiver.space(place, segment.done_bytes, direct);
            let after = if direct == missing { AFTER_DIRECT_BYTES } else { 0 };
            let mut slices = [IoSliceMut::new(&mut *space), IoSliceMut::new(&mut scratch[..after])];
            let read = stream.read_vectored(&mut slices).map_err(Stop::Io)?;
            if read == 0 {
                return Err(Stop::Closed);
            }
            let placed = read.min(direct);
            if let Some(check) = &mut segment.check {
                check.take(&space[..placed], segment.done_bytes);
            }
            segment.done_bytes += placed;
            self.payload_bytes += placed as u64;
            receiver.laid(place, placed);
            self.note_time(receiver);
            self.take(&scratch[..read - placed], receiver).map_err(Stop::Refused)?;
            return Ok((read, direct + after));
        }
        let carried = self.kept.len();
        let end = scratch.len().min(carried + most_bytes.max(DIRECT_BYTES));
        let read = stream.read(&mut scratch[carried..end]).map_err(Stop::Io)?;
        if read == 0 {
            return Err(Stop::Closed);
        }
        self.note_time(receiver);
        scratch[..carried].copy_from_slice(&self.kept);
        self.kept.clear();
        self.take(&scratch[..carried + read], receiver).map_err(Stop::Refused)?;
        Ok((read, end - carried))
    }

    fn note_time<R: Receiver<Place = P>>(&mut self, receiver: &mut R) {
        if receiver.wants_times() {
            self.read_at = clock::now();
            receiver.came(self.read_at);
        }
    }

    /// Takes PDUs out of `bytes` and keeps the rest.
    fn take<R: Receiver<Place = P>>(&mut self, bytes: &[u8], receiver: &mut R) -> Result<(), R::Error> {
        let rest = self.consume(bytes, receiver)?;
        self.kept.extend_from_slice(&bytes[bytes.len() - rest..]);
        Ok(())
    }

    /// Consumes PDUs that an earlier turn or another receiver left.
    fn take_kept<R: Receiver<Place = P>>(&mut self, receiver: &mut R) -> Result<(), R::Error> {
        let kept = std::mem::take(&mut self.kept);
        let begin = std::mem::take(&mut self.kept_at);
        if self.read_at == Instant::ZERO {
            // The receiver of these bytes needed no times.
            self.note_time(receiver);
        } else {
            receiver.came(self.read_at);
        }
        let rest = self.consume(&kept[begin..], receiver)?;
        let begin = kept.len() - rest;
        if self.holds_back(rest, receiver) {
            // The rest belongs to another turn and is not copied for each. Less than a header is moved by the next
            // read, which reads the kept bytes from their start.
            (self.kept, self.kept_at) = (kept, begin);
        } else {
            self.kept.extend_from_slice(&kept[begin..]);
        }
        Ok(())
    }

    /// Takes PDUs out of `bytes`; how many bytes are left.
    fn consume<R: Receiver<Place = P>>(
        &mut self,
        mut bytes: &[u8],
        receiver: &mut R,
    ) -> Result<usize, R::Error> {
        loop {
            if let Some(segment) = &mut self.segment {
                let take = bytes.len().min(segment.total_bytes - segment.done_bytes);
                let (now, later) = bytes.split_at(take);
                match &segment.landing {
                    Landing::Discard => {}
                    Landing::Collect => {
                        let data = segment.data_bytes.saturating_sub(segment.done_bytes).min(take);
                        self.collected.extend_from_slice(&now[..data]);
                    }
                    Landing::Place { place, .. } => {
                        let data = segment.missing_bytes().min(take);
                        if data > 0 {
                            let space = receiver.space(place, segment.done_bytes, data);
                            space.copy_from_slice(&now[..data]);
                            self.payload_bytes += data as u64;
                            receiver.laid(place, data);
                        }
                    }
                }
                if let Some(check) = &mut segment.check {
                    check.take(now, segment.done_bytes);
                }
                segment.done_bytes += take;
                bytes = later;
                if segment.done_bytes < segment.total_bytes {
                    return Ok(0);
                }
                let begin = self.stream_bytes;
                self.stream_bytes += (segment.header_bytes + segment.total_bytes) as u64;
                receiver.lies(Span { begin, end: self.stream_bytes });
                let result = if segment.check.as_ref().is_none_or(Check::is_good) {
                    receiver.pdu(&segment.header, &self.collected)
                } else {
                    receiver.bad_data(&segment.header)
                };
                self.collected.clear();
                self.segment = None;
                result?;
            }
            if !receiver.wants_more() || self.pdus_left == 0 {
                return Ok(bytes.len());
            }
            let Some((header, rest)) = bytes.split_first_chunk::<BHS_LEN>() else { return Ok(bytes.len()) };
            let view = Bhs::new(header);
            let Some((ahs, rest)) = rest.split_at_checked(view.ahs_len()) else { return Ok(bytes.len()) };
            let Some((digest, rest)) = rest.split_at_checked(self.digests.header_bytes()) else {
                return Ok(bytes.len());
            };
            if self.digests.header && Sum::of(header).and(ahs).to_wire() != digest {
                return Err(receiver.bad_header());
            }
            self.pdus_left -= 1;
            let landing = receiver.header(header, ahs)?;
            bytes = rest;
            let data_bytes = view.data_segment_len();
            let padded_bytes = data_bytes + padding(data_bytes);
            let digest_bytes = self.digests.data_bytes(data_bytes);
            let check = (digest_bytes > 0).then_some(Check {
                padded_bytes,
                sum: Sum::default(),
                digest: [0; DIGEST_BYTES],
            });
            self.segment = Some(Segment {
                header: *header,
                header_bytes: BHS_LEN + view.ahs_len() + digest.len(),
                landing,
                done_bytes: 0,
                total_bytes: padded_bytes + digest_bytes,
                data_bytes,
                check,
            });
        }
    }
}

#[cfg(test)]
mod tests;
