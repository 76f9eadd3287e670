//! CPU time of reading the statistics of a hundred connections, one by one and by a dump: the lower bound of the cost
//! of `farlun top` (docs/reference/top.md). The connections are idle and over loopback.

use std::io;
use std::net::{TcpListener, TcpStream};

use net::clock;
use net::diag::{Diag, SocketId};

const CONNECTIONS: usize = 100;
const ROUNDS: u64 = 1000;

fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let mut ends = Vec::new();
    for _ in 0..CONNECTIONS {
        ends.push((TcpStream::connect(address)?, listener.accept()?.0));
    }
    let mut diag = Diag::open()?;
    let finding = diag.find(&[address.port()], 2 * CONNECTIONS)?;
    let ids: Vec<SocketId> = finding
        .connections
        .iter()
        .filter(|found| found.local.port() == address.port())
        .map(|found| found.id)
        .collect();
    let looks = cpu_us(|| diag.look(&ids, |_, _| ()))?;
    let searches = cpu_us(|| diag.find(&[address.port()], 2 * CONNECTIONS).map(|_| ()))?;
    println!("looks at {}: {looks} us; a search that finds {}: {searches} us", ids.len(), 2 * ids.len());
    Ok(())
}

/// CPU time of one call, in microseconds.
fn cpu_us(mut call: impl FnMut() -> io::Result<()>) -> io::Result<u64> {
    let begun = clock::process_cpu_ns();
    for _ in 0..ROUNDS {
        call()?;
    }
    Ok((clock::process_cpu_ns() - begun) / 1000 / ROUNDS)
}
