//! The connections that are watched: found now and then, looked at often.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use analysis::live::{Live, Row};
use anyhow::Context;
use diagnosis::Limiter;
use engine::{BlackHole, Moved, tcp_sample};
use event::{Host, Instant, SocketSample};
use net::diag::{Diag, Found, SocketId};
use net::owner::{self, Process};
use net::{Namespace, TcpInfo, clock, congestion};

use crate::exit::Exit;

/// Polling interval of a connection whose window is in use, if polling stays within its CPU share.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LOOK_SHARE: u32 = 150;
/// The same for a connection at ease; all other connections are polled at least as often.
const EASE_EVERY: Duration = Duration::from_millis(100);
/// Ports at most: the filter that the kernel gets is short.
pub(super) const PORTS_MAX: usize = 16;
/// Connections that are watched, and namespaces that are looked into, at most.
const CONNECTIONS_MAX: usize = 4096;
const NAMESPACES_MAX: usize = 256;
/// Interval of the search for new connections, with its CPU share.
const SEARCH_EVERY: Duration = Duration::from_secs(1);
const SEARCH_SHARE: u32 = 500;

/// Everything that is watched.
pub(super) struct Watch {
    ports: Vec<u16>,
    places: Vec<Place>,
    /// Only the places that there were in the beginning.
    is_fixed: bool,
    /// Namespaces that could not be entered, or gave no answers.
    closed: HashSet<u64>,
    left_out: usize,
    next_search: Instant,
    next_look: Instant,
    /// Processor time that a round of looks takes.
    look_cpu: Duration,
    /// Rows of the last interval, once there has been one.
    rows: Option<Vec<Row>>,
}

/// A network namespace.
struct Place {
    inode: u64,
    diag: Diag,
    watched: Vec<Watched>,
}

/// A connection.
struct Watched {
    id: SocketId,
    found: Found,
    owner: Option<Process>,
    /// The process of the connection has not been looked up.
    is_new: bool,
    live: Live,
    /// The last sample shows that large packets of this end do not get through.
    has_black_hole: bool,
    next_look: Instant,
    is_gone: bool,
}

impl Watch {
    /// For connections with these ports, in one namespace or all that can be entered.
    pub(super) fn open(ports: Vec<u16>, netns: Option<&str>) -> anyhow::Result<Watch> {
        let place = match netns {
            None => Place::here()?,
            Some(netns) => Place::of(netns)?,
        };
        Ok(Watch {
            ports,
            places: vec![place],
            is_fixed: netns.is_some(),
            closed: HashSet::new(),
            left_out: 0,
            next_search: Instant::ZERO,
            next_look: Instant::ZERO,
            look_cpu: Duration::ZERO,
            rows: None,
        })
    }

    /// Finds the connections that there are.
    pub(super) fn search(&mut self, now: Instant) -> anyhow::Result<()> {
        let cpu = clock::process_cpu_ns();
        if !self.is_fixed {
            self.find_places();
        }
        let mut room = CONNECTIONS_MAX;
        self.left_out = 0;
        let mut at = 0;
        while let Some(place) = self.places.get_mut(at) {
            let found = place.diag.find(&self.ports, room);
            if found.is_err() && at > 0 {
                self.give_up(at);
                continue;
            }
            let finding = found.context(
                "the kernel does not list TCP connections (sock_diag); where it is a module: modprobe tcp_diag",
            )?;
            at += 1;
            self.left_out += finding.left_out;
            room -= finding.connections.len();
            place.merge(finding.connections, now, &self.ports);
        }
        self.name_owners();
        self.next_search = now + SEARCH_EVERY.max(since(cpu) * SEARCH_SHARE);
        Ok(())
    }

    /// When to search again.
    pub(super) fn next_search(&self) -> Instant {
        self.next_search
    }

    /// Looks at the connections whose time it is; at all of them before rows are made.
    pub(super) fn look(&mut self, now: Instant, at_all: bool) -> anyhow::Result<()> {
        let cpu = clock::process_cpu_ns();
        let mut at = 0;
        while let Some(place) = self.places.get_mut(at) {
            match place.look(now, at_all, &self.ports) {
                Err(_) if at > 0 => self.give_up(at),
                outcome => {
                    outcome?;
                    at += 1;
                }
            }
        }
        // One that was interrupted, or looked at more than others, changes the pace little.
        self.look_cpu = (self.look_cpu * 7 + since(cpu)) / 8;
        // A wake that came late is made up for.
        let every = (self.look_cpu * LOOK_SHARE).clamp(LOOK_EVERY, EASE_EVERY);
        self.next_look = Instant::max(self.next_look + every, now);
        Ok(())
    }

    /// When to look again.
    pub(super) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Makes rows of the activity since the last call.
    pub(super) fn take(&mut self) {
        let ports = &self.ports;
        let rows = self.places.iter_mut().flat_map(|place| {
            let netns = place.inode;
            place.watched.iter_mut().map(move |watched| watched.row(netns, ports))
        });
        self.rows = Some(rows.collect());
    }

    /// The rows of the last time; none before the first.
    pub(super) fn rows(&self) -> Option<&[Row]> {
        self.rows.as_deref()
    }

    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Connections that are too many to watch.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Namespaces that we may not enter.
    pub(super) fn closed_namespaces(&self) -> usize {
        self.closed.len()
    }

    /// Listeners on the ports.
    pub(super) fn listeners(&mut self) -> anyhow::Result<Vec<String>> {
        let mut listeners = Vec::new();
        for (at, place) in self.places.iter_mut().enumerate() {
            let found = match place.diag.listeners(&self.ports) {
                // The next search gives it up.
                Err(_) if at > 0 => continue,
                found => found.context("cannot list who listens")?,
            };
            listeners.extend(found.iter().map(ToString::to_string));
        }
        Ok(listeners)
    }

    /// Stops polling a namespace that gives no answers; the others continue.
    fn give_up(&mut self, at: usize) {
        let place = self.places.remove(at);
        self.closed.insert(place.inode);
    }

    /// Namespaces come and go with their processes; a namespace held open here stays until no process is in it.
    fn find_places(&mut self) {
        let inhabited = owner::namespaces(NAMESPACES_MAX);
        let (ours, others) = self.places.split_at(1);
        let ours = ours[0].inode;
        let gone = |inode: u64| inode != ours && inhabited.iter().all(|found| found.inode != inode);
        if others.iter().any(|place| gone(place.inode)) {
            self.places.retain(|place| !gone(place.inode));
        }
        self.closed.retain(|inode| !gone(*inode));
        for found in &inhabited {
            let is_known = self.places.iter().any(|place| place.inode == found.inode);
            if is_known || self.closed.contains(&found.inode) {
                continue;
            }
            let opened = owner::namespace(&found.pid.to_string()).and_then(|there| Diag::open_in(&there));
            match opened {
                Ok(diag) => self.places.push(Place { inode: found.inode, diag, watched: Vec::new() }),
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    self.closed.insert(found.inode);
                }
                // The process has ended meanwhile.
                Err(_) => {}
            }
        }
    }

    /// Looks for the processes of the connections that have just been found.
    fn name_owners(&mut self) {
        let all = || self.places.iter().flat_map(|place| &place.watched);
        let is_new = |watched: &&Watched| watched.is_new && watched.found.inode > 0;
        let inodes: Vec<u32> = all().filter(is_new).map(|watched| watched.found.inode).collect();
        if inodes.is_empty() {
            return;
        }
        let owners: HashMap<u32, Process> = owner::of_sockets(&inodes);
        for watched in self.places.iter_mut().flat_map(|place| &mut place.watched) {
            watched.is_new = false;
            if let Some(process) = owners.get(&watched.found.inode) {
                watched.owner = Some(process.clone());
            }
        }
    }
}

impl Place {
    fn here() -> anyhow::Result<Place> {
        let inode =
            Namespace::current().and_then(|here| here.inode()).context("cannot see our own namespace")?;
        let diag = Diag::open().context("cannot ask the kernel for TCP connections (sock_diag)")?;
        Ok(Place { inode, diag, watched: Vec::new() })
    }

    fn of(netns: &str) -> anyhow::Result<Place> {
        let opened = owner::namespace(netns).and_then(|there| {
            let inode = there.inode()?;
            Ok(Place { inode, diag: Diag::open_in(&there)?, watched: Vec::new() })
        });
        opened.map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                anyhow::anyhow!("--netns {netns} is closed to you: {error}; look as root")
            }
            _ => Exit::usage(format!("--netns {netns} is no network namespace: {error}")),
        })
    }

    /// Updates the watched connections: known ones continue, new ones begin, closed ones are removed.
    fn merge(&mut self, found: Vec<Found>, now: Instant, ports: &[u16]) {
        let known: HashMap<SocketId, usize> =
            self.watched.iter().enumerate().map(|(at, watched)| (watched.id, at)).collect();
        let mut is_there = vec![false; self.watched.len()];
        let mut fresh = Vec::new();
        for found in found {
            match known.get(&found.id) {
                Some(at) => {
                    self.watched[*at].found = found;
                    is_there[*at] = true;
                }
                None => fresh.push(Watched::new(found, now, ports)),
            }
        }
        let mut there = is_there.into_iter();
        self.watched.retain(|_| there.next().unwrap_or(true));
        self.watched.extend(fresh);
    }

    fn look(&mut self, now: Instant, at_all: bool, ports: &[u16]) -> anyhow::Result<()> {
        let is_due = |at: &usize| at_all || now >= self.watched[*at].next_look;
        let due: Vec<usize> = (0..self.watched.len()).filter(is_due).collect();
        let ids: Vec<SocketId> = due.iter().map(|at| self.watched[*at].id).collect();
        let watched = &mut self.watched;
        self.diag
            .look(&ids, |place, info| {
                let watched = &mut watched[due[place]];
                match info {
                    Some(info) => watched.add(now, &info, ports),
                    None => watched.is_gone = true,
                }
            })
            .context("cannot ask the kernel for TCP connections (sock_diag)")?;
        self.watched.retain(|watched| !watched.is_gone);
        Ok(())
    }
}

impl Watched {
    fn new(found: Found, now: Instant, ports: &[u16]) -> Watched {
        let live = Live::new(sample(now, &found, &found.info, ports));
        let has_black_hole = BlackHole::of_sent(&found.info).is_some();
        let (owner, is_new, next_look, is_gone) = (None, true, now, false);
        Watched { id: found.id, found, owner, is_new, live, has_black_hole, next_look, is_gone }
    }

    fn add(&mut self, now: Instant, info: &TcpInfo, ports: &[u16]) {
        let paces_itself = congestion::is_paced_by_itself(&self.found.congestion);
        self.live.add(sample(now, &self.found, info, ports), paces_itself);
        self.has_black_hole = BlackHole::of_sent(info).is_some();
        self.next_look = if self.live.is_at_ease() { now + EASE_EVERY } else { now };
    }

    fn row(&mut self, netns: u64, ports: &[u16]) -> Row {
        let found = &self.found;
        let mut doing = self.live.take();
        if self.has_black_hole {
            doing.limiter = Limiter::PathMtu;
        }
        Row {
            netns,
            role: if is_target(found, ports) { "target" } else { "initiator" },
            local: found.local,
            peer: found.remote,
            pid: self.owner.as_ref().map(|process| process.pid),
            process: self.owner.as_ref().map(|process| process.name.clone()),
            uid: found.uid,
            congestion: found.congestion.clone(),
            bbr_bits_per_s: found.bbr.map(|bbr| bbr.bytes_per_s as f64 * 8.0),
            sndbuf_bytes: found.memory.map(|memory| memory.sndbuf_bytes),
            rcvbuf_bytes: found.memory.map(|memory| memory.rcvbuf_bytes),
            doing,
        }
    }
}

/// Processor time since it was `cpu_ns`.
fn since(cpu_ns: u64) -> Duration {
    Duration::from_nanos(clock::process_cpu_ns().saturating_sub(cpu_ns))
}

/// Targets listen, and a connection that was accepted has the port of its listener.
fn is_target(found: &Found, ports: &[u16]) -> bool {
    ports.contains(&found.local.port())
}

fn sample(now: Instant, found: &Found, info: &TcpInfo, ports: &[u16]) -> SocketSample {
    let host = if is_target(found, ports) { Host::Far } else { Host::Near };
    let moved = Moved {
        rx_bytes: info.received_bytes,
        tx_bytes: info.acked_bytes,
        unsent_bytes: 0,
        request_bytes: 0,
    };
    tcp_sample(now, host, 0, info, moved)
}
