//! A new configuration while the target serves.
//!
//! A separate thread reads and prepares the configuration, opens LUNs and binds addresses, so that the loop never waits
//! for a disk or a name server. The loop then applies it as a whole, in steps that cannot fail, or not at all. Sessions
//! stay. A removed LUN leaves when nothing is under way on it (`lun/inventory.rs`).

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use block::{Claim, Step, Workers};
use event::Instant;
use net::{Interest, Signal, clock, tcp};
use wire::scsi::Lun as Address;

use super::jobs::Job;
use super::listener::{Listener, portals};
use super::portals::Portals;
use super::replacing::{CutOff, Grown, Measured, NOT_CONNECTED, measure};
use super::side::{COMMANDS_AT_FIRST, Side};
use super::{Config, LunSet, RELOAD_TOKEN, ServeError, Target, log_some, replacing};
use crate::backend::Backend;
use crate::lun::{Bereft, Lun, Nexus, Served, Stranger, check_identities, check_reservations};

/// Source of a new configuration, and receiver of the outcome.
pub trait Reload: Send + Sync {
    /// Reads the configuration. Called on another thread, where blocking is permitted.
    fn read(&self) -> Result<Config, String>;

    /// Reports the applied changes, or the reason for which nothing was changed. Called by the loop.
    fn tell(&self, outcome: Result<&Reloaded, &str>);
}

/// Changes by a new configuration. A replaced LUN is both removed and added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reloaded {
    /// All LUNs.
    pub luns: Vec<u16>,
    /// New LUNs.
    pub added: Vec<u16>,
    /// LUNs that are no longer served.
    pub removed: Vec<u16>,
    /// LUNs that have grown.
    pub grown: Vec<Grown>,
    /// New LUNs that are closed to sessions which know other stores under their numbers.
    pub cut_off: Vec<CutOff>,
    /// Addresses on which the target listens now.
    pub addresses: Vec<SocketAddr>,
    /// Changes that need a restart of the target, in sentences.
    pub stays: Vec<String>,
}

/// Claim of all tasks: the thread executes one at a time.
const ONLY: Claim = Claim { owner: 0, store: 0 };

/// Interval of checks for leaving LUNs that are free.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// State of reloading while the target serves.
pub(super) struct Reloader {
    workers: Workers<Task, Option<Result<Prepared, String>>>,
    reload: Arc<dyn Reload>,
    is_reading: bool,
    /// Another signal came while the configuration was being read: the result may be outdated.
    is_stale: bool,
    /// Time of the next check for leaving LUNs that are free.
    pub(super) next_look: Instant,
}

enum Task {
    Prepare(Box<Serving>),
    /// Giving back gigabytes of memory takes a while.
    Drop(Vec<Lun>),
}

/// Current state, for comparison with a new configuration.
struct Serving {
    config: Config,
    luns: BTreeMap<u16, Served>,
}

/// Prepared changes, which the loop can apply.
struct Prepared {
    config: Config,
    added: Vec<Lun>,
    removed: Vec<u16>,
    /// LUNs that have grown, with the new size in blocks.
    grown: Vec<(Grown, u64)>,
    opened: Vec<Listener>,
    /// Addresses in the form of [`Config::listening`].
    closed: Vec<(SocketAddr, bool)>,
    stays: Vec<String>,
}

impl Reloader {
    /// Number of unfinished tasks; finished results are discarded.
    pub(super) fn pending(&self) -> usize {
        drop(self.workers.results());
        self.workers.pending()
    }

    /// Ends the thread without waiting for its tasks.
    pub(super) fn abandon(self) {
        self.workers.abandon();
    }

    fn drop_later(&self, gone: Vec<Lun>) {
        if !gone.is_empty() {
            self.workers.submit(ONLY, 0, Task::Drop(gone));
        }
    }
}

impl AsFd for Reloader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.workers.as_fd()
    }
}

impl Target {
    /// Makes SIGHUP reload the configuration instead of ending the target.
    pub fn reload_with(&mut self, reload: Arc<dyn Reload>) -> io::Result<()> {
        let source = Arc::clone(&reload);
        let work = move |task| match task {
            Task::Prepare(serving) => Step::Done(Some(prepare(*serving, &*source))),
            Task::Drop(luns) => {
                drop(luns);
                Step::Done(None)
            }
        };
        let workers = Workers::start(1, work)?;
        self.poll.add(workers.as_fd(), RELOAD_TOKEN, Interest::READ)?;
        let next_look = Instant::FAR_FUTURE;
        self.reloader = Some(Reloader { workers, reload, is_reading: false, is_stale: false, next_look });
        Ok(())
    }

    /// Handles pending signals.
    pub(super) fn signalled(&mut self, now: Instant) {
        while let Some(signal) = self.signals.take() {
            match (signal, &mut self.reloader) {
                // The target is ending: the configuration does not matter any more.
                (Signal::Hangup, Some(_)) if self.drain.is_some() => {}
                (Signal::Hangup, Some(reloader)) if reloader.is_reading => reloader.is_stale = true,
                (Signal::Hangup, Some(_)) => self.begin_reload(),
                _ => self.begin_drain(now),
            }
        }
    }

    fn begin_reload(&mut self) {
        let Some(reloader) = &mut self.reloader else { return };
        let serving = Serving { config: self.config.clone(), luns: self.shared.luns.served() };
        reloader.workers.submit(ONLY, 0, Task::Prepare(Box::new(serving)));
        (reloader.is_reading, reloader.is_stale) = (true, false);
    }

    /// Applies the configuration that the thread has prepared.
    pub(super) fn finish_reload(&mut self, now: Instant) -> Result<(), ServeError> {
        let results = self.reloader.as_ref().map(|reloader| reloader.workers.results());
        for prepared in results.into_iter().flatten().flatten() {
            if self.drain.is_some() {
                return Ok(());
            }
            let is_stale = self.reloader.as_ref().is_some_and(|reloader| reloader.is_stale);
            let outcome = match prepared {
                prepared if is_stale => {
                    // The LUNs of the outdated configuration are closed before they are opened again.
                    if let (Ok(prepared), Some(reloader)) = (prepared, &self.reloader) {
                        reloader.drop_later(prepared.added);
                    }
                    self.begin_reload();
                    continue;
                }
                Ok(prepared) => match self.cut_off(&prepared.added, &prepared.config.luns) {
                    Ok(cut_off) => Ok(self.carry_out(prepared, cut_off, now)?),
                    Err(error) => {
                        if let Some(reloader) = &self.reloader {
                            reloader.drop_later(prepared.added);
                        }
                        Err(error)
                    }
                },
                Err(error) => Err(error),
            };
            if let Some(reloader) = &mut self.reloader {
                reloader.is_reading = false;
                reloader.reload.tell(outcome.as_ref().map_err(String::as_str));
            }
        }
        Ok(())
    }

    fn carry_out(
        &mut self,
        prepared: Prepared,
        cut_off: Vec<CutOff>,
        now: Instant,
    ) -> Result<Reloaded, ServeError> {
        let Prepared { config, added, removed, grown, opened, closed, stays } = prepared;
        for listener in &self.listeners {
            // While accepting pauses for want of descriptors, the listeners are not in the poll set.
            let _ = self.poll.remove(listener.socket.as_fd());
        }
        for address in closed {
            if let Some(place) = self.listeners.iter().position(|it| (it.wanted, it.is_v6_only) == address) {
                self.listeners.remove(place);
            }
        }
        if config.congestion != self.congestion {
            for listener in &self.listeners {
                tcp::accept_with(&listener.socket, config.congestion.name())?;
            }
        }
        self.listeners.extend(opened);
        self.listen()?;
        self.shared.portals = Portals::of(&self.config.iqn, portals(&self.listeners)?, &config.advertise);
        self.shared.policy.chap = config.chap.clone();
        self.shared.policy.command_window = COMMANDS_AT_FIRST.min(config.window_max());
        self.shared.policy.wishes = self.shared.policy.wishes.clone().with_digests(config.digests);
        self.shared.sessions.set_allowed(config.initiators.allowed.clone());
        self.congestion.clone_from(&config.congestion);
        self.shared.compat = config.compat;
        self.shared.weights.clone_from(&config.weights);
        self.shared.cold_reset.clone_from(&config.initiators.cold_reset);
        let numbers = added.iter().map(Lun::number).collect();
        let gone = self.shared.luns.change(&removed, added);
        self.store_watch.set(self.shared.luns.watched());
        grown.iter().for_each(|(grown, blocks)| self.shared.luns.grow(grown.lun, *blocks));
        let grown = grown.into_iter().map(|(grown, _)| grown).collect();
        self.config = Config {
            iqn: self.config.iqn.clone(),
            trace: self.config.trace.clone(),
            sampling: self.config.sampling,
            luns: LunSet { state: self.config.luns.state.clone(), ..config.luns },
            ..config
        };
        if let Some(reloader) = &mut self.reloader {
            reloader.drop_later(gone);
            reloader.next_look = now;
        }
        let luns = self.shared.luns.specs().into_keys().collect();
        Ok(Reloaded { luns, added: numbers, removed, grown, cut_off, addresses: self.addresses()?, stays })
    }

    /// The sessions that the new LUNs are closed to, because they know other stores under these numbers.
    ///
    /// # Errors
    /// There are such, and their LUN may not be replaced.
    fn cut_off(&self, added: &[Lun], wanted: &LunSet) -> Result<Vec<CutOff>, String> {
        let mut all = Vec::new();
        for lun in added {
            let strangers = self.shared.luns.strangers_to(lun);
            if strangers.is_empty() {
                continue;
            }
            let (sessions, away) = self.names_of(&strangers);
            if !wanted.replaceable.contains(&lun.number()) {
                return Err(replacing::refusal(lun, &sessions, away));
            }
            all.push(CutOff { lun: lun.number(), sessions });
        }
        Ok(all)
    }

    /// Names of sessions, and how many of them are not connected.
    fn names_of(&self, strangers: &[Stranger]) -> (Vec<String>, usize) {
        let sides: HashMap<Nexus, &Side> = self.sides.iter().map(|(_, side)| (side.nexus, side)).collect();
        let peer = |stranger: &Stranger| {
            let member = sides.get(&stranger.session?)?.members.first()?;
            Some(self.clients.get(member.client)?.link.peer.to_string())
        };
        let peers: Vec<Option<String>> = strangers.iter().map(peer).collect();
        let away = peers.iter().filter(|peer| peer.is_none()).count();
        let name = |(stranger, peer): (&Stranger, Option<String>)| {
            replacing::name(&stranger.port, &peer.unwrap_or_else(|| NOT_CONNECTED.to_owned()))
        };
        (strangers.iter().zip(peers).map(name).collect(), away)
    }

    /// Starts the writes of adopted registrations, and of the register if it has changed or could not be written.
    /// Returns the time to look again.
    pub(super) fn keep_sessions(&mut self, now: Instant) -> Instant {
        self.tell_bereft(now);
        for (number, save) in self.shared.luns.take_adoptions() {
            let backend = self.shared.luns.lun(Address::from_number(number)).map(Lun::backend);
            // No other LUN keeps anything.
            let Some(Backend::Blocking(store)) = backend else { continue };
            let job = Job::keep(Arc::clone(store), number, save);
            self.shared.workers.submit(job.claim(), job.cost_bytes(), job);
        }
        let Some(registrar) = &mut self.registrar else { return Instant::FAR_FUTURE };
        let luns = &mut self.shared.luns;
        if (luns.has_news() || registrar.is_due(now)) && registrar.pending() == 0 {
            registrar.save(luns.take_nexuses(), now);
        }
        if registrar.is_late(now) {
            self.shared.register_version = u64::MAX;
        }
        registrar.next_look(now)
    }

    /// Logs the sessions that have no part in the registrations of their initiator's former user.
    fn tell_bereft(&mut self, now: Instant) {
        for Bereft { nexus, lun, user } in self.shared.luns.take_bereft() {
            let side = self.sides.iter().map(|(_, side)| side).find(|side| side.nexus == nexus);
            let member = side.and_then(|side| side.members.first());
            let Some(client) = member.and_then(|member| self.clients.get(member.client)) else { continue };
            let name = client.name();
            let text = format_args!(
                "{name}: LUN {lun} has a registration of CHAP user {user} for this initiator name and ISID, in which \
                 another user has no part; to use it log in as {user}, to end it send PREEMPT or CLEAR from a registered \
                 session"
            );
            log_some(&mut self.lines, ("registration of another user", client.link.peer.ip()), now, text);
        }
    }

    /// Completes a write of the register. The sessions are served whether it has succeeded or not.
    pub(super) fn finish_register(&mut self, now: Instant) {
        if let Some(version) = self.registrar.as_mut().and_then(|registrar| registrar.finish(now)) {
            self.shared.register_version = version;
        }
    }

    /// Starts a last write of the register at the end, even if the retry of a failed one is not due yet;
    /// [`Target::wait_for_calls`] waits for it.
    pub(super) fn keep_sessions_at_last(&mut self) {
        let luns = &mut self.shared.luns;
        if let Some(registrar) = &mut self.registrar
            && (luns.has_news() || registrar.is_behind())
        {
            registrar.save(luns.take_nexuses(), clock::now());
        }
    }

    /// Lets go of LUNs that leave and on which nothing is under way.
    pub(super) fn release_luns(&mut self, now: Instant) {
        let mut gone = Vec::new();
        for number in self.shared.luns.leaving() {
            let is_used = self.shared.luns.is_keeping(number)
                || self.sides.iter().any(|(_, side)| side.uses(number))
                || self.clients.iter().any(|(_, client)| client.sends_from(number));
            if !is_used {
                gone.extend(self.shared.luns.release(number));
            }
        }
        if !gone.is_empty() {
            self.store_watch.set(self.shared.luns.watched());
        }
        let is_done = self.shared.luns.leaving().is_empty();
        if let Some(reloader) = &mut self.reloader {
            reloader.drop_later(gone);
            reloader.next_look = if is_done { Instant::FAR_FUTURE } else { now + LOOK_EVERY };
        }
    }

    /// Time of the next check of leaving LUNs.
    pub(super) fn next_release(&self) -> Instant {
        self.reloader.as_ref().map_or(Instant::FAR_FUTURE, |reloader| reloader.next_look)
    }
}

/// Settings of the new configuration that need a restart, in sentences.
fn staying(new: &Config, old: &Config) -> Vec<String> {
    let mut stays = Vec::new();
    if new.iqn != old.iqn {
        stays.push(format!("the name stays {} until the target is started again", old.iqn));
    }
    if new.luns.state != old.luns.state {
        stays.push("the state folder stays as it is until the target is started again".to_owned());
    }
    if new.trace != old.trace {
        stays.push("the trace stays as it is until the target is started again".to_owned());
    } else if new.trace.is_some() && new.sampling != old.sampling {
        let (layers, pdus) = (old.sampling.layers, old.sampling.pdus);
        stays.push(format!(
            "which requests are recorded (one in {layers}, PDUs of one in {pdus}) stays as it is until the target is started again"
        ));
    }
    stays
}

/// Reads the configuration, and opens its new LUNs and listeners.
fn prepare(serving: Serving, source: &dyn Reload) -> Result<Prepared, String> {
    let Serving { config: old, luns } = serving;
    let config = source.read()?;
    let mut stays = staying(&config, &old);
    let specs = &config.luns.specs;
    let (staying_luns, leaving): (BTreeMap<_, _>, BTreeMap<_, _>) =
        luns.iter().partition(|(number, served)| specs.get(number) == Some(&served.spec));
    let fresh = specs.iter().filter(|(number, _)| !staying_luns.contains_key(number));
    let added = fresh.clone().map(|(number, spec)| Lun::open(spec, *number, old.opening()));
    let added = added.collect::<Result<Vec<Lun>, _>>().map_err(|error| error.to_string())?;
    let known = staying_luns.iter().map(|(number, served)| (**number, &served.spec, &served.identity));
    let known = known.chain(added.iter().map(|lun| (lun.number(), lun.spec(), lun.identity())));
    check_identities(known).map_err(|error| error.to_string())?;
    let Measured { grown, failed } =
        measure(staying_luns.iter().map(|(number, served)| (**number, *served)))?;
    stays.extend(failed);
    let removed = leaving.into_keys().copied().collect();
    // A leaving LUN may still write its reservations after a successor has read them.
    let reserving = luns.iter().map(|(number, served)| (number, &served.spec)).chain(fresh);
    check_reservations(reserving, old.opening().state).map_err(|error| error.to_string())?;
    let mut closed: Vec<_> = old.listening().collect();
    let mut opened = Vec::new();
    let congestion = config.congestion.name();
    for wanted in config.listening() {
        match closed.iter().position(|known| *known == wanted) {
            Some(place) => drop(closed.swap_remove(place)),
            None => opened.push(Listener::open(wanted, congestion).map_err(|error| error.to_string())?),
        }
    }
    Ok(Prepared { config, added, removed, grown, opened, closed, stays })
}

#[cfg(test)]
mod tests {
    use engine::trace::Sampling;

    use super::*;

    #[test]
    fn what_is_not_carried_out_is_said() {
        let old = Config {
            listen: Vec::new(),
            advertise: Vec::new(),
            iqn: "iqn.a".to_owned(),
            luns: LunSet::default(),
            chap: None,
            initiators: crate::serve::InitiatorRights::default(),
            digests: &[],
            congestion: engine::CongestionControl::Host,
            policy: control::Choice::default(),
            weights: BTreeMap::new(),
            pacing: engine::Pacing::Follow,
            compat: crate::Compat::default(),
            window: None,
            trace: Some("/tmp/a".into()),
            sampling: Sampling::default(),
        };
        let stays = |change: &dyn Fn(&mut Config)| {
            let mut new = old.clone();
            change(&mut new);
            staying(&new, &old)
        };
        assert_eq!(stays(&|_| ()), Vec::<String>::new());
        assert!(stays(&|new| new.luns.state = Some("/x".into()))[0].starts_with("the state folder stays"));
        let name = stays(&|new| new.iqn = "iqn.b".to_owned());
        assert_eq!(name, ["the name stays iqn.a until the target is started again"]);
        assert!(stays(&|new| new.trace = None)[0].starts_with("the trace stays as it is"));
        let rare = stays(&|new| new.sampling = Sampling { layers: 16, ..new.sampling });
        assert!(
            rare[0].starts_with("which requests are recorded (one in 1, PDUs of one in 256) stays"),
            "{rare:?}"
        );
        let untraced = Config { trace: None, ..old.clone() };
        let new = Config { sampling: Sampling { layers: 16, pdus: 0 }, ..untraced.clone() };
        assert_eq!(staying(&new, &untraced), Vec::<String>::new());
    }
}
