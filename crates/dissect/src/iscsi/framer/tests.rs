//! A framer alone: its expectations are written down, and no session stands behind it.

use super::*;
use crate::iscsi::digests::Digests;

/// Data of every PDU in these tests.
const DATA_LEN: usize = 16;
const PDU_LEN: u64 = (BHS_LEN + DATA_LEN) as u64;

/// Written expectations, and the PDUs that were framed.
struct Script {
    digests: Digests,
    next: Option<PartialHeader>,
    /// Begin, end, inferred.
    pdus: Vec<(u64, u64, bool)>,
    /// Packets at which sync was lost.
    lost_at: Vec<u64>,
}

impl Script {
    fn new(digests: Digests) -> Script {
        Script { digests, next: None, pdus: Vec::new(), lost_at: Vec::new() }
    }
}

impl Expectations for Script {
    fn sender(&self) -> Role {
        Role::Target
    }

    fn digests(&self) -> Digests {
        self.digests
    }

    fn learn_digests(&mut self, data_len: usize, digests_len: usize) -> bool {
        self.digests.learn(data_len, digests_len)
    }

    fn next_header(&self, _: Option<&FramedPdu>) -> Option<PartialHeader> {
        self.next
    }

    fn pdu(&mut self, pdu: &FramedPdu, _: &[u8]) {
        self.pdus.push((pdu.start, pdu.end, pdu.inferred));
    }

    fn lose_sync(&mut self, packet: u64) {
        self.lost_at.push(packet);
    }
}

/// A Data-In with its data.
fn data_in() -> Vec<u8> {
    let mut pdu = vec![0; BHS_LEN + DATA_LEN];
    (pdu[0], pdu[7], pdu[19]) = (0x25, DATA_LEN as u8, 7);
    pdu
}

/// Passes chunks of (length, known bytes), one per packet.
fn frame(script: &mut Script, chunks: &[(u64, &[u8])]) -> Framer {
    let mut framer = Framer::default();
    framer.begin(0);
    let mut start = 0;
    for (number, (len, known)) in (1..).zip(chunks) {
        let chunk =
            Chunk { start, end: start + len, known, packet: PacketRef { number, ..PacketRef::default() } };
        framer.chunk(&chunk, script);
        start += len;
    }
    framer
}

#[test]
fn known_headers_are_found_wherever_packets_end() {
    let bytes = [data_in(), data_in(), data_in()].concat();
    for size in [1, 5, 47, 48, 49, 64, 100, bytes.len()] {
        let mut script = Script::new(Digests::negotiated(false, false));
        let chunks: Vec<_> = bytes.chunks(size).map(|part| (part.len() as u64, part)).collect();
        let framer = frame(&mut script, &chunks);
        let expected = [0, 1, 2].map(|n| (n * PDU_LEN, (n + 1) * PDU_LEN, false));
        assert_eq!(script.pdus, expected, "{size} bytes a packet");
        assert!(!framer.is_within_pdu() && script.lost_at.is_empty());
    }
}

#[test]
fn a_hidden_header_is_the_expected_one() {
    let pdu = data_in();
    let mut script = Script::new(Digests::negotiated(false, false));
    script.next = Some(PartialHeader::inferred(Opcode::DataIn, 7, DATA_LEN as u64));
    let framer = frame(&mut script, &[(PDU_LEN, &pdu), (PDU_LEN, &[]), (PDU_LEN, &pdu)]);
    assert_eq!(script.pdus.iter().map(|(.., inferred)| *inferred).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!((framer.counts.inferred, framer.counts.refuted), (1, 0));
}

#[test]
fn an_inferred_header_without_another_one_after_it_is_refuted() {
    let (pdu, noise) = (data_in(), [0xff; BHS_LEN]);
    let mut script = Script::new(Digests::negotiated(false, false));
    script.next = Some(PartialHeader::inferred(Opcode::DataIn, 7, DATA_LEN as u64));
    let chunks: [(u64, &[u8]); 4] =
        [(PDU_LEN, &pdu), (PDU_LEN, &[]), (BHS_LEN as u64, &noise), (PDU_LEN, &pdu)];
    let framer = frame(&mut script, &chunks);
    assert_eq!((framer.counts.inferred, framer.counts.refuted), (1, 1));
    assert_eq!((framer.counts.lost_bytes, framer.counts.found), (BHS_LEN as u64, 1));
    // Lost in the noise, and found again with the next packet.
    assert_eq!(script.lost_at, [3, 4]);
    assert_eq!(script.pdus.len(), 3);
}

#[test]
fn without_an_expected_header_sync_is_lost() {
    let mut script = Script::new(Digests::negotiated(false, false));
    let framer = frame(&mut script, &[(PDU_LEN, &data_in()), (BHS_LEN as u64, &[])]);
    assert_eq!((framer.counts.lost_bytes, framer.counts.inferred), (BHS_LEN as u64, 0));
    assert!(!framer.is_within_pdu());
}

#[test]
fn an_unknown_digest_is_learned_from_the_next_header() {
    let with_digest = |pdu: Vec<u8>| [pdu, vec![0xdd; DIGEST_LEN]].concat();
    let bytes = [with_digest(data_in()), with_digest(data_in())].concat();
    let mut script = Script::new(Digests::default());
    frame(&mut script, &[(bytes.len() as u64, &bytes)]);
    assert_eq!(script.pdus[1].0, PDU_LEN + DIGEST_LEN as u64);
    // Header or data digest: both are possible, none and two are not.
    assert_eq!((script.digests.known(), script.digests.least(DATA_LEN)), (None, DIGEST_LEN));
    assert_eq!(script.digests.least(0), 0);
}
