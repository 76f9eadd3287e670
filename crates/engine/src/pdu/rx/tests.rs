//! Splits of the same bytes, digests that do not fit, and a socket.

use super::*;

/// Lays every payload down in one buffer and writes a line per PDU.
#[derive(Default)]
struct Recorder {
    memory: Vec<u8>,
    log: Vec<String>,
    /// Lines after which it has had enough; 0 if it never has.
    enough: usize,
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

    fn bad_header(&mut self) -> String {
        "bad header".to_owned()
    }

    fn wants_more(&self) -> bool {
        self.enough == 0 || self.log.len() < self.enough
    }

    fn bad_data(&mut self, header: &[u8; BHS_LEN]) -> Result<(), String> {
        self.log.push(format!("{:#04x} bad data", header[0]));
        Ok(())
    }
}

const NONE: Digests = Digests { header: false, data: false };

fn pdu(opcode: u8, place: u8, ahs_words: u8, data: &[u8], digests: Digests) -> Vec<u8> {
    let mut bytes = vec![0; BHS_LEN];
    (bytes[0], bytes[4], bytes[40]) = (opcode, ahs_words, place);
    bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    bytes.resize(BHS_LEN + usize::from(ahs_words) * 4, 0xee);
    if digests.header {
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    }
    let start = bytes.len();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len() + padding(data.len()), 0);
    if digests.data && !data.is_empty() {
        bytes.extend_from_slice(&crc32c::crc32c(&bytes[start..]).to_le_bytes());
    }
    bytes
}

/// Feeds a stream in steps of a length; returns the PDUs and the payload.
fn feed(stream: &[u8], step: usize, digests: Digests) -> Result<(Vec<String>, Vec<u8>), String> {
    let (mut rx, mut recorder) = (Rx::new(), Recorder::default());
    rx.set_digests(digests);
    let mut pending: Vec<u8> = Vec::new();
    for part in stream.chunks(step) {
        pending.extend_from_slice(&std::mem::take(&mut rx.kept));
        pending.extend_from_slice(part);
        rx.take(&std::mem::take(&mut pending), &mut recorder)?;
    }
    assert!(rx.kept.is_empty() && rx.segment.is_none());
    assert_eq!(rx.payload_bytes(), 5 + 1000);
    Ok((recorder.log, recorder.memory))
}

fn stream(digests: Digests) -> Vec<u8> {
    [
        pdu(0x05, 7, 0, b"seven", digests),
        pdu(0x04, 0, 0, b"text=1", digests),
        pdu(0x00, 0, 2, b"", digests),
        pdu(0x05, 100, 0, &[9; 1003], digests),
        pdu(0x00, 0, 0, b"nobody wants this", digests),
    ]
    .concat()
}

#[test]
fn the_same_pdus_come_out_however_the_bytes_arrive() {
    for (header, data) in [(false, false), (true, false), (false, true), (true, true)] {
        let digests = Digests { header, data };
        let stream = stream(digests);
        let (log, memory) = feed(&stream, stream.len(), digests).unwrap();
        assert_eq!(log, ["0x05 ", "0x04 text=1", "ahs 8", "0x00 ", "0x05 ", "ahs 0", "0x00 "]);
        assert_eq!((&memory[7..12], &memory[1099..1102]), (&b"seven"[..], &[9, 0, 0][..]));
        for step in 1..stream.len() {
            let outcome = feed(&stream, step, digests);
            assert_eq!(outcome, Ok((log.clone(), memory.clone())), "in steps of {step}");
        }
    }
}

#[test]
fn a_changed_byte_is_found_wherever_it_is() {
    let digests = Digests { header: true, data: true };
    let good = pdu(0x04, 0, 1, b"text=1", digests);
    let header_bytes = BHS_LEN + 4 + DIGEST_BYTES;
    for changed in 0..good.len() {
        // Another length is another place of the digest: there may not be enough bytes to tell.
        if (4..8).contains(&changed) {
            continue;
        }
        for step in [1, 5, good.len()] {
            let (mut rx, mut recorder) = (Rx::new(), Recorder::default());
            rx.set_digests(digests);
            let mut bytes = good.clone();
            bytes[changed] ^= 0x10;
            let result = bytes.chunks(step).try_for_each(|part| {
                let kept = std::mem::take(&mut rx.kept);
                rx.take(&[&kept[..], part].concat(), &mut recorder)
            });
            if changed < header_bytes {
                assert_eq!(result, Err("bad header".to_owned()), "byte {changed}");
            } else {
                assert_eq!((result, &recorder.log[..]), (Ok(()), &["0x04 bad data".to_owned()][..]));
            }
        }
    }
}

#[test]
fn digests_cover_what_is_read_straight_into_its_place() {
    use std::io::Write;
    use std::net::TcpListener;

    struct Whole(Vec<u8>, Vec<bool>, Vec<Span>, Instant);

    impl Receiver for Whole {
        type Place = ();
        type Error = ();

        fn header(&mut self, header: &[u8; BHS_LEN], _: &[u8]) -> Result<Landing<()>, ()> {
            Ok(Landing::Place { place: (), len_bytes: Bhs::new(header).data_segment_len() })
        }

        fn space(&mut self, (): &(), offset: usize, len: usize) -> &mut [u8] {
            &mut self.0[offset..][..len]
        }

        fn pdu(&mut self, _: &[u8; BHS_LEN], _: &[u8]) -> Result<(), ()> {
            self.1.push(true);
            Ok(())
        }

        fn bad_header(&mut self) {}

        fn bad_data(&mut self, _: &[u8; BHS_LEN]) -> Result<(), ()> {
            self.1.push(false);
            Ok(())
        }

        fn wants_more(&self) -> bool {
            self.1.len() < 3
        }

        fn wants_times(&self) -> bool {
            true
        }

        fn came(&mut self, at: Instant) {
            assert!(at >= self.3);
            self.3 = at;
        }

        fn lies(&mut self, span: Span) {
            assert!(self.3 > Instant::ZERO);
            self.2.push(span);
        }
    }

    let digests = Digests { header: true, data: true };
    let data: Vec<u8> = (0..3_000_001usize).map(|n| ((n * 31) >> 4) as u8).collect();
    let good = pdu(0x05, 0, 0, &data, digests);
    let mut bad = good.clone();
    bad[1_500_000] ^= 1;
    let bytes = [&good[..], &bad, &good].concat();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let writer = std::thread::spawn(move || peer.write_all(&bytes).unwrap());
    let (mut rx, mut scratch) = (Rx::new(), Scratch::new());
    rx.set_digests(digests);
    let mut whole = Whole(vec![0; data.len()], Vec::new(), Vec::new(), Instant::ZERO);
    while whole.wants_more() {
        rx.receive(&stream, &mut scratch, &mut whole, Quantum { bytes: 1 << 20, pdus: 2 }).unwrap();
    }
    writer.join().unwrap();
    assert_eq!(whole.1, [true, false, true]);
    assert!(whole.0 == data);
    let len = good.len() as u64;
    assert_eq!(whole.2, [0, 1, 2].map(|n| Span { begin: n * len, end: (n + 1) * len }));
}

#[test]
fn a_refusal_ends_it() {
    let error = Rx::new().take(&pdu(0x3e, 0, 0, b"", NONE), &mut Recorder::default());
    assert_eq!(error, Err("refused".to_owned()));
}

/// Two PDUs a turn, whatever one read brings; the bytes in between are not lost, nor copied around.
#[test]
fn a_turn_takes_as_many_pdus_as_it_may() {
    use std::io::Write;
    use std::net::TcpListener;

    let one = pdu(0x04, 0, 0, b"text=1", NONE);
    // The last turn ends before the part of a PDU, or within a turn.
    let exact = [(true, 2), (true, 4), (true, 6), (true, 8), (false, 8)];
    let odd = [(true, 2), (true, 4), (true, 6), (false, 7)];
    for (whole, turns) in [(8, &exact[..]), (7, &odd[..])] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        peer.write_all(&[&one.repeat(whole)[..], &one[..20]].concat()).unwrap();
        let mut all = vec![0; whole * one.len() + 20];
        while stream.peek(&mut all).unwrap() < all.len() {}
        stream.set_nonblocking(true).unwrap();
        let (mut rx, mut scratch, mut recorder) = (Rx::new(), Scratch::new(), Recorder::default());
        let mut turn = |recorder: &mut Recorder| {
            rx.receive(&stream, &mut scratch, recorder, Quantum { bytes: 1 << 20, pdus: 2 }).unwrap()
        };
        for (more, pdus) in turns {
            assert_eq!((turn(&mut recorder), recorder.log.len()), (*more, *pdus), "of {whole}");
        }
        peer.write_all(&one[20..]).unwrap();
        while stream.peek(&mut [0]).is_err() {}
        assert_eq!((turn(&mut recorder), recorder.log.len()), (false, whole + 1));
        assert!(recorder.log.iter().all(|line| line == "0x04 text=1"), "{:?}", recorder.log);
        assert!(rx.kept.is_empty() && rx.kept_at == 0);
    }
}

/// A receiver that has had enough finds the rest when it wants more, though nothing more comes from the socket.
#[test]
fn what_a_receiver_does_not_want_now_is_there_later() {
    use std::io::Write;
    use std::net::TcpListener;

    const ALL: usize = 10;
    let one = pdu(0x04, 0, 0, b"text=1", NONE);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    peer.write_all(&one.repeat(ALL)).unwrap();
    let mut all = vec![0; ALL * one.len()];
    while stream.peek(&mut all).unwrap() < all.len() {}
    stream.set_nonblocking(true).unwrap();
    let (mut rx, mut scratch, mut recorder) = (Rx::new(), Scratch::new(), Recorder::default());
    for enough in [3, 4, 9, ALL] {
        recorder.enough = enough;
        let more = rx.receive(&stream, &mut scratch, &mut recorder, Quantum::ALONE).unwrap();
        assert_eq!((recorder.log.len(), more), (enough, true));
    }
    recorder.enough = 0;
    assert!(!rx.receive(&stream, &mut scratch, &mut recorder, Quantum::ALONE).unwrap());
    assert_eq!(recorder.log, vec!["0x04 text=1"; ALL]);
    assert!(rx.kept.is_empty() && rx.kept_at == 0);
}
