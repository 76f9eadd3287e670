//! One connection: its machine, its requests, and its turns.
//!
//! `receive` reads the socket, `requests` joins the machine and the device, and this file sends and decides when to wait.

mod pending;
mod receive;
mod requests;

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use block::{Buffers, Owner};
use engine::Progress;
use event::Instant;
use net::{Interest, Poll, Ready, clock};
use proto::nbd::server::{NbdServer, NbdServerConfig};
use proto::nbd::{NbdCommand, Receive};

use super::end::EndReason;
use super::listener::{Accepted, Peer};
use super::outbox::{Outbox, ReplyData};
use super::shared::Shared;
use super::stream::Stream;
use super::turn::TurnLimit;
use pending::Pending;

/// Turns in which all bytes of a stream that has ended are taken: more than any socket buffer has.
const LAST_TURNS: usize = 64;

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    /// Name of the connection at the device, never used again.
    pub(super) owner: Owner,
    link: Link,
    machine: NbdServer,
    /// Received bytes that were not taken: a partial header, or messages behind a request that waits.
    kept: Vec<u8>,
    outbox: Outbox,
    requests: HashMap<u64, Pending>,
    /// Request that waits for memory. Nothing behind it is taken.
    stalled: Option<(u64, NbdCommand)>,
    /// Count of its buffers.
    part: Buffers,
    flags: Flags,
    /// Time at which the socket last moved a byte.
    moved_at: Instant,
}

/// The socket of a connection.
#[derive(Debug)]
struct Link {
    stream: Stream,
    peer: Peer,
    token: u64,
    /// Events that are waited for, and the end of the stream if it is one of them.
    watch: (Interest, bool),
}

#[derive(Debug)]
struct Flags {
    /// It waits for its turn.
    is_queued: bool,
    /// The socket may have bytes.
    may_read: bool,
    /// The other end takes no answers.
    is_gone: bool,
    /// No more requests are taken.
    is_ending: bool,
}

impl Client {
    /// A connection that was accepted; it begins with its greeting.
    pub(super) fn new(
        accepted: Accepted,
        (owner, token): (Owner, u64),
        config: Arc<NbdServerConfig>,
        part: Buffers,
        poll: &Poll,
        now: Instant,
    ) -> io::Result<Client> {
        let Accepted { stream, peer } = accepted;
        stream.prepare()?;
        poll.add(stream.as_fd(), token, Interest::READ)?;
        Ok(Client {
            owner,
            link: Link { stream, peer, token, watch: (Interest::READ, true) },
            machine: NbdServer::new(config),
            kept: Vec::new(),
            outbox: Outbox::default(),
            requests: HashMap::new(),
            stalled: None,
            part,
            flags: Flags { is_queued: false, may_read: true, is_gone: false, is_ending: false },
            moved_at: now,
        })
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.link.peer
    }

    /// Returns true while no export is chosen.
    pub(super) fn is_negotiating(&self) -> bool {
        self.machine.chosen().is_none()
    }

    /// Requests without an answer.
    pub(super) fn unanswered(&self) -> usize {
        self.machine.open_requests()
    }

    /// The socket is ready.
    pub(super) fn ready(&mut self, ready: Ready) {
        self.flags.may_read |= ready.readable;
    }

    /// Takes everything that a client has sent before the end of its stream, at once: another client may come after it,
    /// and these requests must not come later. Without NBD_CMD_DISC at its end the client is lost.
    pub(super) fn finish_stream(
        &mut self,
        ready: Ready,
        poll: &Poll,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), EndReason> {
        for _ in 0..LAST_TURNS {
            if self.turn(poll, shared, TurnLimit::new(now, true), now)? == Progress::Waits {
                break;
            }
        }
        if self.machine.expects() != Receive::Closed {
            return Err(EndReason::Closed);
        }
        // Nobody takes the answers, and the socket would be ready for ever.
        if !ready.is_sound() && !std::mem::replace(&mut self.flags.is_gone, true) {
            poll.remove(self.link.stream.as_fd())?;
        }
        Ok(())
    }

    /// Marks it as queued for a turn. Returns true if it was not.
    pub(super) fn enqueue(&mut self) -> bool {
        !std::mem::replace(&mut self.flags.is_queued, true)
    }

    /// Takes no more requests; it ends when all are answered.
    pub(super) fn end_soon(&mut self) {
        self.flags.is_ending = true;
    }

    /// Returns true if a request waits for memory that is free now.
    pub(super) fn may_go_on(&self, shared: &Shared) -> bool {
        let room = |(_, command): &(u64, NbdCommand)| {
            shared.memory.has_room(&self.part, self.owner, command.len_bytes as usize)
        };
        self.stalled.as_ref().is_some_and(room)
    }

    /// Returns true if a request waits for memory.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.is_some()
    }

    /// Returns true if it holds memory and waits for the other end, which has moved nothing since `then`.
    pub(super) fn holds_up(&self, then: Instant) -> bool {
        let waits = !self.outbox.is_empty() || matches!(self.machine.expects(), Receive::Payload { .. });
        self.part.part_bytes() > 0 && waits && self.moved_at < then
    }

    /// One turn: takes requests, sends replies.
    pub(super) fn turn(
        &mut self,
        poll: &Poll,
        shared: &mut Shared,
        mut limit: TurnLimit,
        now: Instant,
    ) -> Result<Progress, EndReason> {
        self.flags.is_queued = false;
        self.begin_stalled(shared, now);
        let received = self.receive(shared, &mut limit, now)?;
        let sent = self.transmit(shared, &mut limit, now)?;
        let is_sent = self.outbox.is_empty();
        if self.machine.is_finished() && is_sent {
            return Err(EndReason::Done);
        }
        if self.flags.is_ending && is_sent && self.is_quiet() {
            return Err(EndReason::Shutdown);
        }
        self.wait_for(poll, !is_sent)?;
        // Replies that were sent have made room for requests that were received.
        let goes_on = !self.kept.is_empty() && received == Received::Blocked && self.is_reading();
        let is_done = received != Received::Limited && !goes_on && sent == Progress::Waits;
        Ok(if is_done { Progress::Waits } else { Progress::More })
    }

    /// Leaves the device.
    pub(super) fn leave(&self, shared: &mut Shared, now: Instant) {
        shared.memory.leave(self.owner);
        shared.device.leave(self.owner, now);
    }

    /// Returns true if further bytes are taken from the socket.
    fn is_reading(&self) -> bool {
        match self.machine.expects() {
            _ if self.stalled.is_some() => false,
            Receive::Header { .. } => !self.flags.is_ending,
            Receive::Payload { .. } | Receive::Discard { .. } => true,
            Receive::Wait | Receive::Tls | Receive::Closed => false,
        }
    }

    /// Returns true if all requests are answered, and none is being received.
    fn is_quiet(&self) -> bool {
        let is_between = !matches!(self.machine.expects(), Receive::Payload { .. } | Receive::Discard { .. });
        self.machine.open_requests() == 0 && is_between
    }

    fn transmit(
        &mut self,
        shared: &mut Shared,
        limit: &mut TurnLimit,
        now: Instant,
    ) -> Result<Progress, EndReason> {
        loop {
            while self.outbox.has_room()
                && let Some(transmit) = self.machine.poll_transmit()
            {
                let data = match transmit.payload {
                    Some(payload) => self.reply_data(payload.token, &mut shared.totals),
                    None => ReplyData::None,
                };
                if !self.flags.is_gone {
                    self.outbox.push(transmit.header, data);
                }
            }
            if self.outbox.is_empty() {
                return Ok(Progress::Waits);
            }
            if limit.send_bytes == 0 {
                return Ok(Progress::More);
            }
            match self.outbox.write(&self.link.stream, shared.device.lent().map(|lent| &*lent)) {
                Ok((written, is_all)) => {
                    self.moved_at = now;
                    limit.send_bytes = limit.send_bytes.saturating_sub(written);
                    if !is_all {
                        return Ok(Progress::Waits);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Waits),
                Err(error) => return Err(self.lost(error)),
            }
        }
    }

    /// Reason of an error of the socket: a client that resets its connection has closed it.
    fn lost(&self, error: io::Error) -> EndReason {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => EndReason::Closed,
            _ => EndReason::Io(error),
        }
    }

    fn wait_for(&mut self, poll: &Poll, writable: bool) -> io::Result<()> {
        let interest = Interest { readable: self.is_reading(), writable };
        // The end of the stream has no news for a connection that is over.
        let watch = (interest, self.machine.expects() != Receive::Closed);
        if self.link.watch == watch || self.flags.is_gone {
            return Ok(());
        }
        self.link.watch = watch;
        let (socket, token) = (self.link.stream.as_fd(), self.link.token);
        if watch.1 {
            poll.modify_or_closed(socket, token, interest)
        } else {
            poll.modify(socket, token, interest)
        }
    }

    /// Time by the clock, after a request that may have been costly.
    fn look(limit: &mut TurnLimit) {
        limit.look(clock::now());
    }
}

/// Reason for which receiving stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Received {
    /// The socket has no more bytes.
    Drained,
    /// A request waits for memory, too many are not answered, or the connection is over.
    Blocked,
    /// The turn is over.
    Limited,
}

#[cfg(test)]
mod tests;
