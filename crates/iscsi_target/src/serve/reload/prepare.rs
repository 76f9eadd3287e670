//! Preparation of a new configuration, on a thread of its own: reads it, opens its LUNs and binds its addresses, so that
//! the loop never waits for a disk or a name server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use block::{Claim, Workers};
use event::Instant;

use crate::lun::{Lun, Served, check_identities, check_reservations};
use crate::serve::Config;
use crate::serve::connection::listener::Listener;
use crate::serve::reload::replaced_stores::{CutOff, Grown, Measured, measure};

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
pub(crate) const ONLY: Claim = Claim { owner: 0, store: 0 };

/// State of reloading while the target serves.
pub(crate) struct Reloader {
    pub(crate) workers: Workers<Task, Option<Result<Prepared, String>>>,
    pub(crate) reload: Arc<dyn Reload>,
    pub(crate) is_reading: bool,
    /// Another signal came while the configuration was being read: the result may be outdated.
    pub(crate) is_stale: bool,
    /// Time of the next check for leaving LUNs that are free.
    pub(crate) next_look: Instant,
}

/// Task of the thread that prepares.
pub(crate) enum Task {
    Prepare(Box<Serving>),
    /// Giving back gigabytes of memory takes a while.
    Drop(Vec<Lun>),
}

/// Current state, for comparison with a new configuration.
pub(crate) struct Serving {
    pub(crate) config: Config,
    pub(crate) luns: BTreeMap<u16, Served>,
}

/// Prepared changes, which the loop can apply.
pub(crate) struct Prepared {
    pub(crate) config: Config,
    pub(crate) added: Vec<Lun>,
    pub(crate) removed: Vec<u16>,
    /// LUNs that have grown, with the new size in blocks.
    pub(crate) grown: Vec<(Grown, u64)>,
    pub(crate) opened: Vec<Listener>,
    /// Addresses in the form of [`Config::listening`].
    pub(crate) closed: Vec<(SocketAddr, bool)>,
    pub(crate) stays: Vec<String>,
}

impl Reloader {
    /// Number of unfinished tasks; finished results are discarded.
    pub(crate) fn pending(&self) -> usize {
        drop(self.workers.results());
        self.workers.pending()
    }

    /// Ends the thread without waiting for its tasks.
    pub(crate) fn abandon(self) {
        self.workers.abandon();
    }

    /// Drops LUNs on the thread: giving back gigabytes of memory takes a while.
    pub(crate) fn drop_later(&self, gone: Vec<Lun>) {
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
pub(crate) fn prepare(serving: Serving, source: &dyn Reload) -> Result<Prepared, String> {
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
    use crate::serve::LunSet;

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
