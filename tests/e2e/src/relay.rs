//! A TCP relay that stops at an exact byte, so that "half-way" is a place and not a moment, or changes one; and a line
//! that is cut at exact bytes and comes back.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Passes one connection on, up to a number of bytes counted over both directions; then nothing moves any more until
/// one side closes, which it passes on.
pub struct Relay {
    address: SocketAddr,
    passed: Arc<AtomicU64>,
    limit: u64,
}

impl Relay {
    /// Waits for one connection and relays it to `to`, for `limit_bytes` in all.
    pub fn to(to: &str, limit_bytes: u64) -> Relay {
        Relay::start(to, limit_bytes, u64::MAX)
    }

    /// Relays everything, but changes what comes from `to` once so many bytes have passed.
    pub fn damaging(to: &str, after_bytes: u64) -> Relay {
        Relay::start(to, u64::MAX, after_bytes)
    }

    fn start(to: &str, limit_bytes: u64, damage_bytes: u64) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let passed = Arc::new(AtomicU64::new(0));
        let (to, counter) = (to.to_owned(), Arc::clone(&passed));
        thread::spawn(move || {
            let Ok((near, _)) = listener.accept() else { return };
            // Later connections are refused: the peer is gone, not busy.
            drop(listener);
            let Ok(far) = TcpStream::connect(&to) else { return };
            for (from, to, damage) in [(&near, &far, u64::MAX), (&far, &near, damage_bytes)] {
                let (from, to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
                let counter = Arc::clone(&counter);
                thread::spawn(move || pump(from, to, &counter, limit_bytes, damage));
            }
        });
        Relay { address, passed, limit: limit_bytes }
    }

    /// Where to connect to.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Whether it has passed on all it will.
    pub fn is_full(&self) -> bool {
        self.passed.load(Ordering::Acquire) >= self.limit
    }
}

/// What becomes of a connection over a [`Line`] when it has passed its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Both sides are closed.
    Closed,
    /// Nothing moves any more, and nobody is told.
    Silent,
}

/// Passes on any number of connections, of which the first ones come to grief.
pub struct Line {
    address: SocketAddr,
    taken: Arc<AtomicU64>,
    passed: Arc<AtomicU64>,
}

impl Line {
    /// Relays to `to`. The n-th connection passes `cuts[n].0` bytes in all and then meets its fate; later ones last.
    pub fn to(to: &str, cuts: &[(u64, Fate)]) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let taken = Arc::new(AtomicU64::new(0));
        let total = Arc::new(AtomicU64::new(0));
        let (to, cuts) = (to.to_owned(), cuts.to_vec());
        let (counter, all) = (Arc::clone(&taken), Arc::clone(&total));
        thread::spawn(move || {
            let mut cuts = cuts.into_iter();
            while let Ok((near, _)) = listener.accept() {
                counter.fetch_add(1, Ordering::AcqRel);
                let Ok(far) = TcpStream::connect(&to) else { continue };
                let (limit, fate) = cuts.next().unwrap_or((u64::MAX, Fate::Closed));
                let passed = Arc::new(AtomicU64::new(0));
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let from = from.try_clone().expect("a handle");
                    let (to, passed) = (to.try_clone().expect("a handle"), Arc::clone(&passed));
                    let all = Arc::clone(&all);
                    thread::spawn(move || carry(from, to, [&passed, &all], limit, fate));
                }
            }
        });
        Line { address, taken, passed: total }
    }

    /// Where to connect to.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Bytes that have come, over all connections and both directions.
    pub fn passed_bytes(&self) -> u64 {
        self.passed.load(Ordering::Acquire)
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, [passed, all]: [&AtomicU64; 2], limit: u64, fate: Fate) {
    let mut buffer = [0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        all.fetch_add(length as u64, Ordering::AcqRel);
        let before = passed.fetch_add(length as u64, Ordering::AcqRel);
        let room = limit.saturating_sub(before).min(length as u64) as usize;
        if to.write_all(&buffer[..room]).is_err() || (room < length && fate == Fate::Closed) {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn pump(mut from: TcpStream, mut to: TcpStream, passed: &AtomicU64, limit: u64, mut damage: u64) {
    let mut buffer = [0; 16 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            // Over the limit it reads on, so that it sees the side that goes away, and passes nothing on.
            Ok(_) if passed.load(Ordering::Acquire) >= limit => {}
            Ok(length) => {
                if passed.fetch_add(length as u64, Ordering::AcqRel) >= damage {
                    buffer[length / 2] ^= 1;
                    damage = u64::MAX;
                }
                if to.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
