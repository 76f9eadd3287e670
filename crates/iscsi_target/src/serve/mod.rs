//! The serving loop: listens, logs initiators in, runs their commands on the LUNs. One loop, one thread,
//! all sessions; stores that block are called by a pool of workers.
//!
//! `client` is one connection, `side` a session and its handling of PDUs, `exchange` joins the two. `transfer` is
//! payload in transit, `budget` the memory for it, `room` a session's share of that memory. `parameters` is the
//! parameter data of commands, `jobs` are blocking calls, `chores` long operations in memory, `path` the windows that
//! paths need.

mod alive;
mod budget;
mod chores;
mod claims;
mod client;
mod config;
mod directory;
mod drain;
mod end;
mod exchange;
mod jobs;
mod lingering;
mod listener;
mod manage;
mod member;
mod parameters;
mod path;
mod portals;
mod registrar;
mod rehearsal;
mod reload;
mod replacing;
mod room;
mod side;
mod slots;
mod stats;
mod store_watch;
mod succession;
mod told;
mod trail;
mod transfer;
mod turns;
mod unread;
mod waiting;
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use block::Workers;
use control::{Crowd, Sharing};
use engine::trace::Tracer;
use engine::{Gate, Progress, Quantum, Scratch, Service, Turn};
use event::{Host, Instant, LineRate, Sink, SocketSample};
use net::{EndSignals, Interest, Poll, Ready, limits};
use proto::login::LoginPolicy;
use proto::params::Wishes;
use slab::Slab;
use tables::Recorder;
use tables::manifest::Trace;

use crate::compat::Compat;
use crate::log::{self};
use crate::lun::{Luns, Nexus, PORTAL_GROUP_TAG, Register};
use budget::Budget;
use chores::Chores;
use client::Client;
use directory::Sessions;
use drain::Drain;
use end::End;
use jobs::{Done, Job};
use listener::Listener;
use manage::Management;
use portals::Portals;
use registrar::Registrar;
use reload::Reloader;
use side::{Ending, Side};
use slots::Slots;
use store_watch::StoreWatch;
use told::Told;
use turns::{PeerDebts, ROUND, TurnClock};
use unread::{AllCommands, AllEarly, AllUnread};
use waiting::Waiting;

pub use config::{Config, InitiatorRights, LunSet, ServeError};
pub use log::log;
use log::log_some;
pub use rehearsal::rehearse;
pub use reload::{Reload, Reloaded};
pub use replacing::{CutOff, Grown};
pub use stats::Stats;

/// Threads that call stores which block. A session alone has half of them.
const WORKERS: usize = 16;
/// Free buffers that are kept for reuse.
const BUFFERS_KEEP_BYTES: usize = 64 << 20;
/// Time for a login; a connection that takes longer is closed.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(15);
/// Most connections of one session.
const CONNECTIONS_PER_SESSION: u16 = 8;

/// Number of connections from which on their memory is worth returning to the system.
const CROWD: usize = 256;

/// Time during which turns stay short after a second connection has had a turn.
const SHARED_FOR: Duration = Duration::from_millis(50);

const LISTENER_TOKENS: u64 = 1 << 40;
const WORKERS_TOKEN: u64 = 2 << 40;
const SIGNALS_TOKEN: u64 = 3 << 40;
const RELOAD_TOKEN: u64 = 4 << 40;
const REGISTER_TOKEN: u64 = 5 << 40;

/// A target.
pub struct Target {
    poll: Poll,
    listeners: Vec<Listener>,
    signals: EndSignals,
    /// Open connections. Boxed, since the slab never shrinks below its largest number of entries.
    clients: Slab<Box<Client>>,
    /// Largest number of connections since memory was returned to the system.
    most_clients: usize,
    /// Open sessions.
    sides: Slab<Side>,
    /// Clients with work in this turn; `again` are the unfinished ones of the last turn, which come behind.
    dirty: Vec<usize>,
    again: Vec<usize>,
    /// Clients that the last turn of the loop had no time for: they come first.
    left: Vec<usize>,
    /// Client of the last turn. Turns are short until `shared_until`, because several clients have had one lately.
    last_served: usize,
    shared_until: Instant,
    /// Clients that wait for buffers; `spaced` are the clients that delay their data for pacing.
    paused: Vec<usize>,
    spaced: Vec<usize>,
    /// Arbiter of the outbound (read) direction; `receiving` is that of the inbound (write) direction.
    sharing: Sharing,
    /// Joint limit of all senders at a sending device that takes packets one by one.
    gate: Gate,
    receiving: Sharing,
    shared: Shared,
    sockets: Option<Recorder<SocketSample>>,
    next_sample: Instant,
    /// Earliest time of the next look at the connections.
    no_sample_before: Instant,
    /// Connections that had moved data at the last look.
    busy: u32,
    /// Time to listen again after an error of accept.
    listen_again: Option<Instant>,
    congestion: Option<String>,
    /// Time of the next search for silent peers.
    next_roll_call: Instant,
    /// Lines about connections in the log.
    lines: LineRate,
    /// Deadlines of the end; `None` while the target serves.
    drain: Option<Drain>,
    /// Configuration in force.
    config: Config,
    /// Reloader; if set, SIGHUP reloads the configuration instead of ending the target.
    reloader: Option<Reloader>,
    /// Writer of the register of nexuses, if there is a state folder.
    registrar: Option<Registrar>,
    /// Watch of the files of LUNs.
    store_watch: StoreWatch,
}

/// State that all clients of a target share.
struct Shared {
    luns: Luns,
    workers: Workers<Job, Done>,
    chores: Chores,
    /// Jobs of delayed or rate-limited LUNs.
    waiting: Waiting<Job>,
    budget: Budget,
    /// Clients that send one burst at a time.
    crowd: Crowd,
    /// Sink for payload of ended commands, which is never read.
    waste: Vec<u8>,
    management: Management,
    sessions: Sessions,
    /// Connections to end; `stirred` are clients that have something to send because of the PDUs of another.
    endings: Vec<Ending>,
    /// Sessions with ended tasks or connections that may still have jobs queued for a worker.
    ended: Vec<Nexus>,
    stirred: Vec<usize>,
    policy: LoginPolicy,
    compat: Compat,
    weights: BTreeMap<String, u32>,
    /// Initiators that may reset the target for all.
    cold_reset: Vec<String>,
    portals: Portals,
    open_sessions: usize,
    /// Version of the register on stable storage; the largest number if no write is awaited.
    register_version: u64,
    early: AllEarly,
    commands: AllCommands,
    unread: AllUnread,
    debts: PeerDebts,
    /// Clock of the turn at hand.
    turn: TurnClock,
    slots: Slots,
    /// The target ends: no new command is executed.
    is_draining: bool,
    stats: Stats,
    told: Told,
    /// Tracer of requests through the layers; `None` without a trace.
    tracer: Option<Rc<Tracer>>,
}

impl Target {
    /// Opens the LUNs and listens. From here on SIGINT and SIGTERM end the target in order.
    pub fn start(config: &Config) -> Result<Target, ServeError> {
        let signals = EndSignals::take_over()?;
        // A refusal is ignored: the loop handles a lack of descriptors.
        let _ = limits::raise_open_files();
        let mut luns = Luns::open(&config.luns.specs, config.opening())?;
        let registrar = match &config.luns.state {
            Some(state) => {
                let (register, list) = Register::open(state, &config.iqn)?;
                luns.restore(list);
                replacing::tell_shut_out(&luns);
                Some(Registrar::start(register)?)
            }
            None => None,
        };
        let store_watch = StoreWatch::start(luns.watched())?;
        let poll = Poll::new()?;
        poll.add(signals.as_fd(), SIGNALS_TOKEN, Interest::READ)?;
        if let Some(registrar) = &registrar {
            poll.add(registrar.as_fd(), REGISTER_TOKEN, Interest::READ)?;
        }
        let congestion = config.congestion.as_deref();
        let listen = config.listening().map(|address| Listener::open(address, congestion));
        let listeners = listen.collect::<Result<Vec<_>, _>>()?;
        let workers = Workers::start(WORKERS, jobs::run)?;
        poll.add(workers.as_fd(), WORKERS_TOKEN, Interest::READ)?;
        let portals = Portals::of(&config.iqn, listener::portals(&listeners)?, &config.advertise);
        let sockets = match &config.trace {
            Some(dir) => Some(Recorder::create(dir.join("sockets-far.parquet"))?),
            None => None,
        };
        let tracer = match &config.trace {
            Some(dir) => Some(Rc::new(Tracer::create(dir, Host::Far, config.sampling)?)),
            None => None,
        };
        let policy = LoginPolicy {
            portal_group_tag: PORTAL_GROUP_TAG,
            command_window: side::COMMANDS_AT_FIRST.min(config.window_max()),
            chap: config.chap.clone(),
            wishes: Wishes {
                max_connections: CONNECTIONS_PER_SESSION,
                ..Wishes::default().with_digests(config.digests)
            },
            ..LoginPolicy::default()
        };
        let mut target = Target {
            poll,
            listeners,
            signals,
            clients: Slab::new(),
            most_clients: 0,
            sides: Slab::new(),
            dirty: Vec::new(),
            again: Vec::new(),
            left: Vec::new(),
            last_served: 0,
            shared_until: Instant::default(),
            paused: Vec::new(),
            spaced: Vec::new(),
            sharing: Sharing::new(),
            gate: Gate::open(),
            receiving: Sharing::new(),
            shared: Shared {
                luns,
                workers,
                chores: Chores::default(),
                waiting: Waiting::default(),
                budget: Budget::new(BUFFERS_KEEP_BYTES),
                crowd: Crowd::new(),
                waste: Vec::new(),
                management: Management::default(),
                sessions: Sessions::new(config.iqn.clone(), config.initiators.allowed.clone()),
                endings: Vec::new(),
                ended: Vec::new(),
                stirred: Vec::new(),
                policy,
                compat: config.compat,
                weights: config.weights.clone(),
                cold_reset: config.initiators.cold_reset.clone(),
                portals,
                open_sessions: 0,
                register_version: if registrar.is_some() { 0 } else { u64::MAX },
                early: AllEarly::default(),
                commands: AllCommands::default(),
                unread: AllUnread::default(),
                debts: PeerDebts::default(),
                turn: TurnClock::default(),
                slots: Slots::default(),
                is_draining: false,
                stats: Stats::default(),
                told: Told::default(),
                tracer,
            },
            sockets,
            next_sample: Instant::FAR_FUTURE,
            no_sample_before: Instant::ZERO,
            busy: 0,
            listen_again: None,
            congestion: config.congestion.clone(),
            next_roll_call: Instant::FAR_FUTURE,
            lines: LineRate::default(),
            drain: None,
            config: config.clone(),
            reloader: None,
            registrar,
            store_watch,
        };
        target.listen()?;
        Ok(target)
    }

    /// Bound addresses of the listeners.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(|listener| listener.socket.local_addr()).collect()
    }

    /// LUNs of the target.
    pub fn luns(&self) -> &Luns {
        &self.shared.luns
    }

    /// Serves until a signal ends the target, and returns its totals.
    pub fn serve(mut self) -> Result<Stats, ServeError> {
        engine::run(&mut self)?;
        for index in self.clients.iter().map(|(index, _)| index).collect::<Vec<_>>() {
            self.close(index, &End::Shutdown, net::clock::now());
        }
        // Writes that have begun finish before the process does, and reservations are kept.
        self.take_back();
        self.keep_sessions_at_last();
        self.begin(Instant::FAR_FUTURE);
        let unfinished = self.wait_for_calls()?;
        if unfinished > 0 {
            self.shared.workers.abandon();
            self.reloader.take().into_iter().for_each(Reloader::abandon);
            self.registrar.take().into_iter().for_each(Registrar::abandon);
        } else {
            drop(self.shared.workers);
        }
        let sockets = self.sockets.map(Recorder::finish).transpose()?.unwrap_or_default();
        if let Some(tracer) = self.shared.tracer.take().and_then(Rc::into_inner) {
            self.shared.stats.trace = Some(Trace { sockets, ..tracer.finish()? });
        }
        if unfinished > 0 { Err(ServeError::Unfinished(unfinished)) } else { Ok(self.shared.stats) }
    }

    fn close(&mut self, index: usize, end: &End, now: Instant) {
        // A turn may name a connection more than once.
        self.most_clients = self.most_clients.max(self.clients.len());
        let Some(mut client) = self.clients.try_remove(index) else { return };
        if let (Some(sink), Some(sample)) = (&mut self.sockets, client.last_sample(now)) {
            sink.record(&sample);
        }
        // Initiators follow the target's own request for a logout by another login.
        let has_left = matches!(end, End::LoggedOut) || matches!(client.link.end, Some(End::LoggedOut));
        // open-iscsi ends a discovery that way.
        let is_discovery = client.place().is_some_and(|(side, _)| self.sides[side].iqn.is_none());
        let is_usual = end.is_reset() && is_discovery;
        if let Some(advice) = client.advice() {
            let text = format_args!("{}: {advice}", client.name());
            log_some(&mut self.lines, ("advice", client.link.peer.ip()), now, text);
        }
        client.leave(&mut self.sides, &mut self.shared, has_left && self.drain.is_none());
        if end.is_worth_telling() && !is_usual {
            let text = format_args!("{}: {end}", client.name());
            log_some(&mut self.lines, (end.kind(), client.link.peer.ip()), now, text);
        }
        drop(client);
        if self.most_clients >= CROWD && self.clients.len() < self.most_clients / 8 {
            limits::give_memory_back();
            self.most_clients = self.clients.len();
        }
    }

    /// Submits the jobs whose delay has passed.
    fn begin(&mut self, now: Instant) {
        while let Some(job) = self.shared.waiting.pop_due(now) {
            self.shared.workers.submit(job.claim(), job.cost_bytes(), job);
        }
    }

    /// Continues a command after its job or chore.
    fn finish(&mut self, done: Done) {
        if let Some((lun, save)) = &done.kept {
            self.shared.luns.settle(*lun, save, done.result.is_ok());
            if let Some(error) = done.own_error() {
                log(format_args!("LUN {lun}: the user that a registration belongs to is not kept: {error}"));
            }
        }
        match self.sides.get_mut(done.side) {
            Some(side) if side.nexus == done.nexus => {
                let index = side.index;
                side.finish_job(done, &mut self.shared);
                self.wake_members(index);
            }
            _ => {
                if self.shared.management.finish_orphan(done.nexus, done.token) {
                    self.came_to_rest(done.nexus);
                }
            }
        }
    }

    /// Executes one slice of a chore.
    fn do_chore(&mut self) {
        let (sides, shared) = (&self.sides, &mut self.shared);
        let is_wanted = |side, nexus, token| {
            sides.get(side).is_some_and(|side: &Side| side.nexus == nexus && !side.is_doomed(token))
        };
        if let Some(done) = shared.chores.step(&mut shared.luns, is_wanted) {
            self.finish(done);
        }
    }

    /// Wakes paced clients whose send time has come.
    fn resume_spaced(&mut self, now: Instant) {
        let (clients, dirty) = (&mut self.clients, &mut self.dirty);
        self.spaced.retain(|index| {
            let Some(client) = clients.get_mut(*index) else { return false };
            let Some(at) = client.resume_at() else { return false };
            if now >= at {
                client.become_dirty(dirty);
            }
            now < at
        });
    }
}

impl Service for Target {
    type Error = ServeError;

    fn poll(&self) -> &Poll {
        &self.poll
    }

    fn ready(&mut self, ready: Ready, now: Instant) -> Result<(), ServeError> {
        match ready.token {
            SIGNALS_TOKEN => self.signalled(now),
            RELOAD_TOKEN => self.finish_reload(now)?,
            REGISTER_TOKEN => self.finish_register(now),
            WORKERS_TOKEN => {
                for done in self.shared.workers.results() {
                    self.finish(done);
                }
            }
            token if token >= LISTENER_TOKENS => self.accept((token - LISTENER_TOKENS) as usize, now),
            token => {
                let index = token as usize;
                if let Some(client) = self.clients.get_mut(index) {
                    client.mark(ready, now);
                    client.become_dirty(&mut self.dirty);
                    let look_at = (now + client.look_again()).max(self.no_sample_before);
                    self.next_sample = self.next_sample.min(look_at);
                }
            }
        }
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> Result<Turn, ServeError> {
        self.begin(now);
        // Before requests are looked at that wait for it.
        self.do_chore();
        self.manage(now);
        self.resume_spaced(now);
        let mut served = std::mem::take(&mut self.dirty);
        served.splice(0..0, self.left.drain(..));
        served.append(&mut self.again);
        if served.first() == Some(&self.last_served) {
            served.rotate_left(1);
        }
        let mut at = now;
        for (place, &index) in served.iter().enumerate() {
            if at.since(now) >= ROUND {
                self.left.extend_from_slice(&served[place..]);
                break;
            }
            let Some(client) = self.clients.get_mut(index) else { continue };
            if at < self.shared_until && client.rests(at, &self.sides, &self.shared.debts) {
                self.again.push(index);
                continue;
            }
            client.is_dirty = false;
            if std::mem::replace(&mut self.last_served, index) != index {
                self.shared_until = now + SHARED_FOR;
            }
            let quantum = if now < self.shared_until { Quantum::SHARED } else { Quantum::ALONE };
            client.set_quantum(quantum);
            let (begin, payer) = (at, (client.link.peer.ip().into(), client.awaits_login()));
            self.shared.turn = TurnClock::start(at);
            let turn = client.turn(&self.poll, &mut self.sides, &mut self.shared);
            match turn {
                Ok(Progress::Waits) => {
                    if client.resume_at().is_some() && !self.spaced.contains(&index) {
                        self.spaced.push(index);
                    }
                    if client.is_paused() && !self.paused.contains(&index) {
                        self.paused.push(index);
                    }
                }
                Ok(Progress::More) => {
                    client.is_dirty = true;
                    self.again.push(index);
                    if client.take_wants_look() {
                        self.next_sample = self.next_sample.min(now.max(self.no_sample_before));
                    }
                }
                Err(end) => self.close(index, &end, now),
            }
            self.bound_unread(now);
            self.bound_commands(now);
            self.end_replaced(now);
            self.manage(now);
            at = net::clock::now();
            self.charge(index, payer, begin, at);
        }
        if now >= self.next_release() {
            self.release_luns(now);
        }
        if self.listen_again.is_some_and(|at| now >= at) {
            self.listen()?;
        }
        if now >= self.next_sample {
            self.sample(now);
            self.next_sample = self.next_sample.min(self.listen_again.unwrap_or(Instant::FAR_FUTURE));
        }
        if now >= self.next_roll_call {
            self.call_roll(now);
        }
        served.clear();
        // The vector's memory is reused for clients that were found meanwhile.
        served.append(&mut self.dirty);
        self.dirty = served;
        if !self.shared.ended.is_empty() {
            self.manage(now);
        }
        let register_at = self.keep_sessions(now);
        self.resume_paused();
        let mut next = self.next_sample.min(self.next_roll_call).min(self.next_release());
        next = next.min(register_at);
        next = next.min(self.shared.waiting.next_due());
        let resumes = self.spaced.iter().filter_map(|index| self.clients.get(*index)?.resume_at());
        next = resumes.fold(next, Instant::min);
        if let Some(drain) = self.drain {
            match self.drain(drain, now) {
                Some(at) => next = next.min(at),
                None => return Ok(Turn::Stop),
            }
        }
        let is_idle = self.dirty.is_empty()
            && self.left.is_empty()
            && self.again.is_empty()
            && self.shared.chores.is_empty()
            && self.shared.ended.is_empty();
        Ok(match (is_idle, next) {
            (false, _) => Turn::Again,
            (true, Instant::FAR_FUTURE) => Turn::Wait,
            (true, at) => Turn::WaitUntil(at),
        })
    }
}

/// The thread's scratch buffer, lent to one client at a time.
fn with_scratch<T>(use_it: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local!(static SCRATCH: std::cell::RefCell<Scratch> = Scratch::new().into());
    SCRATCH.with_borrow_mut(use_it)
}
