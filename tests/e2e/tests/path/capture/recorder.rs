//! Captures that are kept by `farlun recorder`: the same packets, or a count of those that are missing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::process::until;
use e2e::{Service, farlun, farlun_path, need, port, run};
use serde_json::Value;

use super::taken::{Capture, LIMIT, available, files, is_over, packets, packets_so_far, talk_to};

struct Recorder {
    service: Service,
    address: String,
}

impl Recorder {
    #[track_caller]
    fn start(dir: &Path, listen: &str) -> Recorder {
        Recorder::with(farlun(["recorder", "--json", "--listen", listen, "-o"]).arg(dir))
    }

    #[track_caller]
    fn with(command: &mut Command) -> Recorder {
        let mut service = Service::start(command);
        let ready: Value = serde_json::from_str(&service.next_line(LIMIT)).expect("a line of JSON");
        let address = ready["addresses"][0].as_str().expect("an address").to_owned();
        Recorder { service, address }
    }

    #[track_caller]
    fn end(mut self) -> Value {
        self.service.signal("TERM");
        let line = self.service.next_line(LIMIT);
        assert_eq!(self.service.ended(LIMIT), 0);
        serde_json::from_str(&line).expect("a line of JSON")
    }
}

fn captures(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("a file").path());
    let mut paths: Vec<_> = entries.collect();
    paths.sort();
    paths
}

/// A listener, and the filter that only its connections pass.
fn peer() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let filter = format!("tcp port {}", listener.local_addr().expect("an address").port());
    (listener, filter)
}

#[test]
fn what_a_recorder_keeps_is_what_a_file_here_would_be() {
    need!(available());
    let [here, there] = [(), ()].map(|()| tempfile::tempdir().expect("a folder"));
    let recorder = Recorder::start(there.path(), "127.0.0.1:0");
    let (listener, filter) = peer();
    let dir = here.path().to_str().expect("a path of text");
    let local = Capture::on_loopback(&["-o", dir, "--filter", &filter]);
    let remote = Capture::on_loopback(&["--to", &recorder.address, "--filter", &filter]);
    talk_to(&listener, 30_000_000);
    let (local, remote) = (local.end(), remote.end());
    let totals = recorder.end();

    let [kept] = &captures(there.path())[..] else { panic!("one file expected: {totals}") };
    // Two processors hand two packets to one socket in this order and to the other in that.
    let [ours, theirs] = [files(&local)[0].as_path(), kept].map(|file| {
        let mut packets = packets(file);
        packets.sort();
        packets
    });
    assert!(ours.len() > 100, "{} packets are too few to compare", ours.len());
    for said in [&local, &remote] {
        let one = &said["interfaces"][0];
        assert_eq!((&one["dropped_kernel"], &one["dropped_queue"]), (&0.into(), &0.into()), "{said}");
    }
    assert!(ours == theirs, "{} packets here, {} there", ours.len(), theirs.len());
    assert_eq!(totals["packets"], theirs.len());
    assert_eq!((&totals["missing_packets"], &totals["ended"]), (&0.into(), &1.into()));
    assert_eq!(remote["recorder"]["acknowledged_packets"], theirs.len());
    assert_eq!(remote["recorder"]["unacknowledged_packets"], 0);
}

#[test]
fn a_recorder_that_comes_back_gets_the_rest() {
    need!(available());
    let there = tempfile::tempdir().expect("a folder");
    // Another is to listen there when this one is gone.
    let address = format!("127.0.0.1:{}", port::unused());
    let mut first = Recorder::start(there.path(), &address);
    let (listener, filter) = peer();
    let capture = Capture::on_loopback(&["--to", &address, "--filter", &filter]);
    talk_to(&listener, 1_000_000);
    until("packets are recorded", LIMIT, || {
        captures(there.path()).iter().any(|file| is_over(&packets_so_far(file)))
    });
    first.service.kill();
    talk_to(&listener, 1_000_000);
    let second = Recorder::start(there.path(), &address);
    until("the sender has found it", LIMIT, || capture.0.stderr().contains("connected again"));
    talk_to(&listener, 1_000_000);
    let outcome = capture.end();
    let totals = second.end();
    let sent = &outcome["recorder"];
    assert_eq!((&sent["reconnects"], &sent["unacknowledged_packets"]), (&1.into(), &0.into()), "{outcome}");
    let kept: usize = captures(there.path()).iter().map(|file| packets(file).len()).sum();
    // What the first had written and could not say any more, the second has again.
    assert!(
        kept as u64 >= outcome["interfaces"][0]["packets"].as_u64().expect("a number"),
        "{outcome} {totals}"
    );
    assert_eq!((&totals["missing_packets"], &totals["ended"]), (&0.into(), &1.into()), "{totals}");
}

#[test]
fn a_recorder_that_takes_nothing_holds_nobody_up() {
    need!(available());
    let deaf = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = deaf.local_addr().expect("an address").to_string();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = deaf.accept().expect("a sender");
        stream.write_all(&[0, 0, 0, 0x81, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0]).expect("a welcome");
        (deaf, stream)
    });
    let (listener, filter) = peer();
    // The kernel keeps most of it however busy the machine is: four times what may wait in the queue and before the
    // acknowledgement is to come by the one who fills them.
    let room = ["--snap", "262144", "--ring", "320MiB"];
    let capture = Capture::on_loopback(&[&["--to", &address, "--filter", &filter][..], &room].concat());
    let held = heard.join().expect("a thread");
    talk_to(&listener, 256 << 20);
    let outcome = capture.end();
    drop(held);
    let one = &outcome["interfaces"][0];
    let number = |value: &Value| value.as_u64().expect("a number");
    assert!(number(&one["dropped_queue"]) > 0, "{outcome}");
    let dropped = number(&one["dropped_kernel"]) + number(&one["dropped_queue"]);
    assert_eq!(number(&one["packets"]) + dropped, number(&one["accepted"]), "{outcome}");
    assert_eq!(outcome["recorder"]["unacknowledged_packets"], one["packets"], "{outcome}");
}

#[test]
fn a_full_disk_is_said_on_both_sides() {
    need!(available(), e2e::path::available_without_tun());
    let there = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("unshare");
    // The small file system is seen by the recorder alone and goes with it.
    let script =
        "mount -t tmpfs -o size=1m none \"$1\" && exec \"$0\" recorder --json --listen 127.0.0.1:0 -o \"$1\"";
    command.args(["--mount", "sh", "-c", script]).arg(farlun_path()).arg(there.path());
    let recorder = Recorder::with(&mut command);
    let (listener, filter) = peer();
    let capture = Capture::on_loopback(&["--to", &recorder.address, "--filter", &filter, "--snap", "262144"]);
    talk_to(&listener, 16 << 20);
    until("the sender hears of it", LIMIT, || capture.0.stderr().contains("No space left"));
    assert!(recorder.service.stderr().contains("No space left"));
    let outcome = capture.end();
    assert!(outcome["recorder"]["unacknowledged_packets"].as_u64() > Some(0), "{outcome}");
    recorder.end();
}

#[test]
fn hostile_bytes_end_a_connection_and_nothing_else() {
    need!(available());
    let there = tempfile::tempdir().expect("a folder");
    let mut recorder = Recorder::start(there.path(), "127.0.0.1:0");
    let hello = [&[0, 0, 0, 1, 0, 0, 0, 20][..], b"farlunCR", &[0, 0, 0, 1], &[9; 8]].concat();
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 4096],
        vec![0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff],
        [&[0, 0, 0, 1, 0, 0, 0, 20][..], b"farlunCR", &[0, 0, 0, 9], &[1; 8]].concat(),
        // Packets of an interface that was never described.
        [
            &hello[..],
            &[0, 0, 0, 2, 0, 0, 0, 44],
            &[0; 11],
            &[1, 6, 0, 0, 0, 32, 0, 0, 0],
            &[0; 20],
            &[32, 0, 0, 0],
        ]
        .concat(),
        // Ours, and then a greeting once more.
        [&hello[..], &hello].concat(),
    ] {
        let mut stream = TcpStream::connect(&recorder.address).expect("a recorder");
        stream.write_all(&bytes).expect("a recorder that hears");
        let mut answer = Vec::new();
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        // It may be reset behind what was said; either way it ends.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.windows(4).any(|word| word == [0, 0, 0, 0x83]), "refused with a reason: {answer:?}");
    }
    // Many who say nothing do not keep others away for long, and it still ends when it is asked to.
    let silent: Vec<_> =
        (0..20).map(|_| TcpStream::connect(&recorder.address).expect("a recorder")).collect();
    let (listener, filter) = peer();
    let capture = Capture::on_loopback(&["--to", &recorder.address, "--filter", &filter]);
    talk_to(&listener, 100_000);
    assert_eq!(capture.end()["recorder"]["unacknowledged_packets"], 0);
    assert!(recorder.service.alive());
    let totals = recorder.end();
    drop(silent);
    assert_eq!((&totals["refused"], &totals["ended"]), (&6.into(), &1.into()), "{totals}");
}

#[test]
fn beyond_loopback_it_listens_only_if_told_to() {
    let there = tempfile::tempdir().expect("a folder");
    let listen = ["recorder", "--listen", "0.0.0.0:0", "-o"];
    let finished = run(farlun(listen).arg(there.path()), LIMIT);
    finished.expect_code(2).expect_sentence(&["give --insecure if that is meant"]);
    let recorder = Recorder::with(farlun(listen).arg(there.path()).args(["--insecure", "--json"]));
    assert_eq!(recorder.end()["captures"], 0);
}
