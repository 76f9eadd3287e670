//! The service: one loop over listeners, connections, workers and the device.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Owner, Pool};
use engine::{Progress, Service, Turn};
use event::Instant;
use net::{EndSignals, Interest, Poll, Ready, clock, limits};
use proto::nbd::server::{NbdExport, NbdServerConfig, TlsPolicy};
use slab::Slab;

use super::client::Client;
use super::config::{NbdServiceConfig, NbdServiceError};
use super::device::SharedDevice;
use super::drain::Drain;
use super::end::EndReason;
use super::listener::{Accepted, Listener};
use super::shared::{NbdServiceTotals, Shared};
use super::slots::{Admission, Slots};
use super::turn::{ROUND, TurnLimit};
use crate::export::facts;

const LISTENER_TOKENS: u64 = 1 << 40;
const POOL_TOKEN: u64 = 2 << 40;
const SIGNALS_TOKEN: u64 = 3 << 40;
const DEVICE_TOKEN: u64 = 4 << 40;

/// Requests of a connection that are not answered, and replies that are not sent.
const REQUESTS_MAX: usize = 1024;
/// Bytes of these, beyond which the connection is not read.
const QUEUE_MAX_BYTES: u64 = 64 << 20;
/// Bits of an owner that are the place of its connection.
const PLACE_BITS: u32 = 16;
/// Connections that are accepted in one wake.
const ACCEPTS: usize = 64;
/// Pause of accepting after an error of accept.
const LISTEN_AGAIN: Duration = Duration::from_millis(100);
/// Completions that are handled in one wake before the connections have their turns.
const COMPLETIONS: usize = 1024;
/// Period of the search for connections that hold memory others wait for.
const LATE_EVERY: Duration = Duration::from_secs(5);
/// Time without a byte from which on such a connection is closed.
const LATE: Duration = Duration::from_secs(30);

/// An NBD service: one export, any number of connections.
#[derive(Debug)]
pub struct NbdService {
    pub(super) poll: Poll,
    pub(super) listeners: Vec<Listener>,
    signals: EndSignals,
    pool: Option<Rc<Pool>>,
    pub(super) clients: Slab<Box<Client>>,
    /// Connections in the order of their turns.
    queue: VecDeque<usize>,
    /// Connections that wait for memory.
    stalled: Vec<usize>,
    pub(super) slots: Slots,
    pub(super) shared: Shared,
    config: Arc<NbdServerConfig>,
    times: Times,
    pub(super) drain: Option<Drain>,
}

#[derive(Debug)]
struct Times {
    /// Connections so far.
    serial: u64,
    /// Time at which accepting goes on after an error.
    listen_again: Option<Instant>,
    /// Time of the next search for late connections.
    next_late: Instant,
}

impl NbdService {
    /// Listens. From here on SIGINT, SIGTERM and SIGHUP end the service in order. `pool` makes the calls of the device,
    /// if it has one.
    ///
    /// # Errors
    /// An address, a socket or the device that cannot be served.
    pub fn start(
        config: &NbdServiceConfig,
        device: Box<dyn BlockDevice>,
        pool: Option<Rc<Pool>>,
        signals: EndSignals,
    ) -> Result<NbdService, NbdServiceError> {
        // A refusal is ignored: the loop handles a lack of descriptors.
        let _ = limits::raise_open_files();
        let server = Arc::new(server_config(config, &*device)?);
        let poll = Poll::new()?;
        poll.add(signals.as_fd(), SIGNALS_TOKEN, Interest::READ)?;
        if let Some(pool) = &pool {
            poll.add(pool.as_fd(), POOL_TOKEN, Interest::READ)?;
        }
        if let Some(descriptor) = device.descriptor() {
            poll.add(descriptor, DEVICE_TOKEN, Interest::READ)?;
        }
        let tcp = config.listen.iter().map(|address| Listener::tcp(*address));
        let unix = config.sockets.iter().map(|path| Listener::unix(path));
        let listeners = tcp.chain(unix).collect::<Result<Vec<_>, _>>()?;
        let times = Times { serial: 0, listen_again: None, next_late: Instant::FAR_FUTURE };
        let mut service = NbdService {
            poll,
            listeners,
            signals,
            pool,
            clients: Slab::new(),
            queue: VecDeque::new(),
            stalled: Vec::new(),
            slots: Slots::default(),
            shared: Shared::new(SharedDevice::new(device), config.command),
            config: server,
            times,
            drain: None,
        };
        service.listen()?;
        Ok(service)
    }

    /// Bound TCP addresses, in the order of the configuration.
    ///
    /// # Errors
    /// The system does not tell one.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().filter_map(|listener| listener.address().transpose()).collect()
    }

    /// Serves until a signal ends the service, and returns its totals.
    ///
    /// # Errors
    /// The device was not flushed, or the system failed.
    pub fn serve(mut self) -> Result<NbdServiceTotals, NbdServiceError> {
        engine::run(&mut self)?;
        let NbdService { shared, pool, drain, .. } = self;
        let Shared { device, totals, .. } = shared;
        let result = drain.map_or(Ok(()), |drain| drain.result(&device));
        device.end(pool);
        result.map(|()| totals)
    }

    /// Closes a connection and tells why, unless it ended in good order.
    pub(super) fn close(&mut self, index: usize, end: &EndReason, now: Instant) {
        let Some(client) = self.clients.try_remove(index) else { return };
        self.slots.leave(client.owner);
        client.leave(&mut self.shared, now);
        if let Some(text) = end.text(client.unanswered()) {
            self.shared.notes.about(end.kind(), client.peer(), now, format_args!("{text}"));
        }
    }

    /// Queues a connection for a turn.
    pub(super) fn enqueue(&mut self, index: usize) {
        if self.clients.get_mut(index).is_some_and(|client| client.enqueue()) {
            self.queue.push_back(index);
        }
    }

    fn find(&self, owner: Owner) -> Option<usize> {
        let index = place(owner);
        self.clients.get(index).filter(|client| client.owner == owner).map(|_| index)
    }

    fn listen(&mut self) -> io::Result<()> {
        for (index, listener) in self.listeners.iter().enumerate() {
            self.poll.add(listener.as_fd(), LISTENER_TOKENS + index as u64, Interest::READ)?;
        }
        self.times.listen_again = None;
        Ok(())
    }

    fn accept(&mut self, listener: usize, now: Instant) {
        // A listener stays ready while others wait in its backlog, so a bounded number per wake is fair.
        for _ in 0..ACCEPTS {
            let Some(listener) = self.listeners.get(listener) else { return };
            match listener.accept() {
                Ok(accepted) => self.enter(accepted, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A peer that went away while it waited.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Out of descriptors. A connection that stays in the backlog would wake the loop for ever.
                    self.shared.notes.write(format_args!("cannot accept a connection: {error}"));
                    for listener in &self.listeners {
                        let _ = self.poll.remove(listener.as_fd());
                    }
                    self.times.listen_again = Some(now + LISTEN_AGAIN);
                    return;
                }
            }
        }
    }

    fn enter(&mut self, accepted: Accepted, now: Instant) {
        match self.slots.admit(self.clients.len()) {
            Admission::Admitted => {}
            Admission::Instead(oldest) => {
                self.slots.leave(oldest);
                if let Some(index) = self.find(oldest) {
                    self.close(index, &EndReason::MadeRoom, now);
                }
            }
            Admission::Full => {
                let text = format_args!(
                    "closed: {} connections are open, the most there may be",
                    self.clients.len()
                );
                return self.shared.notes.about("full", &accepted.peer, now, text);
            }
        }
        let entry = self.clients.vacant_entry();
        let index = entry.key();
        self.times.serial += 1;
        let owner = Owner(self.times.serial << PLACE_BITS | index as u64);
        let peer = accepted.peer.clone();
        let (config, part) = (Arc::clone(&self.config), self.shared.memory.part());
        match Client::new(accepted, (owner, index as u64), config, part, &self.poll, now) {
            Ok(client) => {
                entry.insert(Box::new(client));
                self.slots.enter(owner, now);
                self.enqueue(index);
            }
            Err(error) => self.shared.notes.about("accept", &peer, now, format_args!("closed: {error}")),
        }
    }

    /// Hands completions of the device to their connections.
    fn complete(&mut self, now: Instant) {
        for _ in 0..COMPLETIONS {
            let Some(done) = self.shared.device.poll(now) else { return };
            if let Some(index) = self.find(done.owner) {
                if let Some(client) = self.clients.get_mut(index) {
                    client.completed(done, &mut self.shared, now);
                }
                self.enqueue(index);
            } else if let Some(drain) = &mut self.drain {
                drain.completed(done);
            }
        }
    }

    /// Turns of the queued connections, each once.
    fn round(&mut self, begin: Instant) {
        let is_alone = self.queue.len() == 1;
        let mut now = begin;
        for _ in 0..self.queue.len() {
            let Some(index) = self.queue.pop_front() else { return };
            let Some(client) = self.clients.get_mut(index) else { continue };
            let was_negotiating = client.is_negotiating();
            let turn = client.turn(&self.poll, &mut self.shared, TurnLimit::new(now, is_alone), now);
            if was_negotiating && !client.is_negotiating() {
                self.slots.leave(client.owner);
            }
            if client.is_stalled() && !self.stalled.contains(&index) {
                self.stalled.push(index);
                self.times.next_late = self.times.next_late.min(now + LATE_EVERY);
            }
            match turn {
                Ok(Progress::Waits) => {}
                Ok(Progress::More) => self.enqueue(index),
                Err(end) => self.close(index, &end, now),
            }
            if !is_alone {
                now = clock::now();
                if now.since(begin) >= ROUND {
                    return;
                }
            }
        }
    }

    /// Queues connections for which there is memory now.
    fn resume(&mut self) {
        if self.stalled.is_empty() {
            return;
        }
        for index in std::mem::take(&mut self.stalled) {
            match self.clients.get(index) {
                Some(client) if client.may_go_on(&self.shared) => self.enqueue(index),
                Some(client) if client.is_stalled() => self.stalled.push(index),
                _ => {}
            }
        }
    }

    /// Closes connections whose time is over.
    fn expire(&mut self, now: Instant) {
        while let Some(owner) = self.slots.late(now) {
            self.slots.leave(owner);
            if let Some(index) = self.find(owner) {
                self.close(index, &EndReason::Silent, now);
            }
        }
        if now >= self.times.next_late {
            let then = now - LATE;
            let late = self.clients.iter().filter(|(_, client)| client.holds_up(then));
            for index in late.map(|(index, _)| index).collect::<Vec<_>>() {
                self.close(index, &EndReason::Late, now);
            }
            let is_short = !self.stalled.is_empty();
            self.times.next_late = if is_short { now + LATE_EVERY } else { Instant::FAR_FUTURE };
        }
    }
}

impl Service for NbdService {
    type Error = NbdServiceError;

    fn poll(&self) -> &Poll {
        &self.poll
    }

    fn ready(&mut self, ready: Ready, now: Instant) -> Result<(), NbdServiceError> {
        match ready.token {
            SIGNALS_TOKEN => {
                while self.signals.came() {
                    self.begin_drain(now);
                }
            }
            POOL_TOKEN => self.pool.iter().for_each(|pool| pool.collect()),
            // The device is polled in every turn.
            DEVICE_TOKEN => {}
            token if token >= LISTENER_TOKENS => self.accept((token - LISTENER_TOKENS) as usize, now),
            token => {
                let index = token as usize;
                let Some(client) = self.clients.get_mut(index) else { return Ok(()) };
                client.ready(ready);
                if ready.is_closed()
                    && let Err(end) = client.finish_stream(ready, &self.poll, &mut self.shared, now)
                {
                    self.close(index, &end, now);
                }
                self.enqueue(index);
            }
        }
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> Result<Turn, NbdServiceError> {
        self.complete(now);
        self.round(now);
        // Requests that the device has executed at once.
        self.complete(now);
        self.resume();
        self.expire(now);
        if self.times.listen_again.is_some_and(|at| now >= at) {
            self.listen()?;
        }
        let mut next = self.slots.next_at().min(self.times.next_late);
        next = next.min(self.times.listen_again.unwrap_or(Instant::FAR_FUTURE));
        if let Some(at) = self.advance_drain(now) {
            match at {
                Instant::ZERO => return Ok(Turn::Stop),
                at => next = next.min(at),
            }
        }
        next = next.min(self.shared.device.device().next_at());
        Ok(match next {
            _ if !self.queue.is_empty() => Turn::Again,
            Instant::FAR_FUTURE => Turn::Wait,
            at if at <= now => Turn::Again,
            at => Turn::WaitUntil(at),
        })
    }
}

/// Place of the connection of an owner.
fn place(owner: Owner) -> usize {
    (owner.0 & ((1 << PLACE_BITS) - 1)) as usize
}

fn server_config(
    config: &NbdServiceConfig,
    device: &dyn BlockDevice,
) -> Result<NbdServerConfig, NbdServiceError> {
    let profile = device.profile();
    let found_bytes = profile.blocks.logical_bytes;
    let facts = facts(profile, config.read_only).ok_or(NbdServiceError::Block { found_bytes })?;
    let export = NbdExport {
        name: config.export.clone(),
        description: config.description.clone(),
        facts,
        has_allocation: profile.can.extents,
    };
    let config = NbdServerConfig {
        exports: vec![export],
        default_export: Some(0),
        tls: TlsPolicy::Unsupported,
        lists: true,
        requests_max: REQUESTS_MAX,
        queue_max_bytes: QUEUE_MAX_BYTES,
    };
    config.check()?;
    Ok(config)
}
