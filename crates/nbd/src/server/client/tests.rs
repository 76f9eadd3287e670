//! A connection over a pair of sockets, with a device that completes by hand or is memory.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;

use block::{BlockDevice, Capabilities, ErrorKind, Lent, LentDevice, Memory, Profile};
use proto::nbd::server::{NbdExport, TlsPolicy};
use wire::nbd::{RequestHeader, command, command_flag};

use super::super::device::SharedDevice;
use super::*;
use crate::export::facts;
use crate::testing::{ManualDevice, ManualState, Unlent, profile};

const NOW: Instant = Instant::ZERO;
const OWNER: u64 = 7;

struct Rig {
    client: Client,
    shared: Shared,
    poll: Poll,
    far: UnixStream,
}

fn memory() -> LentDevice {
    LentDevice::from_lent(Lent::Memory(Memory::zeroed(8 << 20).unwrap()), 512, false)
}

impl Rig {
    /// A connection that has chosen the export, without structured replies.
    fn new(device: Box<dyn BlockDevice>) -> Rig {
        let (near, mut far) = UnixStream::pair().unwrap();
        let export = NbdExport {
            name: String::new(),
            description: String::new(),
            facts: facts(device.profile(), false).unwrap(),
            has_allocation: true,
        };
        let config = NbdServerConfig {
            exports: vec![export],
            default_export: Some(0),
            tls: TlsPolicy::Unsupported,
            lists: true,
            requests_max: 64,
            queue_max_bytes: 64 << 20,
        };
        let poll = Poll::new().unwrap();
        let shared = Shared::new(SharedDevice::new(device), "test");
        let peer = Peer { name: "peer".to_owned(), address: Ipv4Addr::UNSPECIFIED.into() };
        let accepted = Accepted { stream: Stream::Unix(near), peer };
        let part = shared.memory.part();
        let client = Client::new(accepted, (Owner(OWNER), 0), Arc::new(config), part, &poll, NOW).unwrap();
        // Fixed newstyle without zeroes, then NBD_OPT_EXPORT_NAME with an empty name.
        far.write_all(&[0, 0, 0, 3]).unwrap();
        far.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        let mut rig = Rig { client, shared, poll, far };
        assert!(rig.client.is_negotiating());
        rig.turn().unwrap();
        assert!(!rig.client.is_negotiating());
        assert_eq!(rig.receive(18 + 10)[..8], *b"NBDMAGIC");
        rig
    }

    fn manual(can: impl FnOnce(&mut Capabilities)) -> (Rig, ManualState) {
        let mut profile: Profile = profile();
        can(&mut profile.can);
        let (device, state) = ManualDevice::with_state(profile);
        (Rig::new(device), state)
    }

    fn memory() -> Rig {
        Rig::new(Box::new(memory()))
    }

    fn turn(&mut self) -> Result<Progress, EndReason> {
        self.client.flags.may_read = true;
        self.client.turn(&self.poll, &mut self.shared, TurnLimit::new(NOW, true), NOW)
    }

    /// Completions of the device, and a turn.
    fn complete(&mut self) -> Result<Progress, EndReason> {
        while let Some(done) = self.shared.device.poll(NOW) {
            self.client.completed(done, &mut self.shared, NOW);
        }
        self.turn()
    }

    fn send(&mut self, command: u16, flags: u16, cookie: u64, (offset_bytes, len_bytes): (u64, u32)) {
        let request = RequestHeader { flags, command, cookie, offset_bytes, len_bytes };
        self.far.write_all(&request.to_bytes()).unwrap();
    }

    fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.far.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Error and cookie of the next simple reply.
    fn reply(&mut self) -> (u32, u64) {
        let bytes = self.receive(16);
        assert_eq!(bytes[..4], [0x67, 0x44, 0x66, 0x98]);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        (number(&bytes[4..8]) as u32, number(&bytes[8..]))
    }
}

#[test]
fn requests_are_answered_in_the_order_of_their_completion() {
    let (mut rig, device) = Rig::manual(|_| {});
    for cookie in [10, 11, 12] {
        rig.send(command::READ, 0, cookie, (cookie * 4096, 512));
    }
    assert_eq!(rig.turn().unwrap(), Progress::Waits);
    assert_eq!(device.outstanding(), [(OWNER, 0), (OWNER, 1), (OWNER, 2)]);
    device.complete(OWNER, 2, None);
    device.complete(OWNER, 0, Some(ErrorKind::Medium));
    rig.complete().unwrap();
    assert_eq!((rig.reply(), rig.receive(512)), ((0, 12), vec![2; 512]));
    assert_eq!(rig.reply(), (5, 10), "without data");
    assert_eq!(rig.client.unanswered(), 1);
    device.complete(OWNER, 1, None);
    rig.complete().unwrap();
    assert_eq!((rig.reply(), rig.receive(512)), ((0, 11), vec![1; 512]));
    assert_eq!(rig.client.part.part_bytes(), 0, "the buffers are given back");
}

#[test]
fn memory_is_read_and_written_without_buffers() {
    let mut rig = Rig::memory();
    rig.send(command::WRITE, 0, 1, (4096, 300 << 10));
    let data: Vec<u8> = (0..300 << 10).map(|at| (at % 253) as u8).collect();
    let mut far = rig.far.try_clone().unwrap();
    let sender = {
        let data = data.clone();
        std::thread::spawn(move || far.write_all(&data).unwrap())
    };
    while rig.client.unanswered() > 0 || rig.client.machine.chosen().is_none() || !sender.is_finished() {
        rig.turn().unwrap();
        assert_eq!(rig.client.part.part_bytes(), 0);
    }
    sender.join().unwrap();
    rig.turn().unwrap();
    assert_eq!(rig.reply(), (0, 1));
    rig.send(command::READ, 0, 2, (4096 + 512, 8192));
    rig.turn().unwrap();
    assert_eq!((rig.reply(), rig.receive(8192)), ((0, 2), data[512..][..8192].to_vec()));
    assert_eq!(rig.shared.device.outstanding(), 0, "the device itself was not called");
}

#[test]
fn a_request_without_memory_waits_and_nothing_behind_it_is_taken() {
    let (mut rig, device) = Rig::manual(|_| {});
    let hog = rig.shared.memory.part();
    let held: Vec<_> = (0..8).map(|_| hog.take(32 << 20)).collect();
    rig.send(command::READ, 0, 1, (0, 4096));
    rig.send(command::READ, 0, 2, (0, 4096));
    assert_eq!(rig.turn().unwrap(), Progress::Waits);
    assert!(rig.client.is_stalled() && !rig.client.may_go_on(&rig.shared));
    assert!(!rig.client.link.watch.0.readable, "the socket is not read");
    assert_eq!(device.outstanding(), []);
    drop(held);
    assert!(rig.client.may_go_on(&rig.shared));
    rig.turn().unwrap();
    assert_eq!(device.outstanding(), [(OWNER, 0), (OWNER, 1)]);
    assert!(!rig.client.is_stalled() && rig.client.link.watch.0.readable);
}

#[test]
fn too_many_requests_wait_in_the_socket() {
    let (mut rig, device) = Rig::manual(|_| {});
    (0..100).for_each(|cookie| rig.send(command::READ, 0, cookie, (0, 512)));
    rig.turn().unwrap();
    assert_eq!(device.outstanding().len(), 64);
    assert!(!rig.client.link.watch.0.readable);
    (0..10).for_each(|key| device.complete(OWNER, key, None));
    rig.complete().unwrap();
    // The replies of this turn make room for the next one.
    while rig.turn().unwrap() == Progress::More {}
    assert_eq!(device.outstanding().len(), 64);
}

#[test]
fn fua_is_a_flush_where_the_device_has_none() {
    for (has_fua, expected) in [(false, "flush"), (true, "")] {
        let (mut rig, device) = Rig::manual(|can| (can.write_cache, can.fua) = (true, has_fua));
        rig.send(command::WRITE, command_flag::FUA, 1, (0, 512));
        rig.far.write_all(&[7; 512]).unwrap();
        rig.turn().unwrap();
        assert_eq!(device.last(), ("write 0+512".to_owned(), has_fua));
        device.complete(OWNER, 0, None);
        rig.complete().unwrap();
        if !expected.is_empty() {
            assert_eq!(device.last(), (expected.to_owned(), false));
            assert_eq!(rig.client.unanswered(), 1, "not before the flush");
            device.complete(OWNER, 0, None);
            rig.complete().unwrap();
        }
        assert_eq!(rig.reply(), (0, 1));
    }
}

#[test]
fn ranges_are_cut_at_the_limit_of_the_device_and_flushed_last() {
    let (mut rig, device) = Rig::manual(|can| can.write_cache = true);
    rig.send(command::WRITE_ZEROES, command_flag::FUA, 1, (512, (5 << 19) + 512));
    rig.turn().unwrap();
    let unmap = |offset_bytes: u64, len_bytes: u64| {
        format!("Unmap([ByteRange {{ offset_bytes: {offset_bytes}, len_bytes: {len_bytes} }}])")
    };
    let mib = 1 << 20;
    for words in [unmap(512, mib), unmap(512 + mib, mib), unmap(512 + 2 * mib, mib / 2 + 512), "flush".into()]
    {
        assert_eq!(device.last(), (words, false));
        assert_eq!(rig.client.unanswered(), 1);
        device.complete(OWNER, 0, None);
        rig.complete().unwrap();
    }
    assert_eq!(rig.reply(), (0, 1));
    // An error ends the rest of it.
    rig.send(command::TRIM, 0, 2, (0, 2 << 20));
    rig.turn().unwrap();
    device.complete(OWNER, 1, Some(ErrorKind::NoSpace));
    rig.complete().unwrap();
    assert_eq!((rig.reply(), device.outstanding().len()), ((28, 2), 0));
}

#[test]
fn zeroes_are_made_as_the_flags_say() {
    let (mut rig, device) = Rig::manual(|_| {});
    let mut check = |command, flags, expected: Option<&str>| {
        rig.send(command, flags, 1, (0, 4096));
        rig.turn().unwrap();
        if let Some(expected) = expected {
            let (words, fua) = device.last();
            assert!(words.starts_with(expected) && !fua, "{words}");
            let (owner, key) = device.outstanding()[0];
            device.complete(owner, key, None);
            rig.complete().unwrap();
        }
        assert_eq!(rig.reply().0, if expected.is_some() { 0 } else { 95 }, "{flags}");
    };
    check(command::WRITE_ZEROES, 0, Some("Unmap"));
    check(command::WRITE_ZEROES, command_flag::FAST_ZERO, Some("Unmap"));
    check(command::WRITE_ZEROES, command_flag::NO_HOLE, Some("Fill"));
    check(command::WRITE_ZEROES, command_flag::NO_HOLE | command_flag::FAST_ZERO, None);
    check(command::TRIM, 0, Some("Unmap"));
    check(command::CACHE, 0, Some("Verify"));
}

#[test]
fn bytes_that_are_no_request_end_the_connection() {
    let mut rig = Rig::memory();
    rig.far.write_all(&[0xa5; 28]).unwrap();
    let end = rig.turn().unwrap_err();
    assert!(matches!(end, EndReason::Fault(_)), "{end:?}");
    assert!(end.text(0).is_some_and(|text| text.starts_with("closed: peer")), "{end:?}");
}

#[test]
fn a_client_that_disconnects_gets_its_answers_first() {
    let (mut rig, device) = Rig::manual(|_| {});
    rig.send(command::READ, 0, 1, (0, 512));
    rig.send(command::DISC, 0, 2, (0, 0));
    assert_eq!(rig.turn().unwrap(), Progress::Waits);
    device.complete(OWNER, 0, None);
    assert!(matches!(rig.complete(), Err(EndReason::Done)));
    assert_eq!(rig.reply(), (0, 1));
}

#[test]
fn the_end_of_the_service_answers_and_takes_no_more() {
    let (mut rig, device) = Rig::manual(|_| {});
    rig.send(command::READ, 0, 1, (0, 512));
    rig.turn().unwrap();
    rig.client.end_soon();
    rig.send(command::READ, 0, 2, (0, 512));
    assert_eq!(rig.turn().unwrap(), Progress::Waits);
    assert_eq!(device.outstanding(), [(OWNER, 0)]);
    device.complete(OWNER, 0, None);
    assert!(matches!(rig.complete(), Err(EndReason::Shutdown)));
    assert_eq!(rig.reply(), (0, 1));
}

#[test]
fn a_lost_client_leaves_its_writes_to_the_device() {
    let (mut rig, device) = Rig::manual(|_| {});
    rig.send(command::WRITE, 0, 1, (0, 512));
    rig.far.write_all(&[7; 512]).unwrap();
    rig.turn().unwrap();
    rig.far.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(matches!(rig.turn(), Err(EndReason::Closed)));
    assert_eq!(
        EndReason::Closed.text(rig.client.unanswered()).unwrap(),
        "closed by its client; 1 request is unanswered"
    );
    rig.client.leave(&mut rig.shared, NOW);
    assert_eq!(device.withdrawn().len(), 1);
    device.complete(OWNER, 0, None);
    assert!(rig.shared.device.poll(NOW).is_some());
}

/// Readiness of the client's socket.
fn ready(rig: &Rig) -> Ready {
    let mut events = net::Events::new();
    rig.poll.wait(&mut events, None).unwrap();
    events.iter().next().expect("an event")
}

#[test]
fn a_stream_that_ends_is_taken_to_its_end_at_once() {
    for disconnects in [true, false] {
        let (mut rig, device) = Rig::manual(|_| {});
        rig.send(command::WRITE, 0, 1, (0, 512));
        rig.far.write_all(&[7; 512]).unwrap();
        if disconnects {
            rig.send(command::DISC, 0, 2, (0, 0));
        }
        rig.far.shutdown(std::net::Shutdown::Write).unwrap();
        let ready = ready(&rig);
        assert!(ready.is_closed());
        rig.client.ready(ready);
        let end = rig.client.finish_stream(ready, &rig.poll, &mut rig.shared, NOW);
        assert_eq!(device.outstanding(), [(OWNER, 0)], "the write has begun");
        if disconnects {
            end.unwrap();
            device.complete(OWNER, 0, None);
            assert!(matches!(rig.complete(), Err(EndReason::Done)));
            assert_eq!(rig.reply(), (0, 1), "it is answered");
        } else {
            assert!(matches!(end, Err(EndReason::Closed)));
        }
    }
}

#[test]
fn a_client_that_disconnects_and_is_gone_has_its_writes() {
    let (mut rig, device) = Rig::manual(|_| {});
    rig.send(command::WRITE, 0, 1, (0, 512));
    rig.far.write_all(&[7; 512]).unwrap();
    rig.send(command::DISC, 0, 2, (0, 0));
    rig.far.shutdown(std::net::Shutdown::Both).unwrap();
    let ready = ready(&rig);
    assert!(!ready.is_sound());
    rig.client.ready(ready);
    rig.client.finish_stream(ready, &rig.poll, &mut rig.shared, NOW).unwrap();
    let mut events = net::Events::new();
    rig.poll.wait(&mut events, Some(std::time::Duration::ZERO)).unwrap();
    assert_eq!(events.iter().count(), 0, "its socket wakes nobody any more");
    device.complete(OWNER, 0, None);
    assert!(matches!(rig.complete(), Err(EndReason::Done)));
    assert_eq!(device.withdrawn(), []);
}

/// A write of the conversation: its cookie, offset and length.
fn written() -> impl Iterator<Item = (u64, u64, usize)> {
    let len = |cookie: u64| [512, 4096, 16 << 10, 64 << 10, 300 << 10][cookie as usize % 5];
    (0..100).scan(0, move |offset_bytes, cookie| {
        let begin = *offset_bytes;
        *offset_bytes += len(cookie) as u64;
        Some((cookie, begin, len(cookie)))
    })
}

/// Requests in pieces of these lengths, in turn; the answers: error, and data of a read, by cookie.
fn answers(rig: &mut Rig, mut sent: &[u8], pieces: &[usize]) -> BTreeMap<u64, (u32, Vec<u8>)> {
    rig.far.set_nonblocking(true).unwrap();
    let (mut received, mut scratch) = (Vec::new(), vec![0; 1 << 20]);
    for piece in pieces.iter().cycle() {
        match rig.far.write(&sent[..sent.len().min(*piece)]) {
            Ok(written) => sent = &sent[written..],
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        let progress = rig.complete().unwrap();
        match rig.far.read(&mut scratch) {
            Ok(count) => received.extend(&scratch[..count]),
            Err(_) if sent.is_empty() && progress == Progress::Waits && rig.client.unanswered() == 0 => break,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    assert_eq!((rig.client.part.part_bytes(), rig.client.requests.len()), (0, 0), "nothing is left behind");
    let (mut found, mut rest) = (BTreeMap::new(), &received[..]);
    while let Some((header, behind)) = rest.split_at_checked(16) {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let (error, cookie) = (number(&header[4..8]) as u32, number(&header[8..]));
        // Cookies of reads begin at 1000.
        let read = written().find(|(write, ..)| error == 0 && cookie == write + 1000);
        let (data, behind) = behind.split_at(read.map_or(0, |(_, _, len)| len));
        assert!(found.insert(cookie, (error, data.to_vec())).is_none(), "{cookie} is answered once");
        rest = behind;
    }
    assert!(rest.is_empty());
    found
}

#[test]
fn any_pieces_of_the_bytes_have_the_same_answers() {
    let request = |command, cookie, offset_bytes, len: usize| {
        RequestHeader { flags: 0, command, cookie, offset_bytes, len_bytes: len as u32 }.to_bytes()
    };
    let data =
        |cookie: u64, len: usize| (0..len).map(|at| (at as u64 * 7 + cookie) as u8).collect::<Vec<_>>();
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    for (cookie, offset_bytes, len) in written() {
        writes.extend(request(command::WRITE, cookie, offset_bytes, len));
        writes.extend(data(cookie, len));
        // Half a block is refused, and its data are skipped.
        writes.extend(request(command::WRITE, cookie + 500, offset_bytes, 256));
        writes.extend([0xee; 256]);
        reads.extend(request(command::READ, cookie + 1000, offset_bytes, len));
    }
    for pieces in [&[1 << 20][..], &[3, 70_000, 1], &[28, 4096], &[64 << 10, 27, 29], &[200_000, 13]] {
        for is_lent in [true, false] {
            let device: Box<dyn BlockDevice> =
                if is_lent { Box::new(memory()) } else { Box::new(Unlent(memory())) };
            let mut rig = Rig::new(device);
            let mut found = answers(&mut rig, &writes, pieces);
            found.extend(answers(&mut rig, &reads, pieces));
            for (cookie, _, len) in written() {
                assert_eq!(found[&cookie], (0, vec![]), "{pieces:?}, lent {is_lent}");
                assert_eq!(found[&(cookie + 500)], (22, vec![]), "{pieces:?}, lent {is_lent}");
                assert!(found[&(cookie + 1000)] == (0, data(cookie, len)), "{pieces:?}, lent {is_lent}");
            }
            assert_eq!(found.len(), 300);
        }
    }
}
