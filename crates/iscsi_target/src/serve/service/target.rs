//! The target: its start, its end, and the state of its loop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;

use block::Workers;
use control::{Crowd, Sharing};
use engine::trace::Tracer;
use engine::{CongestionControl, Gate, RouteMemory};
use event::{Host, Instant, LineRate, Sink, SocketSample};
use net::limits::{give_memory_back, raise_open_files};
use net::{EndSignals, Interest, Poll};
use proto::login::LoginPolicy;
use proto::params::Wishes;
use slab::Slab;
use tables::Recorder;
use tables::manifest::Trace;

use crate::lun::{Luns, PORTAL_GROUP_TAG, Register};
use crate::serve::connection::client::Client;
use crate::serve::connection::end_reason::End;
use crate::serve::connection::listener::{self, Listener};
use crate::serve::connection::open_sessions::Sessions;
use crate::serve::connection::portals::Portals;
use crate::serve::limits::budget::Budget;
use crate::serve::limits::slots::Slots;
use crate::serve::limits::turns::{PeerDebts, TurnClock};
use crate::serve::limits::unread::{AllCommands, AllEarly, AllUnread};
use crate::serve::reload::prepare::Reloader;
use crate::serve::reload::replaced_stores;
use crate::serve::session::management::Management;
use crate::serve::session::member::COMMANDS_AT_FIRST;
use crate::serve::session::state::SessionState;
use crate::serve::shared::{Admission, Effects, Memory, Report, Rules, Work};
use crate::serve::stores::delayed_jobs::Waiting;
use crate::serve::stores::error_log::Told;
use crate::serve::stores::file_watch::StoreWatch;
use crate::serve::stores::jobs;
use crate::serve::stores::memory_jobs::Chores;
use crate::serve::stores::register_writer::Registrar;
use crate::serve::{Config, ServeError, Shared, Stats, log_some};

/// Threads that call stores which block. A session alone has half of them.
pub(crate) const WORKERS: usize = 16;
/// Free buffers that are kept for reuse.
const BUFFERS_KEEP_BYTES: usize = 64 << 20;
/// Most connections of one session.
const CONNECTIONS_PER_SESSION: u16 = 8;

/// Number of connections from which on their memory is worth returning to the system.
const CROWD: usize = 256;

pub(crate) const LISTENER_TOKENS: u64 = 1 << 40;
pub(crate) const WORKERS_TOKEN: u64 = 2 << 40;
pub(crate) const SIGNALS_TOKEN: u64 = 3 << 40;
pub(crate) const RELOAD_TOKEN: u64 = 4 << 40;
pub(crate) const REGISTER_TOKEN: u64 = 5 << 40;

/// A target.
pub struct Target {
    pub(crate) poll: Poll,
    /// Configuration in force.
    pub(crate) config: Config,
    pub(crate) shared: Shared,
    /// Open connections. Boxed, since the slab never shrinks below its largest number of entries.
    pub(crate) clients: Slab<Box<Client>>,
    /// Largest number of connections since memory was returned to the system.
    most_clients: usize,
    /// Open sessions.
    pub(crate) sides: Slab<SessionState>,
    pub(crate) listening: Listening,
    pub(crate) schedule: Schedule,
    pub(crate) sampling: Sampling,
    pub(crate) background: Background,
    pub(crate) shutdown: Shutdown,
    /// Lines about connections in the log.
    pub(crate) lines: LineRate,
}

/// Listening sockets.
pub(crate) struct Listening {
    pub(crate) listeners: Vec<Listener>,
    /// Time to listen again after an error of accept.
    pub(crate) listen_again: Option<Instant>,
    pub(crate) congestion: CongestionControl,
}

/// Order in which clients have their turns.
#[derive(Default)]
pub(crate) struct Schedule {
    /// Clients with work in this turn; `again` are the unfinished ones of the last turn, which come behind.
    pub(crate) dirty: Vec<usize>,
    pub(crate) again: Vec<usize>,
    /// Clients that the last turn of the loop had no time for: they come first.
    pub(crate) left: Vec<usize>,
    /// Client of the last turn. Turns are short until `shared_until`, because several clients have had one lately.
    pub(crate) last_served: usize,
    pub(crate) shared_until: Instant,
    /// Clients that wait for buffers; `spaced` are the clients that delay their data for pacing.
    pub(crate) paused: Vec<usize>,
    pub(crate) spaced: Vec<usize>,
    pub(crate) debts: PeerDebts,
}

/// Samples of connections, and the arbiters that share a line by them.
pub(crate) struct Sampling {
    /// Arbiter of the outbound (read) direction; `receiving` is that of the inbound (write) direction.
    pub(crate) sharing: Sharing,
    pub(crate) receiving: Sharing,
    /// Joint limit of all senders at a sending device that takes packets one by one.
    pub(crate) gate: Gate,
    /// Verdicts on routes, for their next connections.
    pub(crate) routes: RouteMemory,
    pub(crate) sockets: Option<Recorder<SocketSample>>,
    pub(crate) next_sample: Instant,
    /// Earliest time of the next look at the connections.
    pub(crate) no_sample_before: Instant,
    /// Connections that had moved data at the last look.
    pub(crate) busy: u32,
    /// Time of the next search for silent peers.
    pub(crate) next_roll_call: Instant,
}

/// Threads beside the loop.
pub(crate) struct Background {
    /// Reloader; if set, SIGHUP reloads the configuration instead of ending the target.
    pub(crate) reloader: Option<Reloader>,
    /// Writer of the register of nexuses, if there is a state folder.
    pub(crate) registrar: Option<Registrar>,
    /// Watch of the files of LUNs.
    pub(crate) store_watch: StoreWatch,
}

/// End of the target.
pub(crate) struct Shutdown {
    pub(crate) signals: EndSignals,
    /// Deadlines of the end; `None` while the target serves.
    pub(crate) drain: Option<Drain>,
}

/// Deadlines of the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    /// Time at which idle sessions are closed.
    pub(crate) quiet: Instant,
    /// Time at which all connections are closed.
    pub(crate) last: Instant,
}

impl Target {
    /// Opens the LUNs and listens. From here on SIGINT and SIGTERM end the target in order.
    pub fn start(config: &Config) -> Result<Target, ServeError> {
        let signals = EndSignals::take_over()?;
        // A refusal is ignored: the loop handles a lack of descriptors.
        let _ = raise_open_files();
        let mut luns = Luns::open(&config.luns.specs, config.opening())?;
        let registrar = match &config.luns.state {
            Some(state) => {
                let (register, list) = Register::open(state, &config.iqn)?;
                luns.restore(list);
                replaced_stores::tell_shut_out(&luns);
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
        let congestion = config.congestion.name();
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
            command_window: COMMANDS_AT_FIRST.min(config.window_max()),
            chap: config.chap.clone(),
            wishes: Wishes {
                max_connections: CONNECTIONS_PER_SESSION,
                ..Wishes::default().with_digests(config.digests)
            },
            ..LoginPolicy::default()
        };
        let shared = Shared {
            luns,
            work: Work { workers, chores: Chores::default(), waiting: Waiting::default(), ended: Vec::new() },
            memory: Memory {
                budget: Budget::new(BUFFERS_KEEP_BYTES),
                early: AllEarly::default(),
                commands: AllCommands::default(),
                unread: AllUnread::default(),
                waste: Vec::new(),
            },
            admission: Admission {
                slots: Slots::default(),
                sessions: Sessions::new(config.iqn.clone(), config.initiators.allowed.clone()),
                open_sessions: 0,
                register_version: if registrar.is_some() { 0 } else { u64::MAX },
            },
            rules: Rules {
                policy,
                compat: config.compat,
                weights: config.weights.clone(),
                cold_reset: config.initiators.cold_reset.clone(),
                portals,
            },
            management: Management::default(),
            effects: Effects::default(),
            crowd: Crowd::new(),
            turn: TurnClock::default(),
            is_draining: false,
            report: Report { stats: Stats::default(), told: Told::default(), tracer },
        };
        let mut target = Target {
            poll,
            config: config.clone(),
            shared,
            clients: Slab::new(),
            most_clients: 0,
            sides: Slab::new(),
            listening: Listening { listeners, listen_again: None, congestion: config.congestion.clone() },
            schedule: Schedule::default(),
            sampling: Sampling {
                sharing: Sharing::new(),
                receiving: Sharing::new(),
                gate: Gate::open(),
                routes: RouteMemory::default(),
                sockets,
                next_sample: Instant::FAR_FUTURE,
                no_sample_before: Instant::ZERO,
                busy: 0,
                next_roll_call: Instant::FAR_FUTURE,
            },
            background: Background { reloader: None, registrar, store_watch },
            shutdown: Shutdown { signals, drain: None },
            lines: LineRate::default(),
        };
        target.listen()?;
        Ok(target)
    }

    /// Bound addresses of the listeners.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listening.listeners.iter().map(|listener| listener.socket.local_addr()).collect()
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
            self.shared.work.workers.abandon();
            self.background.reloader.take().into_iter().for_each(Reloader::abandon);
            self.background.registrar.take().into_iter().for_each(Registrar::abandon);
        } else {
            drop(self.shared.work.workers);
        }
        let sockets = self.sampling.sockets.map(Recorder::finish).transpose()?.unwrap_or_default();
        if let Some(tracer) = self.shared.report.tracer.take().and_then(Rc::into_inner) {
            self.shared.report.stats.trace = Some(Trace { sockets, ..tracer.finish()? });
        }
        if unfinished > 0 { Err(ServeError::Unfinished(unfinished)) } else { Ok(self.shared.report.stats) }
    }

    /// Closes a connection, and its session with the last one.
    pub(crate) fn close(&mut self, index: usize, end: &End, now: Instant) {
        // A turn may name a connection more than once.
        self.most_clients = self.most_clients.max(self.clients.len());
        let Some(mut client) = self.clients.try_remove(index) else { return };
        if let (Some(sink), Some(sample)) = (&mut self.sampling.sockets, client.last_sample(now)) {
            sink.record(&sample);
        }
        // Initiators follow the target's own request for a logout by another login.
        let has_left = matches!(end, End::LoggedOut) || matches!(client.link.end, Some(End::LoggedOut));
        // open-iscsi ends a discovery that way.
        let is_discovery = client.place().is_some_and(|(side, _)| self.sides[side].identity.iqn.is_none());
        let is_usual = end.is_reset() && is_discovery;
        if let Some(advice) = client.advice() {
            let text = format_args!("{}: {advice}", client.name());
            log_some(&mut self.lines, ("advice", client.link.peer.ip()), now, text);
        }
        client.leave(&mut self.sides, &mut self.shared, has_left && self.shutdown.drain.is_none());
        if end.is_worth_telling() && !is_usual {
            let text = format_args!("{}: {end}", client.name());
            log_some(&mut self.lines, (end.kind(), client.link.peer.ip()), now, text);
        }
        drop(client);
        if self.most_clients >= CROWD && self.clients.len() < self.most_clients / 8 {
            give_memory_back();
            self.most_clients = self.clients.len();
        }
    }
}
