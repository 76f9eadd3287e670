//! The serving loop: listens, logs initiators in, runs their commands on the LUNs. One loop, one thread,
//! all sessions; stores that block are called by a pool of workers.
//!
//! `client` is one connection, `side` a session and what it does with its PDUs, `exchange` joins the two, `transfer`
//! is the payload that is moved, `parameters` what commands bring along, `jobs` are the calls that block, `chores` what
//! takes long in memory.

mod alive;
mod chores;
mod client;
mod directory;
mod drain;
mod end;
mod exchange;
mod jobs;
mod manage;
mod parameters;
mod reload;
mod side;
mod stats;
mod transfer;
mod waiting;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use engine::{Buffers, Progress, Quantum, Scratch, Service, Turn, Workers};
use event::{Instant, Sink, SocketSample};
use net::{EndSignals, Interest, Poll, Ready, tcp};
use proto::discovery::{DiscoveredTarget, TargetAddress};
use proto::login::{ChapTarget, LoginPolicy};
use proto::params::{Digest, Wishes};
use slab::Slab;
use store::tables::{Recorder, TableError};

use crate::lun::{LunError, LunSpec, Luns, PORTAL_GROUP_TAG};
use alive::Verdict;
use chores::Chores;
use client::Client;
use directory::{Replaced, Sessions};
use drain::Drain;
use end::End;
use jobs::{Done, Job};
use manage::{Management, Reply};
use reload::Reloader;
use side::{Ending, Side};
use waiting::Waiting;

pub use reload::{Reload, Reloaded};
pub use stats::Stats;

/// What a target serves and where.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens; port 0 picks one.
    pub listen: Vec<SocketAddr>,
    /// Its name.
    pub iqn: String,
    /// Its LUNs by their numbers.
    pub luns: BTreeMap<u16, LunSpec>,
    /// With it, nobody logs in without proving who they are.
    pub chap: Option<ChapTarget>,
    /// Names of the initiators that may log in; everybody if empty.
    pub allowed: Vec<String>,
    /// Digests that its connections may have, the preferred one first; see [`Wishes`].
    pub digests: &'static [Digest],
    /// Congestion control of its connections; the system's if `None`.
    pub congestion: Option<String>,
    /// Where the table `sockets` goes, if anywhere.
    pub trace: Option<PathBuf>,
}

/// Why a target could not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A LUN cannot be served.
    #[error(transparent)]
    Lun(#[from] LunError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A table cannot be written.
    #[error(transparent)]
    Trace(#[from] TableError),
    /// The system refused something the loop cannot do without.
    #[error("the serving loop failed: {0}")]
    Io(#[from] io::Error),
}

/// Threads that call stores which block.
const WORKERS: usize = 8;
/// Free buffers that are kept for reuse.
const BUFFERS_KEEP_BYTES: usize = 64 << 20;
/// A connection that has not logged in by then is closed.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(15);
/// Connections at most; more are closed as they come.
const CONNECTIONS_MAX: usize = 8192;
/// Connections of one session at most.
const CONNECTIONS_PER_SESSION: u16 = 8;
/// How long nothing is accepted after accepting has failed.
const LISTEN_AGAIN: Duration = Duration::from_millis(100);
/// How often a connection that moves data is looked at, if few do.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);

/// How long turns stay short after a second connection had one.
const SHARED_FOR: Duration = Duration::from_millis(50);
/// How often peers that say nothing are looked for.
const ROLL_CALL_EVERY: Duration = Duration::from_secs(5);

const LISTENER_TOKENS: u64 = 1 << 40;
const WORKERS_TOKEN: u64 = 2 << 40;
const SIGNALS_TOKEN: u64 = 3 << 40;
const RELOAD_TOKEN: u64 = 4 << 40;

/// A target.
pub struct Target {
    poll: Poll,
    listeners: Vec<Listener>,
    signals: EndSignals,
    clients: Slab<Client>,
    /// Their sessions.
    sides: Slab<Side>,
    /// Clients with something to do in this turn, and those that were not done with the last one: they come
    /// behind.
    dirty: Vec<usize>,
    again: Vec<usize>,
    /// Who had the last turn, and until when turns are short because several have had one lately.
    last_served: usize,
    shared_until: Instant,
    /// Clients that wait for buffers to come free.
    paused: Vec<usize>,
    shared: Shared,
    sockets: Option<Recorder<SocketSample>>,
    next_sample: Instant,
    /// When to listen again after accepting failed.
    listen_again: Option<Instant>,
    congestion: Option<String>,
    /// When to look for peers that say nothing.
    next_roll_call: Instant,
    /// It has been asked to end.
    drain: Option<Drain>,
    /// What it was told to be.
    config: Config,
    /// With it, SIGHUP does not end the target.
    reloader: Option<Reloader>,
}

/// A socket that connections come in by.
struct Listener {
    /// The address that was asked for; the port of the socket's own may be another.
    wanted: SocketAddr,
    socket: TcpListener,
}

/// What all clients of a target use.
struct Shared {
    luns: Luns,
    workers: Workers<Job, Done>,
    chores: Chores,
    /// Jobs of LUNs that take their time.
    waiting: Waiting<Job>,
    buffers: Buffers,
    /// Where payload of commands that were ended lands; nobody reads it.
    waste: Vec<u8>,
    management: Management,
    sessions: Sessions,
    /// Connections that are to end, and those that have something to send because of another's PDUs.
    endings: Vec<Ending>,
    stirred: Vec<usize>,
    policy: LoginPolicy,
    /// What discovery answers; addresses that stand for all of this host are filled in per connection.
    advertised: Vec<DiscoveredTarget>,
    open_sessions: usize,
    /// The target ends: no new commands are begun.
    is_draining: bool,
    stats: Stats,
}

impl Target {
    /// Opens the LUNs and listens. From here on SIGINT and SIGTERM end the target in order.
    pub fn start(config: &Config) -> Result<Target, ServeError> {
        let signals = EndSignals::take_over()?;
        // With what the system leaves us, however little: running out is handled.
        let _ = net::limits::raise_open_files();
        let luns = Luns::open(&config.luns, &config.iqn)?;
        let poll = Poll::new()?;
        poll.add(signals.as_fd(), SIGNALS_TOKEN, Interest::READ)?;
        let listen = config.listen.iter().map(|address| reload::listen(*address));
        let listeners = listen.collect::<Result<Vec<_>, _>>()?;
        let workers = Workers::start(WORKERS, jobs::run)?;
        poll.add(workers.as_fd(), WORKERS_TOKEN, Interest::READ)?;
        let advertised = advertised(&config.iqn, &listeners)?;
        let sockets = match &config.trace {
            Some(dir) => Some(Recorder::create(dir.join("sockets-far.parquet"))?),
            None => None,
        };
        let policy = LoginPolicy {
            portal_group_tag: PORTAL_GROUP_TAG,
            command_window: side::COMMANDS_AT_FIRST,
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
            sides: Slab::new(),
            dirty: Vec::new(),
            again: Vec::new(),
            last_served: 0,
            shared_until: Instant::default(),
            paused: Vec::new(),
            shared: Shared {
                luns,
                workers,
                chores: Chores::default(),
                waiting: Waiting::default(),
                buffers: Buffers::new(BUFFERS_KEEP_BYTES),
                waste: Vec::new(),
                management: Management::default(),
                sessions: Sessions::new(config.iqn.clone(), config.allowed.clone()),
                endings: Vec::new(),
                stirred: Vec::new(),
                policy,
                advertised,
                open_sessions: 0,
                is_draining: false,
                stats: Stats::default(),
            },
            sockets,
            next_sample: Instant::FAR_FUTURE,
            listen_again: None,
            congestion: config.congestion.clone(),
            next_roll_call: Instant::FAR_FUTURE,
            drain: None,
            config: config.clone(),
            reloader: None,
        };
        target.listen()?;
        Ok(target)
    }

    /// Where it really listens.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(|listener| listener.socket.local_addr()).collect()
    }

    /// Its LUNs.
    pub fn luns(&self) -> &Luns {
        &self.shared.luns
    }

    /// Serves until a signal ends it; what it did.
    pub fn serve(mut self) -> Result<Stats, ServeError> {
        engine::run(&mut self)?;
        for index in self.clients.iter().map(|(index, _)| index).collect::<Vec<_>>() {
            self.close(index, &End::Shutdown, net::clock::now());
        }
        // Writes that are under way finish before the process does.
        drop(self.shared.workers);
        if let Some(sockets) = self.sockets {
            sockets.finish()?;
        }
        Ok(self.shared.stats)
    }

    fn accept(&mut self, listener: usize, now: Instant) {
        // A listener stays ready while others wait in its backlog, so a bounded number per wake is fair.
        for _ in 0..64 {
            // One that was closed a moment ago may still have been ready.
            let Some(listener) = self.listeners.get(listener) else { return };
            let (stream, peer) = match listener.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of descriptors, or a peer that went away while it waited.
                    log(format_args!("cannot accept a connection: {error}"));
                    self.rest_listeners(now);
                    return;
                }
            };
            if self.clients.len() >= CONNECTIONS_MAX {
                log(format_args!("{peer}: closed, {CONNECTIONS_MAX} connections are open"));
                continue;
            }
            let entry = self.clients.vacant_entry();
            let prepared = tcp::prepare(&stream, self.congestion.as_deref());
            let client = prepared.and_then(|()| {
                let login = self.shared.policy.clone();
                Client::new(stream, peer, &self.poll, entry.key(), login, now)
            });
            match client {
                Ok(client) => {
                    entry.insert(client);
                    self.next_sample = self.next_sample.min(now + SAMPLE_EVERY);
                    self.next_roll_call = self.next_roll_call.min(now + ROLL_CALL_EVERY);
                }
                Err(error) => log(format_args!("{peer}: {error}")),
            }
        }
    }

    /// Out of descriptors, a waiting connection would wake us for ever: look again in a moment.
    fn rest_listeners(&mut self, now: Instant) {
        for listener in &self.listeners {
            let _ = self.poll.remove(listener.socket.as_fd());
        }
        self.listen_again = Some(now + LISTEN_AGAIN);
        self.next_sample = self.next_sample.min(now + LISTEN_AGAIN);
    }

    fn listen(&mut self) -> io::Result<()> {
        for (index, listener) in self.listeners.iter().enumerate() {
            self.poll.add(listener.socket.as_fd(), LISTENER_TOKENS + index as u64, Interest::READ)?;
        }
        self.listen_again = None;
        Ok(())
    }

    fn close(&mut self, index: usize, end: &End, now: Instant) {
        // It may have been named more than once in a turn.
        let Some(mut client) = self.clients.try_remove(index) else { return };
        if let (Some(sink), Some(sample)) = (&mut self.sockets, client.last_sample(now)) {
            sink.record(&sample);
        }
        client.leave(&mut self.sides, &mut self.shared);
        if end.is_worth_telling() {
            log(format_args!("{}: {end}", client.name()));
        }
    }

    /// Goes on with a command that was with a worker or was a chore.
    fn finish(&mut self, done: Done) {
        match self.sides.get_mut(done.side) {
            Some(side) if side.nexus == done.nexus => {
                let index = side.index;
                side.finish_job(done, &mut self.shared);
                self.wake_members(index);
            }
            _ => {
                self.shared.management.finish_orphan(done.nexus, done.token);
                self.wake_logins();
            }
        }
    }

    /// Does a slice of what takes long.
    fn do_chore(&mut self) {
        let (sides, shared) = (&self.sides, &mut self.shared);
        let is_wanted = |side, nexus| sides.get(side).is_some_and(|side: &Side| side.nexus == nexus);
        if let Some(done) = shared.chores.step(&mut shared.luns, is_wanted) {
            self.finish(done);
        }
    }

    /// Logins that wait for an old session to come to rest look again.
    fn wake_logins(&mut self) {
        for (_, client) in self.clients.iter_mut().filter(|(_, client)| client.next_tsih().is_some()) {
            client.become_dirty(&mut self.dirty);
        }
    }

    /// All connections of a session look what there is to do.
    fn wake_members(&mut self, side: usize) {
        for member in &self.sides[side].members {
            self.clients[member.client].become_dirty(&mut self.dirty);
        }
    }

    /// Ends the sessions whose initiator has just logged in again, before anything else of it is served.
    fn end_replaced(&mut self, now: Instant) {
        for Replaced { old, new } in self.shared.sessions.take_replaced() {
            let mut waits_for = self.shared.sessions.held_by(old);
            let login = self.clients.iter().filter(|(_, client)| client.next_tsih() == Some(old));
            let mut clients: Vec<_> = login.map(|(index, _)| index).collect();
            for (_, side) in self.sides.iter().filter(|(_, side)| side.tsih == old) {
                waits_for.push(side.nexus);
                clients.extend(side.members.iter().map(|member| member.client));
            }
            for index in clients {
                self.close(index, &End::Replaced, now);
            }
            waits_for.into_iter().for_each(|nexus| self.shared.sessions.hold(new, nexus));
            self.wake_logins();
        }
    }

    /// Ends tasks in other sessions than the one that asked, and answers who asked for what is done.
    fn manage(&mut self, now: Instant) {
        for others in self.shared.management.take_others() {
            for (_, side) in &mut self.sides {
                if side.iqn.is_some()
                    && others.concerns(side.nexus)
                    && side.end_tasks(&others, &mut self.shared)
                    && others.is_told
                {
                    self.shared.luns.tell_cleared(others.lun, side.nexus);
                }
            }
            self.shared.management.release(others.id);
        }
        for request in self.shared.management.take_finished() {
            if let Reply::Managed { is_cold: true, .. } = request.reply {
                let own = |client: &Client| client.place().is_some_and(|(side, _)| side == request.side);
                let others = self.clients.iter().filter(|(_, client)| !own(client));
                for index in others.map(|(index, _)| index).collect::<Vec<_>>() {
                    self.dismiss(index, &End::Reset, now);
                }
            }
            if let Some(side) = self.sides.get_mut(request.side)
                && side.nexus == request.nexus
            {
                side.finish_managing(request.reply, &mut self.shared);
                self.wake_members(request.side);
            }
        }
        self.settle(now);
    }

    /// Ends the connections that have to end, and wakes those that others have given something to send.
    fn settle(&mut self, now: Instant) {
        while let Some(Ending { client: index, end, is_abrupt }) = self.shared.endings.pop() {
            if is_abrupt {
                self.close(index, &end, now);
            } else if let Some(client) = self.clients.get_mut(index) {
                client.end_with(end);
                client.become_dirty(&mut self.dirty);
            }
        }
        for index in std::mem::take(&mut self.shared.stirred) {
            if let Some(client) = self.clients.get_mut(index) {
                client.become_dirty(&mut self.dirty);
            }
        }
    }

    /// Clients that wait for buffers look again as soon as they may read.
    fn resume_paused(&mut self) {
        let (clients, dirty) = (&mut self.clients, &mut self.dirty);
        let (sides, shared) = (&self.sides, &self.shared);
        self.paused.retain(|index| {
            let Some(client) = clients.get_mut(*index) else { return false };
            let may_read = client.may_read(sides, shared);
            if may_read {
                client.become_dirty(dirty);
            }
            !may_read
        });
    }

    /// Pings the peers that are silent and closes the connections of those that do not answer.
    fn call_roll(&mut self, now: Instant) {
        let mut gone = Vec::new();
        for (index, client) in &mut self.clients {
            match client.judge(now, &mut self.sides) {
                Verdict::Fine => {}
                Verdict::Ping => client.become_dirty(&mut self.dirty),
                Verdict::Gone => gone.push(index),
            }
        }
        for index in gone {
            self.close(index, &End::Silent, now);
        }
        let is_alone = self.clients.is_empty();
        self.next_roll_call = if is_alone { Instant::FAR_FUTURE } else { now + ROLL_CALL_EVERY };
    }

    /// Looks at every connection that moves data: what the kernel says of it goes to the policy and to
    /// the table.
    fn sample(&mut self, now: Instant) {
        let mut failed = Vec::new();
        let mut busy = 0;
        let mut soonest = SAMPLE_EVERY;
        let mut waiting = false;
        for (index, client) in &mut self.clients {
            if client.is_overdue(now) {
                failed.push((index, End::LoginTimeout));
                continue;
            }
            waiting |= client.awaits_login();
            match client.sample(now, &mut self.sides) {
                Ok(None) => {}
                Ok(Some((sample, look_again))) => {
                    busy += 1;
                    soonest = soonest.min(look_again);
                    if let Some(sockets) = &mut self.sockets {
                        sockets.record(&sample);
                    }
                }
                Err(error) => failed.push((index, End::Io(error))),
            }
        }
        for (index, end) in failed {
            self.close(index, &end, now);
        }
        // Looking costs a system call each, so a crowd is looked at less often.
        self.next_sample = match busy {
            0 if waiting => now + Duration::from_secs(1),
            0 => Instant::FAR_FUTURE,
            1..100 => now + soonest,
            busy => now + SAMPLE_EVERY * (busy / 50),
        };
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
                    self.next_sample = self.next_sample.min(now + SAMPLE_EVERY);
                }
            }
        }
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> Result<Turn, ServeError> {
        while let Some(job) = self.shared.waiting.pop_due(now) {
            self.shared.workers.submit(job.nexus.0, job.cost_bytes(), job);
        }
        // Before requests are looked at that wait for it.
        self.do_chore();
        self.manage(now);
        let mut served = std::mem::take(&mut self.dirty);
        served.append(&mut self.again);
        if served.first() == Some(&self.last_served) {
            served.rotate_left(1);
        }
        for &index in &served {
            let Some(client) = self.clients.get_mut(index) else { continue };
            client.is_dirty = false;
            if std::mem::replace(&mut self.last_served, index) != index {
                self.shared_until = now + SHARED_FOR;
            }
            let quantum = if now < self.shared_until { Quantum::SHARED } else { Quantum::ALONE };
            client.set_quantum(quantum);
            match client.turn(&self.poll, &mut self.sides, &mut self.shared) {
                Ok(Progress::Waits) => {
                    if client.is_paused() && !self.paused.contains(&index) {
                        self.paused.push(index);
                    }
                }
                Ok(Progress::More) => {
                    client.is_dirty = true;
                    self.again.push(index);
                }
                Err(end) => self.close(index, &end, now),
            }
            self.end_replaced(now);
            self.manage(now);
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
        // Its memory is used again, for those that were found meanwhile.
        served.append(&mut self.dirty);
        self.dirty = served;
        self.resume_paused();
        let mut next = self.next_sample.min(self.next_roll_call).min(self.next_release());
        next = next.min(self.shared.waiting.next_due());
        if let Some(drain) = self.drain {
            match self.drain(drain, now) {
                Some(at) => next = next.min(at),
                None => return Ok(Turn::Stop),
            }
        }
        let is_idle = self.dirty.is_empty() && self.again.is_empty() && self.shared.chores.is_empty();
        Ok(match (is_idle, next) {
            (false, _) => Turn::Again,
            (true, Instant::FAR_FUTURE) => Turn::Wait,
            (true, at) => Turn::WaitUntil(at),
        })
    }
}

impl Shared {
    /// What discovery answers on a connection that reached us at `local`.
    fn advertised(&self, local: SocketAddr) -> Vec<DiscoveredTarget> {
        let mut targets = self.advertised.clone();
        for address in targets.iter_mut().flat_map(|target| &mut target.addresses) {
            if address.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) {
                address.host = local.ip().to_canonical().to_string();
            }
        }
        targets
    }
}

/// What discovery answers.
fn advertised(iqn: &str, listeners: &[Listener]) -> io::Result<Vec<DiscoveredTarget>> {
    let mut addresses = Vec::new();
    for listener in listeners {
        let address = listener.socket.local_addr()?;
        addresses.push(TargetAddress {
            host: address.ip().to_string(),
            port: address.port(),
            portal_group_tag: Some(PORTAL_GROUP_TAG),
        });
    }
    Ok(vec![DiscoveredTarget { name: iqn.to_owned(), addresses }])
}

/// Says something to whoever reads stderr; that nobody does is no reason to stop serving.
fn log(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "farlun target: {text}");
}

/// The thread's scratch buffer, lent to one client at a time.
fn with_scratch<T>(use_it: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local!(static SCRATCH: std::cell::RefCell<Scratch> = Scratch::new().into());
    SCRATCH.with_borrow_mut(use_it)
}
