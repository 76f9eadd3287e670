//! The generator, a process of its own in one of the namespaces: `xtask bench-send RATE SECONDS ADDRESS`.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Bytes of each datagram.
const DATAGRAM_BYTES: usize = 1000;
/// Sent before the clock is looked at again.
const BURST: u64 = 16;
/// Threads that send as fast as it goes: one is not fast enough to lose anything.
const SENDERS: usize = 2;

/// Traffic that was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sent {
    pub(super) packets: u64,
    pub(super) seconds: f64,
}

impl Sent {
    pub(super) fn parse(line: &str) -> Result<Sent> {
        let mut words = line.split_whitespace();
        let packets = words.next().and_then(|word| word.parse().ok());
        let seconds = words.next().and_then(|word| word.parse().ok());
        let sent = packets.zip(seconds).map(|(packets, seconds)| Sent { packets, seconds });
        sent.with_context(|| format!("the generator said '{line}'"))
    }

    pub(super) fn per_s(&self) -> f64 {
        self.packets as f64 / self.seconds
    }
}

/// Sends to `address` for `seconds`, `rate` datagrams each (0: as many as go, from two threads), and prints how many and
/// how long.
pub(crate) fn run(rate: u64, seconds: u64, address: &str) -> Result<bool> {
    let senders = if rate == 0 { SENDERS } else { 1 };
    let begun = Instant::now();
    let packets = thread::scope(|scope| {
        let threads: Vec<_> = (0..senders).map(|_| scope.spawn(|| send(rate, seconds, address))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a sender does not panic")).sum::<Result<u64>>()
    })?;
    println!("{packets} {:.6}", begun.elapsed().as_secs_f64());
    Ok(true)
}

/// Sends from one thread. Returns the number of packets.
fn send(rate: u64, seconds: u64, address: &str) -> Result<u64> {
    let socket = UdpSocket::bind("0.0.0.0:0").context("cannot make a socket")?;
    socket.connect(address).with_context(|| format!("cannot send to {address}"))?;
    let (begun, time) = (Instant::now(), Duration::from_secs(seconds));
    let datagram = [7; DATAGRAM_BYTES];
    let mut packets = 0u64;
    while begun.elapsed() < time {
        if rate > 0 {
            let due = Duration::from_secs_f64(packets as f64 / rate as f64);
            thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        for _ in 0..BURST {
            match socket.send(&datagram) {
                Ok(_) => packets += 1,
                // The device's queue is full: the packet was never there.
                Err(error) if error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(105) => {}
                Err(error) => return Err(error).context("cannot send"),
            }
        }
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::Sent;

    #[test]
    fn what_the_generator_says() {
        assert_eq!(Sent::parse("12 0.5\n").ok(), Some(Sent { packets: 12, seconds: 0.5 }));
        assert!(Sent::parse("12").is_err());
    }
}
