//! A framer alone: its expectations are written down, and no session stands behind it.

use super::*;
use crate::iscsi::digests::{DIGEST_LEN, Digests};
use crate::iscsi::role::Role;

/// Data of every PDU in these tests.
const DATA_LEN: usize = 16;
const PDU_LEN: u64 = (BHS_LEN + DATA_LEN) as u64;
/// Task tag of every PDU.
const ITT: u8 = 7;

/// Written expectations, and the PDUs that were framed.
struct Script {
    digests: Digests,
    next: Option<PartialHeader>,
    /// Task tags that the session knows.
    known: Vec<u32>,
    /// Begin, end, inferred of confirmed PDUs.
    pdus: Vec<(u64, u64, bool)>,
    provisional: Vec<(u64, u64, bool)>,
    /// Packets at which sync was lost.
    lost_at: Vec<u64>,
}

impl Script {
    fn new(digests: Digests) -> Script {
        let known = vec![ITT.into()];
        Script { digests, next: None, known, pdus: Vec::new(), provisional: Vec::new(), lost_at: Vec::new() }
    }

    /// All of which the header is a Data-In of `data_len` bytes, if it is hidden.
    fn expecting(data_len: usize) -> Script {
        let next = PartialHeader::inferred(Opcode::DataIn, ITT.into(), data_len as u64);
        Script { next: Some(next), ..Script::new(Digests::negotiated(false, false)) }
    }

    fn inferred(&self) -> Vec<bool> {
        self.pdus.iter().map(|(.., inferred)| *inferred).collect()
    }
}

impl Expectations for Script {
    fn sender(&self) -> Role {
        Role::Target
    }

    fn digests(&self) -> Digests {
        self.digests
    }

    fn learn_digests(&mut self, data_len: usize, digests_len: usize) {
        self.digests.learn(data_len, digests_len);
    }

    fn doubt_digests(&mut self) {
        self.digests.miss();
    }

    fn fit(&self, header: &PartialHeader) -> Fit {
        match header.word(16) {
            Some(itt) if self.known.contains(&itt) => Fit::Continues,
            _ => Fit::Neutral,
        }
    }

    fn next_header(&self, _: Option<&FramedPdu>, _: u64) -> Option<PartialHeader> {
        self.next
    }

    fn pdu(&mut self, pdu: &FramedPdu, _: &[u8]) -> bool {
        let list = if pdu.provisional { &mut self.provisional } else { &mut self.pdus };
        list.push((pdu.start, pdu.end, pdu.inferred));
        true
    }

    fn confirm(&mut self) {
        self.pdus.append(&mut self.provisional);
    }

    fn withdraw(&mut self, _: u64) {
        self.provisional.clear();
    }

    fn lose_sync(&mut self, packet: u64) {
        self.lost_at.push(packet);
    }
}

/// A Data-In with its data.
fn data_in() -> Vec<u8> {
    of_task(ITT)
}

fn of_task(itt: u8) -> Vec<u8> {
    let mut pdu = vec![0; BHS_LEN + DATA_LEN];
    (pdu[0], pdu[7], pdu[19]) = (0x25, DATA_LEN as u8, itt);
    pdu
}

/// Passes chunks of (length, known bytes), one per packet.
fn frame(script: &mut Script, chunks: &[(u64, &[u8])]) -> Framer {
    let mut framer = Framer::default();
    let mut start = 0;
    for (number, (len, known)) in (1..).zip(chunks) {
        let packet = PacketRef { number, ..PacketRef::default() };
        let chunk = Chunk { start, end: start + len, known, packet, missing: false };
        framer.chunk(&chunk, script);
        start += len;
    }
    framer
}

#[test]
fn known_headers_are_found_wherever_packets_end() {
    let bytes = [data_in(), data_in(), data_in()].concat();
    for size in [1, 5, 47, 48, 49, 64, 100, bytes.len()] {
        for before in [0, 5] {
            let bytes = [vec![0xff; before], bytes.clone()].concat();
            let mut script = Script::new(Digests::negotiated(false, false));
            let chunks: Vec<_> = bytes.chunks(size).map(|part| (part.len() as u64, part)).collect();
            let framer = frame(&mut script, &chunks);
            let begin = before as u64;
            let expected = [0, 1, 2].map(|n| (begin + n * PDU_LEN, begin + (n + 1) * PDU_LEN, false));
            assert_eq!(script.pdus, expected, "{size} bytes a packet, {before} before");
            assert!(!framer.is_within_pdu());
            assert_eq!((framer.counts().lost_bytes, framer.open()), (begin, Hidden::default()));
        }
    }
}

#[test]
fn a_hidden_header_is_the_expected_one() {
    let pdu = data_in();
    let mut script = Script::expecting(DATA_LEN);
    let framer = frame(&mut script, &[(PDU_LEN, &pdu), (PDU_LEN, &[]), (PDU_LEN, &pdu)]);
    assert_eq!(script.inferred(), [false, true, false]);
    let counts = framer.counts();
    assert_eq!((counts.pdus, counts.inferred, counts.refuted, counts.lost_bytes), (3, 1, 0, 0));
}

#[test]
fn an_inferred_header_without_another_one_after_it_is_withdrawn() {
    let (pdu, noise) = (data_in(), [0xff; BHS_LEN]);
    let mut script = Script::expecting(DATA_LEN);
    let chunks: [(u64, &[u8]); 4] =
        [(PDU_LEN, &pdu), (PDU_LEN, &[]), (BHS_LEN as u64, &noise), (PDU_LEN, &pdu)];
    let framer = frame(&mut script, &chunks);
    let counts = framer.counts();
    assert_eq!((counts.pdus, counts.inferred, counts.refuted), (2, 0, 1));
    assert_eq!((counts.lost_bytes, counts.found), (PDU_LEN + BHS_LEN as u64, 2));
    assert_eq!(script.inferred(), [false, false]);
}

#[test]
fn a_visible_header_within_an_inferred_pdu_is_believed() {
    let (pdu, other) = (data_in(), of_task(ITT + 1));
    // The hidden PDU had no such length: the packets after it begin with headers.
    for keep in [BHS_LEN, 30] {
        let mut script = Script::expecting(100 * DATA_LEN);
        let chunks: [(u64, &[u8]); 4] =
            [(PDU_LEN, &pdu), (PDU_LEN, &[]), (PDU_LEN, &pdu[..keep]), (PDU_LEN, &pdu)];
        let framer = frame(&mut script, &chunks);
        assert_eq!(script.inferred(), [false; 3], "{keep} kept");
        let counts = framer.counts();
        assert_eq!((counts.pdus, counts.refuted, counts.lost_bytes), (3, 1, PDU_LEN));
        // Data that looks like a header of an unknown task is data.
        let mut script = Script::expecting(2 * DATA_LEN + BHS_LEN);
        let chunks: [(u64, &[u8]); 4] =
            [(PDU_LEN, &pdu), (PDU_LEN, &[]), (PDU_LEN, &other[..keep]), (PDU_LEN, &pdu)];
        let framer = frame(&mut script, &chunks);
        assert_eq!(script.inferred(), [false, true, false], "{keep} kept");
        assert_eq!(framer.counts().refuted, 0);
    }
}

#[test]
fn a_header_of_an_unknown_task_has_to_be_confirmed() {
    let other = of_task(ITT + 1);
    let mut script = Script::new(Digests::negotiated(false, false));
    frame(&mut script, &[(PDU_LEN, &other)]);
    assert_eq!((script.pdus.len(), script.provisional.len()), (0, 1));
    let mut script = Script::new(Digests::negotiated(false, false));
    frame(&mut script, &[(PDU_LEN, &other), (PDU_LEN, &other)]);
    assert_eq!(script.pdus.len(), 2);
    let mut script = Script::new(Digests::negotiated(false, false));
    let noise = [0xff; BHS_LEN];
    let framer = frame(&mut script, &[(PDU_LEN, &other), (BHS_LEN as u64, &noise), (PDU_LEN, &data_in())]);
    assert_eq!((script.pdus.len(), framer.counts().lost_bytes), (1, PDU_LEN + BHS_LEN as u64));
}

#[test]
fn without_an_expected_header_sync_is_lost() {
    let mut script = Script::new(Digests::negotiated(false, false));
    let framer = frame(&mut script, &[(PDU_LEN, &data_in()), (BHS_LEN as u64, &[])]);
    assert_eq!((framer.counts().lost_bytes, framer.counts().inferred), (BHS_LEN as u64, 0));
    assert!(!framer.is_within_pdu() && framer.is_out_of_sync());
    assert_eq!(framer.open(), Hidden { cut: BHS_LEN as u64, missing: 0, parts: 1 });
}

#[test]
fn unknown_digests_are_learned_from_several_headers() {
    let with_digest = |pdu: Vec<u8>| [pdu, vec![0xdd; DIGEST_LEN]].concat();
    let len = PDU_LEN + DIGEST_LEN as u64;
    for keep in [usize::MAX, 30] {
        let mut script = Script::new(Digests::default());
        let pdu = with_digest(data_in());
        let known = &pdu[..keep.min(pdu.len())];
        let framer = frame(&mut script, &[(len, known), (len, known), (len, known)]);
        assert_eq!(script.pdus.iter().map(|pdu| pdu.0).collect::<Vec<_>>(), [0, len, 2 * len], "{keep}");
        assert_eq!(script.digests.len(DATA_LEN), None, "two headers are not enough");
        assert_eq!(framer.counts().lost_bytes, 0);
        frame(&mut script, &[(len, known), (len, known)]);
        // Header or data digest: both are possible, none and two are not.
        assert_eq!((script.digests.known(), script.digests.len(DATA_LEN)), (None, Some(DIGEST_LEN)));
        assert_eq!(script.digests.len(0), None);
    }
}

#[test]
fn an_inferred_header_is_behind_the_bytes_that_were_skipped() {
    let pdu = data_in();
    // Bytes behind a PDU of unknown digests that are no header, skipped as digests until too few are known.
    for known in 20..BHS_LEN {
        for data_len in [0, 1, 4, 8, DATA_LEN] {
            let digests = Digests::default();
            let mut script = Script { digests, ..Script::expecting(data_len) };
            let noise = vec![0xff; known];
            frame(&mut script, &[(PDU_LEN, &pdu), (3 * PDU_LEN, &noise), (PDU_LEN, &[]), (PDU_LEN, &pdu)]);
            let mut framed = script.pdus.clone();
            framed.append(&mut script.provisional);
            let is_ordered = framed.is_sorted_by(|one, next| one.1 <= next.0);
            assert!(is_ordered, "{known} known, {data_len} of data: {framed:?}");
        }
    }
}
