//! Where PDUs begin and end in the bytes of one direction, of which many may be unknown.
//!
//! As long as every basic header is known, each says where the next one is. A hidden header is inferred where the last
//! one tells what must follow: more data of the same task. Otherwise the place is lost until a packet begins with what
//! can only be a header. How often that happened is counted.

use wire::iscsi::{BHS_LEN, Bhs, Opcode};

use super::plausible::{self, STRICT_LEN, Side};
use super::session::Session;
use super::stream::{Chunk, Tag};
use super::tell::Out;

/// Headers in a row that are inferred; more would be a story.
const INFERRED_MAX: u32 = 1_024;
/// Text of a login that is looked at.
const TEXT_MAX: usize = 8 << 10;
/// Bytes that a framer holds besides itself; a vector may be half empty.
pub(super) const FRAMER_HELD: usize = 2 * TEXT_MAX;
/// Opcode, flags and lengths; the task tag.
const NEEDED: u64 = 0xff | 0xf << 16;

/// A PDU and where it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framed {
    pub(super) opcode: Opcode,
    header: [u8; BHS_LEN],
    /// A bit for every byte of the header that is known.
    known: u64,
    pub(super) data_len: u64,
    /// Of the direction's stream.
    pub(super) start: u64,
    pub(super) end: u64,
    /// The packet of its first byte.
    pub(super) first: Tag,
    /// The packet that completed it.
    pub(super) last: Tag,
    /// The header was hidden.
    pub(super) inferred: bool,
}

impl Framed {
    /// A byte of the header, if it is known.
    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        (self.known >> at & 1 != 0).then(|| self.header[at])
    }

    /// A word of the header, if it is known.
    pub(super) fn word(&self, at: usize) -> Option<u32> {
        let bytes = [self.byte(at)?, self.byte(at + 1)?, self.byte(at + 2)?, self.byte(at + 3)?];
        Some(u32::from_be_bytes(bytes))
    }

    /// Whether it says how its command ended.
    pub(super) fn has_status(&self) -> bool {
        let in_data = self.opcode == Opcode::DataIn && self.byte(1).is_some_and(|flags| flags & 1 != 0);
        in_data || self.opcode == Opcode::ScsiResponse
    }

    /// The initiator task tag, which is always known.
    pub(super) fn itt(&self) -> u32 {
        Bhs::new(&self.header).itt()
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) pdus: u64,
    pub(super) inferred: u64,
    /// Inferred, and then no header was where one should have followed.
    pub(super) refuted: u64,
    /// Bytes in no PDU.
    pub(super) lost_bytes: u64,
    /// Times that the place was found again.
    pub(super) found: u64,
}

/// One direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Framer {
    state: State,
    /// The last PDU, while the place is known.
    last: Option<Framed>,
    /// Inferred since a header was seen last.
    inferred_run: u32,
    pub(super) counts: Counts,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// Nobody knows where a PDU begins.
    #[default]
    Lost,
    Header(Header),
    Body(Body),
}

#[derive(Clone, Debug)]
struct Header {
    start: u64,
    bytes: [u8; BHS_LEN],
    known: u64,
    got: usize,
    tags: Option<(Tag, Tag)>,
    /// Data bytes of the PDU before, and bytes of digests that were taken to be its own, while it is not known which are.
    before: Option<(usize, usize)>,
    /// Bytes that were passed over because they can be a digest.
    shift: usize,
}

#[derive(Clone, Debug)]
struct Body {
    framed: Framed,
    text: Vec<u8>,
    /// Bytes of digests that it is taken to have.
    digests_len: usize,
}

impl Header {
    fn new(start: u64, before: Option<(usize, usize)>) -> Self {
        Self { start, bytes: [0; BHS_LEN], known: 0, got: 0, tags: None, before, shift: 0 }
    }
}

impl Framer {
    /// The stream begins here, and with a PDU if it is iSCSI.
    pub(super) fn begin(&mut self, start: u64) {
        self.state = State::Header(Header::new(start, None));
    }

    /// Whether the last byte was within a PDU: its sender has more in hand.
    pub(super) fn is_within_a_pdu(&self) -> bool {
        match &self.state {
            State::Lost => false,
            State::Header(header) => header.got > 0,
            State::Body(_) => true,
        }
    }

    /// Takes the next bytes of the direction `side`.
    pub(super) fn chunk(
        &mut self,
        chunk: &Chunk<'_>,
        direction: usize,
        session: &mut Session,
        out: &mut Out<'_>,
    ) {
        let mut at = chunk.start;
        while at < chunk.end {
            let known = chunk.known.get((at - chunk.start) as usize..).unwrap_or_default();
            match std::mem::take(&mut self.state) {
                State::Lost => {
                    at = self.look(at, known, chunk.end, session.side(direction));
                    // What was sent until now may have been answered unseen.
                    session.lose_place(direction, chunk.tag.packet);
                }
                State::Header(mut header) => {
                    at += header.take(known, (chunk.end - at) as usize, chunk.tag);
                    if header.got < BHS_LEN {
                        self.state = State::Header(header);
                    } else {
                        self.header(header, direction, session, out);
                    }
                }
                State::Body(mut body) => {
                    let next = body.framed.end.min(chunk.end);
                    let kept =
                        known.len().min((next - at) as usize).min(TEXT_MAX.saturating_sub(body.text.len()));
                    if matches!(body.framed.opcode, Opcode::LoginRequest | Opcode::LoginResponse) {
                        body.text.extend_from_slice(&known[..kept]);
                    }
                    body.framed.last = chunk.tag;
                    at = next;
                    if at < body.framed.end {
                        self.state = State::Body(body);
                    } else {
                        self.done(&body, direction, session, out);
                    }
                }
            }
        }
    }

    /// Looks for a header in known bytes; where to go on.
    fn look(&mut self, at: u64, known: &[u8], end: u64, side: Side) -> u64 {
        let mut starts = 0..(known.len() + 1).saturating_sub(STRICT_LEN);
        let found = starts.find(|start| plausible::out_of_step(&known[*start..], side).is_some());
        let next = found.map_or(end, |start| at + start as u64);
        self.counts.lost_bytes += next - at;
        if found.is_some() {
            self.counts.found += 1;
            self.state = State::Header(Header::new(next, None));
        }
        next
    }

    fn header(&mut self, mut header: Header, direction: usize, session: &mut Session, out: &mut Out<'_>) {
        if header.known & NEEDED != NEEDED {
            return self.infer(&header, direction, session, out);
        }
        let Some(opcode) = plausible::in_step(&header.bytes, session.side(direction)) else {
            if header.before.is_some() && header.shift < 8 {
                header.pass_over_a_digest();
                self.state = State::Header(header);
                return;
            }
            return self.refute(&header, direction, session);
        };
        // What was learned meanwhile, from the other direction too, was not known when that PDU began.
        let learned = header
            .before
            .is_none_or(|(data_len, taken)| session.digests.learn(data_len, taken + header.shift));
        if !learned {
            return self.refute(&header, direction, session);
        }
        self.inferred_run = 0;
        let bhs = Bhs::new(&header.bytes);
        let body_len = session.digests.body_len(bhs.ahs_len(), bhs.data_segment_len());
        self.body((opcode, false), &header, body_len, direction, session, out);
    }

    /// A hidden header: what must follow.
    fn infer(&mut self, header: &Header, direction: usize, session: &mut Session, out: &mut Out<'_>) {
        let digests_known = session.digests.known().is_some();
        let hidden = session.hidden(direction, self.last.as_ref());
        let Some(hidden) = hidden.filter(|_| digests_known && self.inferred_run < INFERRED_MAX) else {
            return self.lose(header, direction, session);
        };
        self.inferred_run += 1;
        self.counts.inferred += 1;
        let made = Header { bytes: hidden.bytes, known: hidden.known, ..header.clone() };
        let (bhs, inferred) = (Bhs::new(&made.bytes), true);
        let body_len = session.digests.body_len(0, bhs.data_segment_len());
        if let Ok(opcode) = Opcode::from_code(made.bytes[0]) {
            self.body((opcode, inferred), &made, body_len, direction, session, out);
        }
    }

    fn body(
        &mut self,
        (opcode, inferred): (Opcode, bool),
        header: &Header,
        body_len: usize,
        direction: usize,
        session: &mut Session,
        out: &mut Out<'_>,
    ) {
        let (first, last) = header.tags.unwrap_or_default();
        let framed = Framed {
            opcode,
            header: header.bytes,
            known: header.known,
            data_len: Bhs::new(&header.bytes).data_segment_len() as u64,
            start: header.start,
            end: header.start + (BHS_LEN + body_len) as u64,
            first,
            last,
            inferred,
        };
        let digests_len = session.digests.least(framed.data_len as usize);
        let body = Body { framed, text: Vec::new(), digests_len };
        if body_len == 0 {
            self.done(&body, direction, session, out);
        } else {
            self.state = State::Body(body);
        }
    }

    fn done(&mut self, body: &Body, direction: usize, session: &mut Session, out: &mut Out<'_>) {
        let mut framed = body.framed;
        if framed.last.packet < framed.first.packet {
            // It began in a gap that was given up with a later packet.
            std::mem::swap(&mut framed.first, &mut framed.last);
        }
        let framed = &framed;
        self.counts.pdus += 1;
        session.pdu(direction, framed, &body.text, out);
        self.last = Some(*framed);
        let data_len = framed.data_len as usize;
        // A login has none, whatever it has agreed on for what follows it.
        let is_login = matches!(framed.opcode, Opcode::LoginRequest | Opcode::LoginResponse);
        let is_certain = session.digests.known().is_some()
            && (is_login || session.digests.least(data_len) == body.digests_len);
        let before = (!is_certain).then_some((data_len, body.digests_len));
        self.state = State::Header(Header::new(framed.end, before));
    }

    /// What was inferred was wrong.
    fn refute(&mut self, header: &Header, direction: usize, session: &mut Session) {
        self.counts.refuted += u64::from(self.inferred_run);
        self.inferred_run = 0;
        self.lose(header, direction, session);
    }

    fn lose(&mut self, header: &Header, direction: usize, session: &mut Session) {
        self.counts.lost_bytes += (BHS_LEN + header.shift) as u64;
        self.last = None;
        self.state = State::Lost;
        let (_, last) = header.tags.unwrap_or_default();
        session.lose_place(direction, last.packet);
    }
}

impl Header {
    /// Takes what is still wanted of the next `len` bytes; how many it were.
    fn take(&mut self, known: &[u8], len: usize, tag: Tag) -> u64 {
        let len = len.min(BHS_LEN - self.got);
        let known = &known[..known.len().min(len)];
        self.bytes[self.got..self.got + known.len()].copy_from_slice(known);
        self.known |= ((1 << known.len()) - 1) << self.got;
        self.got += len;
        self.tags = Some((self.tags.map_or(tag, |(first, _)| first), tag));
        len as u64
    }

    fn pass_over_a_digest(&mut self) {
        self.bytes.copy_within(4.., 0);
        self.bytes[BHS_LEN - 4..].fill(0);
        self.known >>= 4;
        self.got -= 4;
        self.start += 4;
        self.shift += 4;
    }
}
