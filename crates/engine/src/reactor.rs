//! The loop: wait, let the service handle what is ready, let it have its turn, wait again. What came at a wake has one
//! time, read once.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use event::Instant;
use net::{Events, Poll, Ready, clock};

/// What a loop serves.
pub trait Service {
    /// Why the loop ends early.
    type Error: From<io::Error>;

    /// The set of everything it waits for.
    fn poll(&self) -> &Poll;

    /// A member of the set is ready.
    fn ready(&mut self, ready: Ready, now: Instant) -> Result<(), Self::Error>;

    /// Everything ready has been handled: send what has come of it, look at timers, say what is next.
    fn turn(&mut self, now: Instant) -> Result<Turn, Self::Error>;
}

/// What a service wants next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Wait until something is ready.
    Wait,
    /// Wait until something is ready or this time has come.
    WaitUntil(Instant),
    /// It has more to do: look at what is ready without waiting.
    Again,
    /// The loop ends.
    Stop,
}

thread_local! {
    static IDLE_NS: Cell<u64> = const { Cell::new(0) };
}

/// How long loops on this thread have waited for something to do: a loop that never waits is as fast as its CPU lets
/// it be.
pub(crate) fn idle_ns() -> u64 {
    IDLE_NS.get()
}

/// Runs a service until it stops.
pub fn run<S: Service>(service: &mut S) -> Result<(), S::Error> {
    let mut events = Events::new();
    let mut now = clock::now();
    loop {
        let timeout = match service.turn(now)? {
            Turn::Stop => return Ok(()),
            Turn::Again => Some(Duration::ZERO),
            Turn::Wait => None,
            Turn::WaitUntil(at) => Some(at.since(clock::now())),
        };
        let before = clock::now();
        service.poll().wait(&mut events, timeout)?;
        now = clock::now();
        IDLE_NS.set(IDLE_NS.get() + now.since(before).as_nanos() as u64);
        for ready in events.iter() {
            service.ready(ready, now)?;
        }
    }
}
