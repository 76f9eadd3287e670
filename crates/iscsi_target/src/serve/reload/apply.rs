//! Application of a new configuration while the target serves: as a whole, in steps that cannot fail, or not at all.
//! Sessions stay. A removed LUN leaves when nothing is under way on it (`lun/inventory.rs`).

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use block::{Step, Workers};
use event::Instant;
use net::{Interest, Signal, tcp};

use crate::lun::{Lun, Nexus, Stranger};
use crate::serve::connection::listener::portals;
use crate::serve::connection::portals::Portals;
use crate::serve::reload::prepare::{ONLY, Prepared, Reload, Reloaded, Reloader, Serving, Task, prepare};
use crate::serve::reload::replaced_stores::{self, CutOff, NOT_CONNECTED};
use crate::serve::service::target::{RELOAD_TOKEN, Target};
use crate::serve::session::member::COMMANDS_AT_FIRST;
use crate::serve::session::state::SessionState;
use crate::serve::{Config, LunSet, ServeError};

/// Interval of checks for leaving LUNs that are free.
const LOOK_EVERY: Duration = Duration::from_millis(20);

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
        self.background.reloader =
            Some(Reloader { workers, reload, is_reading: false, is_stale: false, next_look });
        Ok(())
    }

    /// Handles pending signals.
    pub(crate) fn signalled(&mut self, now: Instant) {
        while let Some(signal) = self.shutdown.signals.take() {
            match (signal, &mut self.background.reloader) {
                // The target is ending: the configuration does not matter any more.
                (Signal::Hangup, Some(_)) if self.shutdown.drain.is_some() => {}
                (Signal::Hangup, Some(reloader)) if reloader.is_reading => reloader.is_stale = true,
                (Signal::Hangup, Some(_)) => self.begin_reload(),
                _ => self.begin_drain(now),
            }
        }
    }

    fn begin_reload(&mut self) {
        let Some(reloader) = &mut self.background.reloader else { return };
        let serving = Serving { config: self.config.clone(), luns: self.shared.luns.served() };
        reloader.workers.submit(ONLY, 0, Task::Prepare(Box::new(serving)));
        (reloader.is_reading, reloader.is_stale) = (true, false);
    }

    /// Applies the configuration that the thread has prepared.
    pub(crate) fn finish_reload(&mut self, now: Instant) -> Result<(), ServeError> {
        let results = self.background.reloader.as_ref().map(|reloader| reloader.workers.results());
        for prepared in results.into_iter().flatten().flatten() {
            if self.shutdown.drain.is_some() {
                return Ok(());
            }
            let is_stale = self.background.reloader.as_ref().is_some_and(|reloader| reloader.is_stale);
            let outcome = match prepared {
                prepared if is_stale => {
                    // The LUNs of the outdated configuration are closed before they are opened again.
                    if let (Ok(prepared), Some(reloader)) = (prepared, &self.background.reloader) {
                        reloader.drop_later(prepared.added);
                    }
                    self.begin_reload();
                    continue;
                }
                Ok(prepared) => match self.cut_off(&prepared.added, &prepared.config.luns) {
                    Ok(cut_off) => Ok(self.carry_out(prepared, cut_off, now)?),
                    Err(error) => {
                        if let Some(reloader) = &self.background.reloader {
                            reloader.drop_later(prepared.added);
                        }
                        Err(error)
                    }
                },
                Err(error) => Err(error),
            };
            if let Some(reloader) = &mut self.background.reloader {
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
        for listener in &self.listening.listeners {
            // While accepting pauses for want of descriptors, the listeners are not in the poll set.
            let _ = self.poll.remove(listener.socket.as_fd());
        }
        for address in closed {
            if let Some(place) =
                self.listening.listeners.iter().position(|it| (it.wanted, it.is_v6_only) == address)
            {
                self.listening.listeners.remove(place);
            }
        }
        if config.congestion != self.listening.congestion {
            for listener in &self.listening.listeners {
                tcp::accept_with(&listener.socket, config.congestion.name())?;
            }
        }
        self.listening.listeners.extend(opened);
        self.listen()?;
        self.shared.rules.portals =
            Portals::of(&self.config.iqn, portals(&self.listening.listeners)?, &config.advertise);
        self.shared.rules.policy.chap = config.chap.clone();
        self.shared.rules.policy.command_window = COMMANDS_AT_FIRST.min(config.window_max());
        self.shared.rules.policy.wishes =
            self.shared.rules.policy.wishes.clone().with_digests(config.digests);
        self.shared.admission.sessions.set_allowed(config.initiators.allowed.clone());
        self.listening.congestion.clone_from(&config.congestion);
        self.shared.rules.compat = config.compat;
        self.shared.rules.weights.clone_from(&config.weights);
        self.shared.rules.cold_reset.clone_from(&config.initiators.cold_reset);
        let numbers = added.iter().map(Lun::number).collect();
        let gone = self.shared.luns.change(&removed, added);
        self.background.store_watch.set(self.shared.luns.watched());
        grown.iter().for_each(|(grown, blocks)| self.shared.luns.grow(grown.lun, *blocks));
        let grown = grown.into_iter().map(|(grown, _)| grown).collect();
        self.config = Config {
            iqn: self.config.iqn.clone(),
            trace: self.config.trace.clone(),
            sampling: self.config.sampling,
            luns: LunSet { state: self.config.luns.state.clone(), ..config.luns },
            ..config
        };
        if let Some(reloader) = &mut self.background.reloader {
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
                return Err(replaced_stores::refusal(lun, &sessions, away));
            }
            all.push(CutOff { lun: lun.number(), sessions });
        }
        Ok(all)
    }

    /// Names of sessions, and how many of them are not connected.
    fn names_of(&self, strangers: &[Stranger]) -> (Vec<String>, usize) {
        let sides: HashMap<Nexus, &SessionState> =
            self.sides.iter().map(|(_, side)| (side.nexus, side)).collect();
        let peer = |stranger: &Stranger| {
            let member = sides.get(&stranger.session?)?.members.first()?;
            Some(self.clients.get(member.client)?.link.peer.to_string())
        };
        let peers: Vec<Option<String>> = strangers.iter().map(peer).collect();
        let away = peers.iter().filter(|peer| peer.is_none()).count();
        let name = |(stranger, peer): (&Stranger, Option<String>)| {
            replaced_stores::name(&stranger.port, &peer.unwrap_or_else(|| NOT_CONNECTED.to_owned()))
        };
        (strangers.iter().zip(peers).map(name).collect(), away)
    }

    /// Lets go of LUNs that leave and on which nothing is under way.
    pub(crate) fn release_luns(&mut self, now: Instant) {
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
            self.background.store_watch.set(self.shared.luns.watched());
        }
        let is_done = self.shared.luns.leaving().is_empty();
        if let Some(reloader) = &mut self.background.reloader {
            reloader.drop_later(gone);
            reloader.next_look = if is_done { Instant::FAR_FUTURE } else { now + LOOK_EVERY };
        }
    }

    /// Time of the next check of leaving LUNs.
    pub(crate) fn next_release(&self) -> Instant {
        self.background.reloader.as_ref().map_or(Instant::FAR_FUTURE, |reloader| reloader.next_look)
    }
}
