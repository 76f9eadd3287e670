//! Clients that break the protocol, say nothing, or take no answers: each harms itself alone.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use e2e::ours::NbdServer;
use e2e::until;
use wire::nbd::command;

use super::raw::{RawClient, connect, pattern};

const LIMIT: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// Reads until the server closes the connection.
#[track_caller]
fn expect_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 65_536, "{} bytes", rest.len());
}

#[test]
fn bytes_that_are_no_protocol_end_one_connection_with_one_line() {
    let server = NbdServer::serve("memory:1MiB");
    let mut good = RawClient::open(&server);
    let attacks: [&[u8]; 4] = [
        &[0xff; 512],
        b"\0\0\0\x03GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
        // An option of 4 GiB.
        b"\0\0\0\x03IHAVEOPT\0\0\0\x07\xff\xff\xff\xff",
        // A good begin, then a request without its magic number.
        b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0abcdefghijklmnopqrstuvwxyzabcdef",
    ];
    for (count, bytes) in (1..).zip(attacks) {
        let mut stream = connect(&server);
        let _ = stream.write_all(bytes);
        expect_closed(&mut stream);
        until("there is one line for each", LIMIT, || server.service.stderr().lines().count() == count);
        assert_eq!(good.read(0, 512), Ok(vec![0; 512]), "others are served");
    }
    let stderr = server.service.stderr();
    assert!(stderr.lines().all(|line| line.starts_with("farlun serve-nbd: 127.0.0.1:")), "{stderr}");
}

#[test]
fn a_client_that_says_nothing_is_closed() {
    let server = NbdServer::serve("memory:1MiB");
    let mut silent = connect(&server);
    let mut halfway = connect(&server);
    halfway.write_all(b"\0\0\0\x03IHAVEOPT").expect("room");
    for stream in [&mut silent, &mut halfway] {
        assert_eq!(stream.read(&mut [0; 64]).expect("an end, not a timeout"), 0);
    }
    let stderr = server.service.stderr();
    assert_eq!(stderr.matches("did not end its negotiation in time").count(), 2, "{stderr}");
}

#[test]
fn more_connections_that_say_nothing_than_slots_keep_nobody_out() {
    let server = NbdServer::serve("memory:1MiB");
    let mut good = RawClient::open(&server);
    let silent: Vec<TcpStream> = (0..300).map(|_| connect(&server)).collect();
    assert_eq!(RawClient::open(&server).read(0, 512), Ok(vec![0; 512]), "a new one comes in");
    assert_eq!(good.read(0, 512), Ok(vec![0; 512]));
    drop(silent);
}

#[test]
fn writes_that_never_end_and_answers_that_nobody_takes_hold_up_nobody() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("disk");
    File::create(&path).and_then(|file| file.set_len(64 * MIB)).expect("a file");
    let server = NbdServer::serve(&format!("file:{}", path.display()));
    let half = pattern(3, 16 << 20);
    let slow: Vec<RawClient> = (0..6)
        .map(|_| {
            let mut client = RawClient::open(&server);
            client.send(command::WRITE, 0, 32 << 20);
            client.stream.write_all(&half).expect("the server takes a part");
            client
        })
        .collect();
    let deaf: Vec<RawClient> = (0..20)
        .map(|_| {
            let mut client = RawClient::open(&server);
            for _ in 0..64 {
                client.send(command::READ, 0, 4 << 20);
            }
            client
        })
        .collect();
    let mut good = RawClient::open(&server);
    let data = pattern(4, 64 << 10);
    for round in 0..200u64 {
        let offset_bytes = 48 * MIB + round * (64 << 10);
        assert_eq!(good.write(offset_bytes, &data), 0);
        assert!(good.read(offset_bytes, data.len()) == Ok(data.clone()));
    }
    let resident_bytes = server.service.resident_bytes();
    assert!(resident_bytes < 420 * MIB, "{resident_bytes} bytes");
    drop((slow, deaf));
    assert!(good.read(48 * MIB, 32 << 10).is_ok());
}
