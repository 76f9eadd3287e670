//! Persistent reservations of a LUN at one time: registrations, and the reservation on them.

use std::cell::OnceCell;
use std::sync::Arc;

use wire::scsi::ReservationType;

use crate::lun::attention::Port;
use crate::lun::persistent::reservation_file::Kept;

/// Persistent reservations at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct PersistentState {
    /// Registrations (port and key) in order of arrival.
    pub(super) registrants: Vec<(Arc<Port>, u64)>,
    pub(super) held: Option<Held>,
    pub(super) generation: u32,
    /// APTPL: registrations and reservation are kept over a restart of the target.
    pub(super) persist: bool,
    /// READ FULL STATUS data up to the longest allocation length, until something changes.
    pub(super) status: OnceCell<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) kind: ReservationType,
    /// Port that made the reservation; one of the holders if all registrants hold it.
    pub(super) holder: Arc<Port>,
}

impl PersistentState {
    /// Port whose registrations a session of `port` uses. Without CHAP an initiator is known by name and ISID alone, so
    /// the session uses the registrations of a user, which remain that user's; of several users, those of the holder or
    /// the first.
    pub(super) fn owner(&self, port: &Arc<Port>) -> Arc<Port> {
        if port.user.is_some() || self.key(port).is_some() {
            return Arc::clone(port);
        }
        let holder = self.held.as_ref().map(|held| &held.holder);
        let mut ports = holder.into_iter().chain(self.registrants.iter().map(|(port, _)| port));
        Arc::clone(ports.find(|other| port.is_namesake(other)).unwrap_or(port))
    }

    /// A registration that was kept without a user becomes that of the first user with its name and ISID.
    /// If that user has a registration already, the kept one is dropped. Returns true if there was one.
    pub(super) fn adopt(&mut self, port: &Arc<Port>) -> bool {
        if !self.registrants.iter().any(|(kept, _)| port.adopts(kept)) {
            return false;
        }
        if self.key(port).is_some() {
            self.registrants.retain(|(kept, _)| !port.adopts(kept));
        }
        let registrants = self.registrants.iter_mut().map(|(kept, _)| kept);
        let holder = self.held.as_mut().map(|held| &mut held.holder);
        registrants.chain(holder).filter(|kept| port.adopts(kept)).for_each(|kept| *kept = Arc::clone(port));
        self.status.take();
        true
    }

    /// Returns true if there is a registration, or a reservation, of a port with the name and ISID of this one.
    pub(super) fn has_namesake(&self, port: &Port) -> bool {
        let holder = self.held.as_ref().map(|held| &held.holder);
        let mut ports = holder.into_iter().chain(self.registrants.iter().map(|(port, _)| port));
        ports.any(|other| port.is_namesake(other))
    }

    pub(super) fn key(&self, port: &Port) -> Option<u64> {
        self.registrants.iter().find(|(other, _)| **other == *port).map(|(_, key)| *key)
    }

    /// State to keep.
    pub(super) fn kept(&self) -> Kept {
        if !self.persist {
            return Kept::default();
        }
        let place = |held: &Held| self.registrants.iter().position(|(port, _)| *port == held.holder);
        Kept {
            registrants: self.registrants.clone(),
            held: self.held.as_ref().and_then(|held| place(held).map(|place| (held.kind, place))),
        }
    }
}
