//! Receiving PDUs: one read fills a large scratch buffer with many small PDUs; what is left of a large
//! payload is read straight into its final place, and what follows it into the scratch buffer by the
//! same system call.
//!
//! A connection keeps only a partial header between wakes; the scratch buffer belongs to the thread.

use std::io::{self, IoSliceMut, Read};
use std::net::TcpStream;

use wire::iscsi::{BHS_LEN, Bhs, padding};

/// Bytes that one read may bring.
const SCRATCH_BYTES: usize = 256 << 10;
/// A payload with at least this much missing is read straight into its place.
const DIRECT_BYTES: usize = 16 << 10;
/// What follows such a payload in the same read: enough for the next header, little enough that the next
/// payload is not copied through the scratch buffer.
const AFTER_DIRECT_BYTES: usize = 4 << 10;

/// The thread's buffer for reads.
#[derive(Debug)]
pub struct Scratch(Box<[u8]>);

impl Scratch {
    /// One buffer, to be shared by all connections of a thread.
    pub fn new() -> Scratch {
        Scratch(vec![0; SCRATCH_BYTES].into_boxed_slice())
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

/// Where a data segment is to be laid down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Landing<P> {
    /// Nowhere.
    Discard,
    /// Handed over with the PDU; its length has been checked.
    Collect,
    /// The first `len_bytes` at `place`; the rest nowhere.
    Place {
        /// Where.
        place: P,
        /// How much.
        len_bytes: usize,
    },
}

/// What a connection's owner does with what arrives.
pub trait Receiver {
    /// Names a place for payload.
    type Place;
    /// Why the connection must be dropped.
    type Error;

    /// A header with its additional segments has arrived. The owner checks the length of the data
    /// segment here, before any of it is kept.
    fn header(&mut self, header: &[u8; BHS_LEN], ahs: &[u8]) -> Result<Landing<Self::Place>, Self::Error>;

    /// The memory of `len_bytes` bytes at `offset_bytes` of a place.
    fn space(&mut self, place: &Self::Place, offset_bytes: usize, len_bytes: usize) -> &mut [u8];

    /// The data segment has been laid down; `collected` holds it if it was to be collected.
    fn pdu(&mut self, header: &[u8; BHS_LEN], collected: &[u8]) -> Result<(), Self::Error>;

    /// Whether the next PDU is for this receiver. If not, it is kept for the one that comes after.
    fn wants_more(&self) -> bool {
        true
    }
}

/// Why receiving ended for good.
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
    partial_header: Vec<u8>,
    segment: Option<Segment<P>>,
    collected: Vec<u8>,
    payload_bytes: u64,
}

#[derive(Debug)]
struct Segment<P> {
    header: [u8; BHS_LEN],
    landing: Landing<P>,
    done_bytes: usize,
    /// With padding.
    total_bytes: usize,
    data_bytes: usize,
}

impl<P> Segment<P> {
    /// What is still missing at its place.
    fn missing_bytes(&self) -> usize {
        match &self.landing {
            Landing::Place { len_bytes, .. } => len_bytes.saturating_sub(self.done_bytes),
            Landing::Discard | Landing::Collect => 0,
        }
    }
}

impl<P> Rx<P> {
    pub(crate) fn new() -> Rx<P> {
        Rx { partial_header: Vec::new(), segment: None, collected: Vec::new(), payload_bytes: 0 }
    }

    /// Payload laid down at places so far.
    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// Reads until the socket is empty or `quantum_bytes` have come; `true` if there may be more.
    pub(crate) fn receive<R: Receiver<Place = P>>(
        &mut self,
        stream: &TcpStream,
        scratch: &mut Scratch,
        receiver: &mut R,
        quantum_bytes: usize,
    ) -> Result<bool, Stop<R::Error>> {
        if self.partial_header.len() >= BHS_LEN {
            // Whole PDUs that another receiver left.
            let kept = std::mem::take(&mut self.partial_header);
            self.consume(&kept, receiver).map_err(Stop::Refused)?;
        }
        let mut total = 0;
        while total < quantum_bytes && receiver.wants_more() {
            let (read, room) = match self.read(stream, scratch, receiver) {
                Ok(read) => read,
                Err(Stop::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(Stop::Io(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(stop) => return Err(stop),
            };
            total += read;
            if read < room {
                return Ok(false);
            }
        }
        Ok(receiver.wants_more())
    }

    /// One read; how much it brought and how much it could have brought.
    fn read<R: Receiver<Place = P>>(
        &mut self,
        mut stream: &TcpStream,
        scratch: &mut Scratch,
        receiver: &mut R,
    ) -> Result<(usize, usize), Stop<R::Error>> {
        let scratch = &mut scratch.0;
        let direct = self.segment.as_ref().map_or(0, Segment::missing_bytes);
        if let (Some(segment), DIRECT_BYTES..) = (&mut self.segment, direct) {
            let Landing::Place { place, .. } = &segment.landing else {
                unreachable!("only places miss bytes");
            };
            let space = receiver.space(place, segment.done_bytes, direct);
            let after = &mut scratch[..AFTER_DIRECT_BYTES];
            let mut slices = [IoSliceMut::new(space), IoSliceMut::new(after)];
            let read = stream.read_vectored(&mut slices).map_err(Stop::Io)?;
            if read == 0 {
                return Err(Stop::Closed);
            }
            let placed = read.min(direct);
            segment.done_bytes += placed;
            self.payload_bytes += placed as u64;
            self.consume(&scratch[..read - placed], receiver).map_err(Stop::Refused)?;
            return Ok((read, direct + AFTER_DIRECT_BYTES));
        }
        let carried = self.partial_header.len();
        let read = stream.read(&mut scratch[carried..]).map_err(Stop::Io)?;
        if read == 0 {
            return Err(Stop::Closed);
        }
        scratch[..carried].copy_from_slice(&self.partial_header);
        self.partial_header.clear();
        self.consume(&scratch[..carried + read], receiver).map_err(Stop::Refused)?;
        Ok((read, scratch.len() - carried))
    }

    fn consume<R: Receiver<Place = P>>(
        &mut self,
        mut bytes: &[u8],
        receiver: &mut R,
    ) -> Result<(), R::Error> {
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
                        }
                    }
                }
                segment.done_bytes += take;
                bytes = later;
                if segment.done_bytes < segment.total_bytes {
                    return Ok(());
                }
                let result = receiver.pdu(&segment.header, &self.collected);
                self.collected.clear();
                self.segment = None;
                result?;
            }
            if !receiver.wants_more() {
                break;
            }
            let Some((header, rest)) = bytes.split_first_chunk::<BHS_LEN>() else { break };
            let view = Bhs::new(header);
            let Some((ahs, rest)) = rest.split_at_checked(view.ahs_len()) else { break };
            let landing = receiver.header(header, ahs)?;
            bytes = rest;
            let data_bytes = view.data_segment_len();
            let total_bytes = data_bytes + padding(data_bytes);
            self.segment = Some(Segment { header: *header, landing, done_bytes: 0, total_bytes, data_bytes });
        }
        self.partial_header.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lays every payload down in one buffer and writes a line per PDU.
    #[derive(Default)]
    struct Recorder {
        memory: Vec<u8>,
        log: Vec<String>,
    }

    impl Receiver for Recorder {
        type Place = usize;
        type Error = String;

        fn header(&mut self, header: &[u8; BHS_LEN], ahs: &[u8]) -> Result<Landing<usize>, String> {
            let len = Bhs::new(header).data_segment_len();
            match header[0] {
                0x05 => Ok(Landing::Place { place: usize::from(header[40]), len_bytes: len.min(1000) }),
                0x04 => Ok(Landing::Collect),
                0x3e => Err("refused".to_owned()),
                _ => {
                    self.log.push(format!("ahs {}", ahs.len()));
                    Ok(Landing::Discard)
                }
            }
        }

        fn space(&mut self, place: &usize, offset: usize, len: usize) -> &mut [u8] {
            self.memory.resize(4096, 0);
            &mut self.memory[place + offset..][..len]
        }

        fn pdu(&mut self, header: &[u8; BHS_LEN], collected: &[u8]) -> Result<(), String> {
            self.log.push(format!("{:#04x} {}", header[0], String::from_utf8_lossy(collected)));
            Ok(())
        }
    }

    fn pdu(opcode: u8, place: u8, ahs_words: u8, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; BHS_LEN];
        (bytes[0], bytes[4], bytes[40]) = (opcode, ahs_words, place);
        bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        bytes.resize(BHS_LEN + usize::from(ahs_words) * 4, 0xee);
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len() + padding(data.len()), 0);
        bytes
    }

    #[test]
    fn the_same_pdus_come_out_however_the_bytes_arrive() {
        let stream = [
            pdu(0x05, 7, 0, b"seven"),
            pdu(0x04, 0, 0, b"text=1"),
            pdu(0x00, 0, 2, b""),
            pdu(0x05, 100, 0, &[9; 1003]),
            pdu(0x00, 0, 0, b"nobody wants this"),
        ]
        .concat();
        let mut reference: Option<(Vec<String>, Vec<u8>)> = None;
        for step in 1..stream.len() {
            let (mut rx, mut recorder) = (Rx::new(), Recorder::default());
            let mut pending: Vec<u8> = Vec::new();
            for part in stream.chunks(step) {
                pending.extend_from_slice(&std::mem::take(&mut rx.partial_header));
                pending.extend_from_slice(part);
                rx.consume(&std::mem::take(&mut pending), &mut recorder).unwrap();
            }
            assert!(rx.partial_header.is_empty() && rx.segment.is_none());
            assert_eq!(rx.payload_bytes(), 5 + 1000);
            let outcome = (recorder.log, recorder.memory);
            assert_eq!(*reference.get_or_insert(outcome.clone()), outcome, "in steps of {step}");
        }
        let (log, memory) = reference.unwrap();
        assert_eq!(log, ["0x05 ", "0x04 text=1", "ahs 8", "0x00 ", "0x05 ", "ahs 0", "0x00 "]);
        assert_eq!((&memory[7..12], &memory[1099..1102]), (&b"seven"[..], &[9, 0, 0][..]));
    }

    #[test]
    fn a_refusal_ends_it() {
        let error = Rx::new().consume(&pdu(0x3e, 0, 0, b""), &mut Recorder::default());
        assert_eq!(error, Err("refused".to_owned()));
    }
}
