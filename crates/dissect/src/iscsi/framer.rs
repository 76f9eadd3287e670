//! PDU boundaries in the bytes of one direction, of which many may be unknown.
//!
//! As long as every basic header is known, each gives the position of the next one. A hidden header is inferred if the
//! PDUs before it leave no choice, such as more data of the same task. Inferred PDUs are provisional: the next visible
//! header at their end confirms them, one inside of them or none at their end refutes them, and they are withdrawn. Then,
//! and where nothing can be inferred, sync is lost until a packet contains bytes that can only be a header. Such a header
//! is provisional too, unless the session knows its task or number.

use wire::iscsi::{BHS_LEN, Opcode};

use crate::iscsi::digests::{Anchor, DIGESTS_MAX, bare_len};
use crate::iscsi::expectations::{Expectations, Fit};
use crate::iscsi::header::{HeaderInProgress, Origin, PartialHeader};
use crate::iscsi::pdu::{FramedPdu, Hidden};
use crate::iscsi::plausible::{self, STRICT_LEN};
use crate::iscsi::stretch::{FramingCounts, Stretch, Tail};
use crate::iscsi::text::KnownText;
use crate::packets::packet_ref::PacketRef;
use crate::tcp::stream::Chunk;

/// Limit of consecutive inferred headers; a longer chain is speculation.
const INFERRED_MAX: u64 = 1_024;

/// Framer of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Framer {
    state: State,
    trial: Trial,
    /// Bytes since the last confirmed PDU, if they are not all framed.
    stretch: Option<Stretch>,
    /// Last PDU while in sync.
    last: Option<FramedPdu>,
    /// Last visible PDU, whose digests show in the position of the headers after it.
    anchor: Option<Anchor>,
    tail: Tail,
    /// Position after the last byte.
    at: u64,
    counts: FramingCounts,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// The next PDU boundary is unknown.
    #[default]
    OutOfSync,
    Header(HeaderInProgress),
    Body(BodyInProgress),
}

/// PDUs that a header after them has to confirm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Trial {
    #[default]
    None,
    /// So many with inferred headers.
    Inferred(u64),
    /// One whose header was found at this position.
    Found(u64),
}

#[derive(Clone, Debug)]
struct BodyInProgress {
    pdu: FramedPdu,
    text: KnownText,
    /// Position of the next header: certain, or the first possible one.
    next: Origin,
}

impl Framer {
    /// Begins the stream at `start`; a PDU begins there if the stream is iSCSI.
    pub(crate) fn begin(&mut self, start: u64) {
        self.state = State::Header(HeaderInProgress::new(start, Origin::Begin));
    }

    /// True if the stream stopped within a PDU: its sender has more data.
    pub(crate) fn is_within_pdu(&self) -> bool {
        match &self.state {
            State::OutOfSync => false,
            State::Header(header) => header.got > 0,
            State::Body(_) => true,
        }
    }

    /// True if nothing is known of the last bytes. Digests that are unknown yet are nothing.
    pub(crate) fn is_out_of_sync(&self) -> bool {
        matches!(self.state, State::OutOfSync) && self.lost_now() > DIGESTS_MAX as u64
    }

    /// Counts so far.
    pub(crate) fn counts(&self) -> FramingCounts {
        FramingCounts { lost_bytes: self.counts.lost_bytes + self.lost_now(), ..self.counts }
    }

    /// Bytes after the last confirmed PDU that may hide headers.
    pub(crate) fn open(&self) -> Hidden {
        self.stretch.map_or_else(Hidden::default, |stretch| stretch.hidden)
    }

    /// Bytes in no PDU since the last confirmed one.
    fn lost_now(&self) -> u64 {
        let Some(Stretch { start, .. }) = self.stretch else { return 0 };
        match (&self.state, self.trial) {
            (_, Trial::Found(found)) => found.saturating_sub(start),
            (State::OutOfSync, _) => self.at.saturating_sub(start),
            _ => 0,
        }
    }

    /// Passes over `missing` bytes, which are in no file of the capture: nothing is inferred across them.
    pub(crate) fn pass_over(&mut self, missing: u64, packet: PacketRef, expected: &mut impl Expectations) {
        let lost = self.lost_now() + missing;
        self.withdraw(packet, expected);
        let counts = FramingCounts { lost_bytes: self.counts.lost_bytes + lost, ..self.counts };
        *self = Framer { counts, ..Framer::default() };
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn chunk(&mut self, chunk: &Chunk<'_>, expected: &mut impl Expectations) {
        self.at = chunk.end;
        let mut at = chunk.start;
        if let Some(start) = self.header_within(chunk, expected) {
            self.begin_within(chunk, start, expected);
            at = start;
        }
        while at < chunk.end {
            let known = chunk.known.get((at - chunk.start) as usize..).unwrap_or_default();
            match std::mem::take(&mut self.state) {
                State::OutOfSync => {
                    let hidden = self.open();
                    at = self.search(at, known, chunk, expected);
                    if self.open() != hidden {
                        // Statuses in the skipped bytes pass unseen.
                        expected.lose_sync(chunk.packet.number);
                    }
                }
                State::Header(mut header) => {
                    at += header.take(known, chunk.end - at, chunk);
                    if header.got < BHS_LEN {
                        self.state = State::Header(header);
                    } else {
                        self.header(header, chunk.end, expected);
                    }
                }
                State::Body(mut body) => {
                    let next = body.pdu.end.min(chunk.end);
                    body.text.take(at, known);
                    if let Some(stretch) = &mut self.stretch {
                        stretch.pass(chunk, at, next);
                    }
                    (body.pdu.last, body.pdu.end_missing) = (chunk.packet, chunk.missing);
                    at = next;
                    if at < body.pdu.end {
                        self.state = State::Body(body);
                    } else {
                        self.complete(body, expected);
                    }
                }
            }
        }
    }

    /// Position of a visible header within unconfirmed bytes: at the beginning of a packet, where the capture keeps
    /// headers, or anywhere in a whole packet.
    fn header_within(&self, chunk: &Chunk<'_>, expected: &impl Expectations) -> Option<u64> {
        let is_doubtful = match &self.state {
            State::OutOfSync => false,
            State::Header(header) => {
                header.got > 0 && header.header.known.trailing_ones() < header.got as u32
            }
            State::Body(_) => self.trial != Trial::None,
        };
        if !is_doubtful || chunk.known.len() < STRICT_LEN {
            return None;
        }
        let is_whole = chunk.known.len() as u64 == chunk.end - chunk.start;
        let last = match &self.state {
            // A whole packet within an inferred body; what ends in it is looked at in its turn.
            State::Body(body) if is_whole => {
                (body.pdu.end.min(chunk.end) - chunk.start).min((chunk.known.len() - STRICT_LEN) as u64 + 1)
            }
            _ => 1,
        };
        let sender = expected.sender();
        (0..last).find_map(|skip| {
            let bytes = &chunk.known[skip as usize..];
            plausible::out_of_sync(bytes, sender)?;
            let start = chunk.start + skip;
            let is_near = || self.anchor.is_some_and(|anchor| anchor.digests_len(start).is_some());
            let is_believed = match expected.fit(&PartialHeader::from_prefix(bytes)) {
                Fit::Continues => true,
                Fit::Neutral => match self.trial {
                    Trial::Inferred(_) => false,
                    Trial::Found(_) => skip == 0,
                    Trial::None => is_near(),
                },
                Fit::Contradicts => false,
            };
            is_believed.then_some(start)
        })
    }

    /// Begins the visible header at `start` within unconfirmed bytes.
    fn begin_within(&mut self, chunk: &Chunk<'_>, start: u64, expected: &mut impl Expectations) {
        if let State::Header(header) = &self.state {
            let begun = header.start - header.shift as u64;
            if self.anchor.is_some_and(|anchor| anchor.digests_len(start).is_some()) {
                // Behind the digests of the PDU before, which this header confirms.
                let header = HeaderInProgress::new(start, Origin::Near);
                self.state = State::Header(HeaderInProgress { shift: DIGESTS_MAX, ..header });
                return;
            }
            self.stretch.get_or_insert_with(|| Stretch::new(begun));
        }
        self.withdraw(chunk.packet, expected);
        if let Some(stretch) = &mut self.stretch {
            stretch.pass(chunk, chunk.start, start);
        }
        self.state = State::Header(HeaderInProgress::new(start, Origin::Found));
    }

    /// Searches a header in known bytes; returns the position to continue at.
    fn search(&mut self, at: u64, known: &[u8], chunk: &Chunk<'_>, expected: &impl Expectations) -> u64 {
        let sender = expected.sender();
        let is_header = |bytes: &[u8]| plausible::out_of_sync(bytes, sender).is_some();
        let stretch = self.stretch.get_or_insert_with(|| Stretch::new(at));
        if let Some((start, bytes, packet)) = self.tail.find(at, known, is_header) {
            let mut header = HeaderInProgress::new(start, Origin::Found);
            header.take_known(bytes, packet);
            self.tail.clear();
            self.state = State::Header(header);
            return at;
        }
        let mut starts = 0..(known.len() + 1).saturating_sub(STRICT_LEN);
        let found = starts.find(|start| is_header(&known[*start..]));
        let next = found.map_or(chunk.end, |start| at + start as u64);
        stretch.pass(chunk, at, next);
        let is_known = at + known.len() as u64 == chunk.end;
        match found {
            None if is_known => self.tail.keep(known, chunk.end, chunk.packet),
            None => self.tail.clear(),
            Some(_) => {
                self.tail.clear();
                self.state = State::Header(HeaderInProgress::new(next, Origin::Found));
            }
        }
        next
    }

    /// Takes a header of which all bytes have passed, known or not; its packet ends at `packet_end`.
    fn header(&mut self, mut header: HeaderInProgress, packet_end: u64, expected: &mut impl Expectations) {
        if !header.header.is_framing_known() {
            return self.infer(&header, packet_end, expected);
        }
        let is_doubtful = header.origin != Origin::Follows || self.trial != Trial::None;
        let fit = if is_doubtful { expected.fit(&header.header) } else { Fit::Neutral };
        let opcode = plausible::in_sync(&header.header.bytes, expected.sender()).filter(|opcode| {
            let prefix = header.header.known_prefix();
            match fit {
                Fit::Continues => true,
                _ if !is_doubtful => true,
                Fit::Neutral => {
                    plausible::out_of_sync(prefix, expected.sender()).is_some()
                        || header.origin == Origin::Follows && plausible::is_rare(*opcode)
                }
                Fit::Contradicts => {
                    header.origin == Origin::Found
                        && plausible::out_of_sync(prefix, expected.sender()).is_some()
                }
            }
        });
        match opcode {
            Some(opcode) => self.accept(opcode, &header, fit, expected),
            None if header.origin == Origin::Near && header.shift < DIGESTS_MAX => {
                header.skip_digest();
                self.state = State::Header(header);
            }
            None => {
                if header.origin == Origin::Follows {
                    expected.doubt_digests();
                }
                self.refute(&header, expected);
            }
        }
    }

    /// Accepts a visible header.
    fn accept(
        &mut self,
        opcode: Opcode,
        header: &HeaderInProgress,
        fit: Fit,
        expected: &mut impl Expectations,
    ) {
        let prefix = header.header.known_prefix();
        let digests_len = self.anchor.and_then(|anchor| Some((anchor, anchor.digests_len(header.start)?)));
        if let Some(anchor) = self.anchor
            && expected.digests().are_learned()
            && plausible::out_of_sync(prefix, expected.sender()).is_some()
        {
            let is_open = expected.digests().len(anchor.data_len).is_none();
            let of_many = || anchor.digests_of_many(header.start).filter(|_| is_open);
            if let Some(len) = digests_len.map(|(_, len)| len).or_else(of_many) {
                expected.learn_digests(anchor.data_len, len);
            }
        }
        let hidden_before = match (header.origin, self.trial) {
            (Origin::Begin | Origin::Found, _) => {
                let is_trusted = fit == Fit::Continues
                    || plausible::is_certain(prefix)
                    || digests_len.is_some()
                    || header.origin == Origin::Begin && is_login(opcode);
                self.find(header, is_trusted, digests_len.is_some())
            }
            (_, Trial::None) => self.stretch.take().map_or_else(Hidden::default, |stretch| stretch.hidden),
            (_, trial) => {
                expected.confirm();
                let hidden = self.stretch.take();
                self.trial = Trial::None;
                match trial {
                    Trial::Found(found) => {
                        self.counts.pdus += 1;
                        self.counts.lost_bytes +=
                            hidden.map_or(0, |stretch| found.saturating_sub(stretch.start));
                        Hidden::default()
                    }
                    Trial::Inferred(number) => {
                        self.counts.pdus += number;
                        self.counts.inferred += number;
                        hidden.map_or_else(Hidden::default, |stretch| stretch.hidden)
                    }
                    Trial::None => Hidden::default(),
                }
            }
        };
        self.body((opcode, false), header, hidden_before, expected);
    }

    /// Accounts for a header that was found; returns the bytes before it that may hide headers.
    fn find(&mut self, header: &HeaderInProgress, is_trusted: bool, is_near: bool) -> Hidden {
        self.counts.found += u64::from(header.origin == Origin::Found && !is_near);
        let stretch = self.stretch;
        if is_trusted {
            self.stretch = None;
            // Digests are no loss.
            let lost =
                stretch.filter(|_| !is_near).map_or(0, |stretch| header.start.saturating_sub(stretch.start));
            self.counts.lost_bytes += lost;
        } else {
            self.trial = Trial::Found(header.start);
            self.stretch.get_or_insert_with(|| Stretch::new(header.start));
        }
        stretch.filter(|_| !is_near).map_or_else(Hidden::default, |stretch| stretch.hidden)
    }

    /// Replaces a hidden header by the one that must follow.
    fn infer(&mut self, header: &HeaderInProgress, packet_end: u64, expected: &mut impl Expectations) {
        let number = match self.trial {
            Trial::None => 0,
            Trial::Inferred(number) => number,
            Trial::Found(_) => return self.refute(header, expected),
        };
        // Nothing is known of the packets in a gap.
        let rest = if header.missing { 0 } else { packet_end.saturating_sub(header.start) };
        let inferred = expected.next_header(self.last.as_ref(), rest);
        let is_possible = matches!(header.origin, Origin::Follows | Origin::Near) && number < INFERRED_MAX;
        let inferred = inferred.filter(|_| is_possible);
        let opcode = inferred.and_then(|inferred| Opcode::from_code(inferred.bytes[0]).ok());
        let (Some(inferred), Some(opcode)) = (inferred, opcode) else {
            return self.refute(header, expected);
        };
        self.trial = Trial::Inferred(number + 1);
        let stretch = self.stretch.get_or_insert_with(|| Stretch::new(header.start));
        stretch.hidden.add(header.header.unknown_len(), header.missing);
        // While digests are uncertain the likeliest ones are taken: the next visible header confirms or refutes them.
        // Bytes that were skipped as a digest are not in it.
        let start = match self.anchor {
            Some(anchor) if header.origin == Origin::Near => {
                header.start.max(anchor.end + expected.digests().likely_len(anchor.data_len) as u64)
            }
            _ => header.start,
        };
        let header = HeaderInProgress { start, header: inferred, ..header.clone() };
        self.body((opcode, true), &header, Hidden::default(), expected);
    }

    fn body(
        &mut self,
        (opcode, inferred): (Opcode, bool),
        header: &HeaderInProgress,
        hidden_before: Hidden,
        expected: &mut impl Expectations,
    ) {
        let bhs = header.header.bhs();
        let (ahs_len, data_len) = (if inferred { 0 } else { bhs.ahs_len() }, bhs.data_segment_len());
        let digests = expected.digests();
        let bare_end = header.start + (BHS_LEN + bare_len(ahs_len, data_len)) as u64;
        // A login PDU has no digests, whatever it negotiates for the PDUs after it.
        let digests_len = match opcode {
            _ if is_login(opcode) => Some(0),
            _ if inferred => Some(digests.likely_len(data_len)),
            _ => digests.len(data_len),
        };
        let end = bare_end + digests_len.unwrap_or_else(|| digests.least(data_len)) as u64;
        self.anchor = match self.anchor {
            _ if is_login(opcode) => None,
            anchor if inferred => anchor.map(|anchor| Anchor { is_last: false, ..anchor }),
            _ => Some(Anchor { data_len, start: header.start, end: bare_end, is_last: true }),
        };
        let (first, last) = header.packets.unwrap_or_default();
        let pdu = FramedPdu {
            opcode,
            header: header.header,
            data_len: data_len as u64,
            start: header.start,
            end,
            first,
            last,
            inferred,
            end_missing: header.missing,
            provisional: self.trial != Trial::None,
            hidden_before,
        };
        let next = if digests_len.is_some() { Origin::Follows } else { Origin::Near };
        let text_at = header.start + (BHS_LEN + ahs_len) as u64;
        let text =
            if inferred { KnownText::default() } else { KnownText::of(opcode, digests, text_at, data_len) };
        let body = BodyInProgress { pdu, text, next };
        if end == header.start + BHS_LEN as u64 {
            self.complete(body, expected);
        } else {
            self.state = State::Body(body);
        }
    }

    fn complete(&mut self, body: BodyInProgress, expected: &mut impl Expectations) {
        let BodyInProgress { mut pdu, text, next } = body;
        if pdu.last.number < pdu.first.number {
            // It began in a gap that a later packet gave up.
            std::mem::swap(&mut pdu.first, &mut pdu.last);
        }
        if !expected.pdu(&pdu, text.bytes()) {
            let header = HeaderInProgress {
                packets: Some((pdu.last, pdu.last)),
                ..HeaderInProgress::new(pdu.end, next)
            };
            return self.refute(&header, expected);
        }
        self.counts.pdus += u64::from(!pdu.provisional);
        self.last = Some(pdu);
        self.state = State::Header(HeaderInProgress::new(pdu.end, next));
    }

    /// Refutes the provisional PDUs: no header confirms them.
    fn refute(&mut self, header: &HeaderInProgress, expected: &mut impl Expectations) {
        let (_, packet) = header.packets.unwrap_or_default();
        self.withdraw(packet, expected);
        let stretch = self.stretch.get_or_insert_with(|| Stretch::new(header.start - header.shift as u64));
        stretch.hidden.add(header.header.unknown_len().min(header.got as u64), header.missing);
        self.last = None;
        self.tail.clear();
        self.state = State::OutOfSync;
        expected.lose_sync(packet.number);
        // The right header may begin within the bytes that were taken for one.
        let bytes = header.header.known_prefix();
        if bytes.len() == header.got {
            let sender = expected.sender();
            let mut starts = 1..(bytes.len() + 1).saturating_sub(STRICT_LEN);
            match starts.find(|start| plausible::out_of_sync(&bytes[*start..], sender).is_some()) {
                Some(start) => {
                    let mut found = HeaderInProgress::new(header.start + start as u64, Origin::Found);
                    found.take_known(&bytes[start..], packet);
                    self.state = State::Header(found);
                }
                None => self.tail.keep(bytes, header.start + header.got as u64, packet),
            }
        }
    }

    /// Withdraws the provisional PDUs.
    fn withdraw(&mut self, packet: PacketRef, expected: &mut impl Expectations) {
        match std::mem::take(&mut self.trial) {
            Trial::None => return,
            Trial::Inferred(number) => self.counts.refuted += number,
            Trial::Found(_) => {}
        }
        self.last = None;
        expected.withdraw(packet.t_ns);
    }
}

fn is_login(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::LoginRequest | Opcode::LoginResponse)
}

#[cfg(test)]
mod tests;
