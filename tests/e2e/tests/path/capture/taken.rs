//! A capture that runs, and the files that it leaves.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::process::output;
use e2e::{Service, farlun, skip};
use serde_json::Value;
use wire::pcap::{Decoder, Found};

pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Whether this machine can capture.
pub(crate) fn available() -> Result<(), String> {
    skip::root()
}

/// A `farlun capture --json` that listens.
pub(crate) struct Capture(pub(crate) Service);

impl Capture {
    /// On the loopback device, with more flags.
    #[track_caller]
    pub(crate) fn on_loopback(flags: &[&str]) -> Capture {
        Capture::start(farlun(["capture", "-i", "lo", "--json"]).args(flags))
    }

    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Capture {
        let mut service = Service::start(command);
        let ready: Value = serde_json::from_str(&service.next_line(LIMIT)).expect("a line of JSON");
        assert_eq!(ready["ready"], true, "{ready}");
        Capture(service)
    }

    /// Asks it to end; what it captured.
    #[track_caller]
    pub(crate) fn end(mut self) -> Value {
        self.0.signal("TERM");
        self.said()
    }

    /// What it says at its end, which comes by itself.
    #[track_caller]
    pub(crate) fn said(&mut self) -> Value {
        let line = self.0.next_line(LIMIT);
        assert_eq!(self.0.ended(LIMIT), 0, "{}", self.0.stderr());
        serde_json::from_str(&line).expect("a line of JSON")
    }
}

/// The files that a capture says it has left.
pub(crate) fn files(outcome: &Value) -> Vec<PathBuf> {
    let files = outcome["files"].as_array().unwrap_or_else(|| panic!("no files in {outcome}"));
    files.iter().map(|file| PathBuf::from(file.as_str().expect("a path"))).collect()
}

/// Length and kept bytes of every packet of a file, which nobody writes to any more.
pub(crate) fn packets(file: &Path) -> Vec<(usize, Vec<u8>)> {
    let (packets, left) = decoded(file);
    assert_eq!(left, 0, "{} is cut off", file.display());
    packets
}

/// The same of a file that is being written, as far as it is there.
pub(crate) fn packets_so_far(file: &Path) -> Vec<(usize, Vec<u8>)> {
    decoded(file).0
}

/// Whether both ends of one connection over loopback have said that they say no more.
pub(crate) fn is_over(packets: &[(usize, Vec<u8>)]) -> bool {
    // The flags of TCP behind the headers of Ethernet and IPv4.
    packets.iter().filter(|(_, bytes)| bytes[14 + 20 + 13] & 1 != 0).count() >= 2
}

/// The packets of a file, and the bytes behind them that are no whole block.
fn decoded(file: &Path) -> (Vec<(usize, Vec<u8>)>, usize) {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let (mut decoder, mut at, mut packets) = (Decoder::new(), 0, Vec::new());
    while at < bytes.len() {
        at += match decoder.decode(&bytes[at..]).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        {
            Found::More(_) => break,
            Found::Other(len) => len,
            Found::Packet { len, packet } => {
                packets.push((packet.len, packet.bytes.to_vec()));
                len
            }
        };
    }
    (packets, bytes.len() - at)
}

/// Fields of every frame of a file, as tshark says them.
pub(crate) fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(file).args(["-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    output(&mut command).lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Sends `bytes` over a connection of its own on the loopback device and waits until they are there; the port.
pub(crate) fn talk(bytes: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    talk_to(&listener, bytes);
    listener.local_addr().expect("an address").port()
}

pub(crate) fn talk_to(listener: &TcpListener, bytes: usize) {
    let address = listener.local_addr().expect("an address");
    let sender = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("a connection");
        let piece = vec![7; 256 << 10];
        let mut left = bytes;
        while left > 0 {
            let len = left.min(piece.len());
            stream.write_all(&piece[..len]).expect("a peer that reads");
            left -= len;
        }
    });
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut all = vec![0; 256 << 10];
    while stream.read(&mut all).expect("a peer that sends") > 0 {}
    sender.join().expect("a sender");
}
