//! PDU boundaries in the bytes of one direction, of which many may be unknown.
//!
//! As long as every basic header is known, each gives the position of the next one. A hidden header is inferred if the
//! PDUs before it leave no choice, such as more data of the same task. Otherwise sync is lost until a packet contains
//! bytes that can only be a header. Inferred PDUs and losses of sync are counted.

use wire::iscsi::{BHS_LEN, Opcode};

use crate::iscsi::expectations::Expectations;
use crate::iscsi::header::PartialHeader;
use crate::iscsi::pdu::FramedPdu;
use crate::iscsi::plausible::{self, STRICT_LEN};
use crate::iscsi::role::Role;
use crate::packets::packet_ref::PacketRef;
use crate::tcp::stream::Chunk;

/// Limit of consecutive inferred headers; a longer chain is speculation.
const INFERRED_MAX: u32 = 1_024;
/// Limit of login text per PDU, in bytes.
const TEXT_MAX: usize = 8 << 10;
/// Largest number of digest bytes in front of a header: a header digest and a data digest.
const SHIFT_MAX: usize = 8;
/// Length of a digest.
const DIGEST_LEN: usize = 4;
/// Heap memory of a framer in bytes; a vector may be half empty.
pub(crate) const FRAMER_HELD: usize = 2 * TEXT_MAX;

/// Counts of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FramingCounts {
    pub(crate) pdus: u64,
    pub(crate) inferred: u64,
    /// Inferred PDUs without a header after them.
    pub(crate) refuted: u64,
    /// Bytes in no PDU.
    pub(crate) lost_bytes: u64,
    /// Times that sync was regained.
    pub(crate) found: u64,
}

/// Framer of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Framer {
    state: State,
    /// Last PDU while in sync.
    last: Option<FramedPdu>,
    /// Headers inferred since the last known one.
    inferred_run: u32,
    pub(crate) counts: FramingCounts,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// The next PDU boundary is unknown.
    #[default]
    OutOfSync,
    Header(HeaderInProgress),
    Body(BodyInProgress),
}

#[derive(Clone, Debug)]
struct HeaderInProgress {
    start: u64,
    header: PartialHeader,
    got: usize,
    /// First and last packet of the header.
    packets: Option<(PacketRef, PacketRef)>,
    /// Data length of the PDU before, and the digest bytes counted as its own, while its digests are uncertain.
    before: Option<(usize, usize)>,
    /// Bytes that were skipped because they can be a digest.
    shift: usize,
}

#[derive(Clone, Debug)]
struct BodyInProgress {
    pdu: FramedPdu,
    text: Vec<u8>,
    /// Digest bytes counted as its own.
    digests_len: usize,
}

impl Framer {
    /// Begins the stream at `start`; a PDU begins there if the stream is iSCSI.
    pub(crate) fn begin(&mut self, start: u64) {
        self.state = State::Header(HeaderInProgress::new(start, None));
    }

    /// True if the stream stopped within a PDU: its sender has more data.
    pub(crate) fn is_within_pdu(&self) -> bool {
        match &self.state {
            State::OutOfSync => false,
            State::Header(header) => header.got > 0,
            State::Body(_) => true,
        }
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn chunk(&mut self, chunk: &Chunk<'_>, expected: &mut impl Expectations) {
        let mut at = chunk.start;
        while at < chunk.end {
            let known = chunk.known.get((at - chunk.start) as usize..).unwrap_or_default();
            match std::mem::take(&mut self.state) {
                State::OutOfSync => {
                    at = self.search(at, known, chunk.end, expected.sender());
                    // Statuses in the skipped bytes pass unseen.
                    expected.lose_sync(chunk.packet.number);
                }
                State::Header(mut header) => {
                    at += header.take(known, chunk.end - at, chunk.packet);
                    if header.got < BHS_LEN {
                        self.state = State::Header(header);
                    } else {
                        self.header(header, expected);
                    }
                }
                State::Body(mut body) => {
                    let next = body.pdu.end.min(chunk.end);
                    let kept =
                        known.len().min((next - at) as usize).min(TEXT_MAX.saturating_sub(body.text.len()));
                    if is_login(body.pdu.opcode) {
                        body.text.extend_from_slice(&known[..kept]);
                    }
                    body.pdu.last = chunk.packet;
                    at = next;
                    if at < body.pdu.end {
                        self.state = State::Body(body);
                    } else {
                        self.complete(&body, expected);
                    }
                }
            }
        }
    }

    /// Searches a header in known bytes; returns the position to continue at.
    fn search(&mut self, at: u64, known: &[u8], end: u64, sender: Role) -> u64 {
        let mut starts = 0..(known.len() + 1).saturating_sub(STRICT_LEN);
        let found = starts.find(|start| plausible::out_of_sync(&known[*start..], sender).is_some());
        let next = found.map_or(end, |start| at + start as u64);
        self.counts.lost_bytes += next - at;
        if found.is_some() {
            self.counts.found += 1;
            self.state = State::Header(HeaderInProgress::new(next, None));
        }
        next
    }

    /// Takes a header of which all bytes have passed, known or not.
    fn header(&mut self, mut header: HeaderInProgress, expected: &mut impl Expectations) {
        if !header.header.is_framing_known() {
            return self.infer(&header, expected);
        }
        let Some(opcode) = plausible::in_sync(&header.header.bytes, expected.sender()) else {
            if header.before.is_some() && header.shift < SHIFT_MAX {
                header.skip_digest();
                self.state = State::Header(header);
                return;
            }
            return self.refute(&header, expected);
        };
        // Digests learned meanwhile, also from the other direction, were unknown when the PDU before began.
        let is_possible = header
            .before
            .is_none_or(|(data_len, counted)| expected.learn_digests(data_len, counted + header.shift));
        if !is_possible {
            return self.refute(&header, expected);
        }
        self.inferred_run = 0;
        let bhs = header.header.bhs();
        let body_len = expected.digests().body_len(bhs.ahs_len(), bhs.data_segment_len());
        self.body((opcode, false), &header, body_len, expected);
    }

    /// Replaces a hidden header by the one that must follow.
    fn infer(&mut self, header: &HeaderInProgress, expected: &mut impl Expectations) {
        let digests = expected.digests();
        let inferred = expected.next_header(self.last.as_ref());
        let Some(inferred) =
            inferred.filter(|_| digests.known().is_some() && self.inferred_run < INFERRED_MAX)
        else {
            return self.lose_sync(header, expected);
        };
        self.inferred_run += 1;
        self.counts.inferred += 1;
        let body_len = digests.body_len(0, inferred.bhs().data_segment_len());
        if let Ok(opcode) = Opcode::from_code(inferred.bytes[0]) {
            let header = HeaderInProgress { header: inferred, ..header.clone() };
            self.body((opcode, true), &header, body_len, expected);
        }
    }

    fn body(
        &mut self,
        (opcode, inferred): (Opcode, bool),
        header: &HeaderInProgress,
        body_len: usize,
        expected: &mut impl Expectations,
    ) {
        let (first, last) = header.packets.unwrap_or_default();
        let pdu = FramedPdu {
            opcode,
            header: header.header,
            data_len: header.header.bhs().data_segment_len() as u64,
            start: header.start,
            end: header.start + (BHS_LEN + body_len) as u64,
            first,
            last,
            inferred,
        };
        let digests_len = expected.digests().least(pdu.data_len as usize);
        let body = BodyInProgress { pdu, text: Vec::new(), digests_len };
        if body_len == 0 {
            self.complete(&body, expected);
        } else {
            self.state = State::Body(body);
        }
    }

    fn complete(&mut self, body: &BodyInProgress, expected: &mut impl Expectations) {
        let mut pdu = body.pdu;
        if pdu.last.number < pdu.first.number {
            // It began in a gap that a later packet gave up.
            std::mem::swap(&mut pdu.first, &mut pdu.last);
        }
        self.counts.pdus += 1;
        expected.pdu(&pdu, &body.text);
        self.last = Some(pdu);
        let data_len = pdu.data_len as usize;
        // A login PDU has no digests, whatever it negotiates for the PDUs after it.
        let digests = expected.digests();
        let is_certain = digests.known().is_some()
            && (is_login(pdu.opcode) || digests.least(data_len) == body.digests_len);
        let before = (!is_certain).then_some((data_len, body.digests_len));
        self.state = State::Header(HeaderInProgress::new(pdu.end, before));
    }

    /// Refutes the last inferred headers: no header follows them.
    fn refute(&mut self, header: &HeaderInProgress, expected: &mut impl Expectations) {
        self.counts.refuted += u64::from(self.inferred_run);
        self.inferred_run = 0;
        self.lose_sync(header, expected);
    }

    fn lose_sync(&mut self, header: &HeaderInProgress, expected: &mut impl Expectations) {
        self.counts.lost_bytes += (BHS_LEN + header.shift) as u64;
        self.last = None;
        self.state = State::OutOfSync;
        let (_, last) = header.packets.unwrap_or_default();
        expected.lose_sync(last.number);
    }
}

impl HeaderInProgress {
    fn new(start: u64, before: Option<(usize, usize)>) -> Self {
        Self { start, header: PartialHeader::unknown(), got: 0, packets: None, before, shift: 0 }
    }

    /// Takes the missing part of the next `len` bytes; returns its length.
    fn take(&mut self, known: &[u8], len: u64, packet: PacketRef) -> u64 {
        let len = len.min((BHS_LEN - self.got) as u64) as usize;
        let known = &known[..known.len().min(len)];
        self.header.bytes[self.got..self.got + known.len()].copy_from_slice(known);
        self.header.known |= ((1 << known.len()) - 1) << self.got;
        self.got += len;
        self.packets = Some((self.packets.map_or(packet, |(first, _)| first), packet));
        len as u64
    }

    /// Skips the first bytes as the digest of the PDU before.
    fn skip_digest(&mut self) {
        let PartialHeader { bytes, known } = &mut self.header;
        bytes.copy_within(DIGEST_LEN.., 0);
        bytes[BHS_LEN - DIGEST_LEN..].fill(0);
        *known >>= DIGEST_LEN;
        self.got -= DIGEST_LEN;
        self.start += DIGEST_LEN as u64;
        self.shift += DIGEST_LEN;
    }
}

fn is_login(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::LoginRequest | Opcode::LoginResponse)
}

#[cfg(test)]
mod tests;
