//! `farlun recorder`: connections that say nothing.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use e2e::{Service, farlun};
use serde_json::Value;

const MINUTE: Duration = Duration::from_secs(60);
/// Connections that a recorder has at a time.
const CONNECTIONS_MAX: usize = 64;

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the recorder listens");
    stream.set_read_timeout(Some(MINUTE)).expect("a socket option");
    stream
}

/// Without a greeting the oldest connection makes room, so that a sender is not turned away for the sake of silent ones.
#[test]
fn silent_connections_keep_nobody_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = farlun(["recorder", "--json", "--listen", "127.0.0.1:0", "-o"]);
    let mut service = Service::start(command.arg(folder.path()));
    let ready: Value = serde_json::from_str(&service.next_line(MINUTE)).expect("the ready line is JSON");
    let address = ready["addresses"][0].as_str().expect("it names its address").to_owned();
    let mut all: Vec<TcpStream> = (0..=CONNECTIONS_MAX).map(|_| connect(&address)).collect();
    let heard = |stream: &mut TcpStream| {
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).expect("the recorder closes it");
        heard
    };
    assert!(heard(&mut all[0]).is_empty(), "the oldest is closed");
    // Not refused: it may greet as long as any.
    assert!(heard(&mut all[CONNECTIONS_MAX]).is_empty(), "there is no room for the last one");
    assert!(service.alive(), "{}", service.stderr());
}
