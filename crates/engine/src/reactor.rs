//! The event loop: wait, let the service handle readiness, let it take its turn, wait again. All events of a wake have
//! one time, read once.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use event::Instant;
use net::{Events, Poll, Ready, clock};

/// A service of the event loop.
pub trait Service {
    /// Error that ends the loop.
    type Error: From<io::Error>;

    /// The set of everything it waits for.
    fn poll(&self) -> &Poll;

    /// A member of the set is ready.
    fn ready(&mut self, ready: Ready, now: Instant) -> Result<(), Self::Error>;

    /// Runs after all readiness has been handled: sends the results, checks timers, returns the next step.
    fn turn(&mut self, now: Instant) -> Result<Turn, Self::Error>;
}

/// Next step of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Wait until something is ready.
    Wait,
    /// Wait until something is ready or this time has come.
    WaitUntil(Instant),
    /// More work is ready: poll without waiting.
    Again,
    /// The loop ends.
    Stop,
}

thread_local! {
    static IDLE_NS: Cell<u64> = const { Cell::new(0) };
}

/// Time that the event loops of this thread have waited for events: a loop that never waits is limited by its CPU.
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use net::Interest;

    use super::*;

    const TOKEN: u64 = 7;

    /// Gives the turns of a list and notes its calls.
    struct Scripted {
        poll: Poll,
        near: UnixStream,
        far: UnixStream,
        turns: VecDeque<Result<Turn, &'static str>>,
        calls: Vec<&'static str>,
        refuses: bool,
    }

    impl Scripted {
        fn new<const N: usize>(turns: [Result<Turn, &'static str>; N]) -> Scripted {
            let (near, far) = UnixStream::pair().unwrap();
            let poll = Poll::new().unwrap();
            poll.add(near.as_fd(), TOKEN, Interest::READ).unwrap();
            Scripted { poll, near, far, turns: turns.into(), calls: Vec::new(), refuses: false }
        }
    }

    impl Service for Scripted {
        type Error = io::Error;

        fn poll(&self) -> &Poll {
            &self.poll
        }

        fn ready(&mut self, ready: Ready, _: Instant) -> io::Result<()> {
            self.calls.push("ready");
            assert!(ready.token == TOKEN && ready.readable, "{ready:?}");
            if self.refuses {
                return Err(io::Error::other("ready"));
            }
            self.near.read_exact(&mut [0])
        }

        fn turn(&mut self, now: Instant) -> io::Result<Turn> {
            self.calls.push("turn");
            let turn =
                self.turns.pop_front().expect("the loop has ended before").map_err(io::Error::other)?;
            match turn {
                Turn::Wait => self.far.write_all(&[1])?,
                Turn::WaitUntil(at) => assert!(at <= now, "nothing will come"),
                Turn::Again | Turn::Stop => {}
            }
            Ok(turn)
        }
    }

    #[test]
    fn a_service_has_a_turn_after_each_wait_until_it_stops() {
        let turns = [Turn::Again, Turn::Wait, Turn::WaitUntil(Instant::ZERO), Turn::Stop];
        let mut service = Scripted::new(turns.map(Ok));
        run(&mut service).unwrap();
        assert_eq!(service.calls, ["turn", "turn", "ready", "turn", "turn"]);
    }

    #[test]
    fn an_error_of_the_service_ends_the_loop() {
        let mut service = Scripted::new([Ok(Turn::Again), Err("turn")]);
        assert_eq!(run(&mut service).unwrap_err().to_string(), "turn");
        let mut service = Scripted { refuses: true, ..Scripted::new([Ok(Turn::Wait)]) };
        assert_eq!(run(&mut service).unwrap_err().to_string(), "ready");
        assert_eq!(service.calls, ["turn", "ready"]);
    }
}
