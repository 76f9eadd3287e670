//! Connections of a recorder over loopback.

use wire::pcap::write;

use super::*;

/// Both ends of a connection.
fn pair() -> (TcpStream, TcpStream, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let sender = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (ours, peer) = listener.accept().expect("its other end");
    (sender, ours, peer)
}

fn said(messages: &[Message<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        message.emit(&mut bytes);
        if let Message::Hello { header, .. } = message {
            bytes.extend(*header);
        }
    }
    bytes
}

fn header() -> Vec<u8> {
    let mut header = Vec::new();
    write::section(&mut header, &write::Section::default());
    let about = write::Interface { name: "a", description: "", link: 1, snap_bytes: 96, filter: "" };
    write::interface(&mut header, &about);
    header
}

fn recorder(dir: &tempfile::TempDir) -> Recorder {
    let settings = RecorderSettings { dir: dir.path().to_owned(), rotation: Rotation::default() };
    Recorder::new(settings, Notices::new(|_| {})).expect("a recorder")
}

#[test]
fn an_end_that_was_not_heard_is_told_again() {
    let dir = tempfile::tempdir().unwrap();
    let Recorder { shared } = recorder(&dir);
    let header = header();
    // A lost connection ends here, too: the clone stands for that of the accepting thread.
    for (packets, answers) in [(None, &[0][..]), (Some(7), &[0, 7]), (Some(7), &[7, 7])] {
        let (mut sender, ours, peer) = pair();
        let _line = ours.try_clone().unwrap();
        let mut messages = vec![Message::Hello { capture: 5, header: &header }];
        messages.extend(packets.map(|packets| Message::End { packets }));
        sender.write_all(&said(&messages)).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
        shared.connection(&ours, peer, &AtomicBool::new(false));
        let mut heard = Vec::new();
        sender.read_to_end(&mut heard).unwrap();
        let [welcome, rest @ ..] = answers else { unreachable!() };
        let mut expected = vec![Message::Welcome { next: *welcome }];
        expected.extend(rest.iter().map(|next| Message::Written { next: *next }));
        assert_eq!(heard, said(&expected), "{packets:?}");
    }
    let totals = *lock(&shared.totals);
    assert_eq!(totals, Totals { captures: 1, ended: 1, missing_packets: 7, ..Totals::default() });
    assert!(lock(&shared.captures).is_empty());
}

#[test]
fn a_capture_whose_sender_is_gone_at_once_can_make_room() {
    let dir = tempfile::tempdir().unwrap();
    let Recorder { shared } = recorder(&dir);
    let (mut sender, ours, peer) = pair();
    sender.write_all(&said(&[Message::Hello { capture: 5, header: &header() }])).unwrap();
    // Its welcome cannot be said.
    ours.shutdown(Shutdown::Write).unwrap();
    shared.connection(&ours, peer, &AtomicBool::new(false));
    let captures = lock(&shared.captures);
    assert!(captures.values().all(|entry| lock(&entry.stream).is_none()) && captures.len() == 1);
}

#[test]
fn whoever_is_turned_away_is_told_why() {
    let (mut sender, ours, _) = pair();
    turn_away(&ours);
    let mut heard = Vec::new();
    sender.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, said(&[Message::Refused { reason: TOO_MANY }]));
}

#[test]
fn a_host_that_breaks_off_again_and_again_does_not_fill_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let settings = RecorderSettings { dir: dir.path().to_owned(), rotation: Rotation::default() };
    let lines = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lines);
    let notices = Notices::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let Recorder { shared } = Recorder::new(settings, notices).expect("a recorder");
    for _ in 0..100 {
        let (sender, ours, peer) = pair();
        drop(sender);
        shared.connection(&ours, peer, &AtomicBool::new(false));
    }
    let lines = lines.load(Ordering::Relaxed);
    assert!((1..50).contains(&lines), "{lines} lines for 100 connections");
}
