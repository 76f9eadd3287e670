//! Event loop of one or several sessions, each with its own workload. A session and all its connections belong to one
//! loop.

use std::os::fd::AsFd;
use std::time::Duration;

use engine::{Scratch, Service, Turn};
use event::Instant;
use net::{Events, Interest, Poll, Ready, clock};

use crate::client::Client;
use crate::request::Workload;

/// Runs one session until its workload is over.
pub(crate) fn alone<W: Workload>(client: &mut Client, workload: &mut W) -> Result<(), W::Error> {
    client.start(clock::now());
    engine::run(&mut Alone { client, workload, scratch: Scratch::new() })
}

/// Runs several sessions in one loop until all their workloads are over.
pub fn together<W: Workload>(pairs: Vec<(&mut Client, &mut W)>) -> Result<(), W::Error> {
    let (poll, now) = (Poll::new()?, clock::now());
    let mut members = Vec::new();
    for (number, (client, workload)) in pairs.into_iter().enumerate() {
        // An epoll set can itself be a member of another one.
        poll.add(client.poll.as_fd(), number as u64, Interest::READ)?;
        client.start(now);
        members.push(Member { client, workload, next: Turn::Again });
    }
    engine::run(&mut Together { poll, members, scratch: Scratch::new(), events: Events::new() })
}

struct Alone<'a, W> {
    client: &'a mut Client,
    workload: &'a mut W,
    scratch: Scratch,
}

impl<W: Workload> Service for Alone<'_, W> {
    type Error = W::Error;

    fn poll(&self) -> &Poll {
        &self.client.poll
    }

    fn ready(&mut self, ready: Ready, _now: Instant) -> Result<(), W::Error> {
        self.client.ready(ready);
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> Result<Turn, W::Error> {
        self.client.turn(self.workload, &mut self.scratch, now)
    }
}

struct Together<'a, W> {
    poll: Poll,
    members: Vec<Member<'a, W>>,
    scratch: Scratch,
    events: Events,
}

struct Member<'a, W> {
    client: &'a mut Client,
    workload: &'a mut W,
    next: Turn,
}

impl<W: Workload> Service for Together<'_, W> {
    type Error = W::Error;

    fn poll(&self) -> &Poll {
        &self.poll
    }

    fn ready(&mut self, ready: Ready, _now: Instant) -> Result<(), W::Error> {
        let Some(member) = self.members.get_mut(ready.token as usize) else { return Ok(()) };
        member.client.poll.wait(&mut self.events, Some(Duration::ZERO))?;
        self.events.iter().for_each(|ready| member.client.ready(ready));
        if member.next != Turn::Stop {
            member.next = Turn::Again;
        }
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> Result<Turn, W::Error> {
        for member in &mut self.members {
            let is_due = match member.next {
                Turn::Again => true,
                Turn::WaitUntil(at) => now >= at,
                Turn::Wait | Turn::Stop => false,
            };
            if is_due {
                member.next = member.client.turn(member.workload, &mut self.scratch, now)?;
                if member.next == Turn::Stop {
                    // Further events belong to the next run of the session.
                    self.poll.remove(member.client.poll.as_fd())?;
                }
            }
        }
        Ok(self.members.iter().map(|member| member.next).fold(Turn::Stop, sooner))
    }
}

/// Combines the results of two turns. A member that waits prevails over one that stops.
fn sooner(one: Turn, other: Turn) -> Turn {
    match (one, other) {
        (Turn::Again, _) | (_, Turn::Again) => Turn::Again,
        (Turn::WaitUntil(one), Turn::WaitUntil(other)) => Turn::WaitUntil(one.min(other)),
        (Turn::WaitUntil(at), _) | (_, Turn::WaitUntil(at)) => Turn::WaitUntil(at),
        (Turn::Wait, _) | (_, Turn::Wait) => Turn::Wait,
        (Turn::Stop, Turn::Stop) => Turn::Stop,
    }
}
