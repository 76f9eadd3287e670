//! Reservations of a LUN: RESERVE and RELEASE (SPC-2 section 5.5.1) and persistent reservations (SPC-4 section 5.12).
//!
//! Persistent registrations belong to an initiator port, so they outlive its sessions. The last registration decides
//! about persistence over a restart of the target (APTPL, see `persistent/`). Changes return unit attentions for ports.
//!
//! A change that is to be kept comes into force when it is on stable storage, and is dropped if it cannot be written.
//! Later changes build on a pending one, and fail with it.

mod state;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use wire::scsi::{
    Registrant, ReservationType, ReserveKeys, ReserveOut, Sense, emit_full_status, emit_reservation,
};

use super::attention::{Attention, Nexus, Port};
use super::error::ReserveError;
use super::persistent::reservation_file::{Kept, Version};
use state::{Held, PersistentState};

/// Access that a command needs to a LUN (SPC-4 table 66, SBC-4 table 13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// None: the command is executed under any reservation, such as INQUIRY.
    Nothing,
    /// Executed under any persistent reservation, refused under a RESERVE of another session.
    Presence,
    /// Reads the medium.
    Read,
    /// Changes the medium or the parameters of the LUN.
    Write,
    /// RESERVE, which conflicts with registrations.
    Reserve,
    /// RELEASE, which succeeds without effect for a session that holds no reservation.
    Release,
    /// PERSISTENT RESERVE, which conflicts with RESERVE.
    Persistent,
}

/// Parameters of a PERSISTENT RESERVE OUT command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Service action.
    pub action: ReserveOut,
    /// Scope and type of the reservation, for actions that make or end one; sense data if they are invalid.
    pub kind: Result<ReservationType, Sense>,
    /// RESERVATION KEY: key of the sender.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY: new key, or key to preempt.
    pub action_key: u64,
    /// APTPL bit: persistence of reservations over a restart of the target; `None` for actions without the bit.
    pub persist: Option<bool>,
}

/// Unit attention for the sessions of a port.
pub(super) type Notice = (Arc<Port>, Attention);

/// Most registrations of a LUN; more are refused.
const REGISTRATIONS_MAX: usize = 1024;
/// Most changes on their way to stable storage: each holds all registrations, and a disk may take its time.
const PENDING_MAX: usize = 32;

/// The reservations of one LUN.
#[derive(Debug, Default)]
pub struct Reservations {
    /// Ports of the open sessions.
    ports: BTreeMap<Nexus, Arc<Port>>,
    /// Session that holds a RESERVE.
    reserved: Option<Nexus>,
    /// Persistent state in force.
    state: PersistentState,
    /// Changes on their way to stable storage, the oldest first.
    pending: VecDeque<Pending>,
    /// Version of the last change that was to be kept.
    version: Version,
}

/// A change that is not in force yet.
#[derive(Debug)]
struct Pending {
    version: Version,
    state: PersistentState,
    change: Change,
}

/// A change of persistent reservations.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// Session that made the change.
    pub(super) nexus: Nexus,
    /// Unit attentions to raise.
    pub(super) notices: Vec<Notice>,
}

impl Reservations {
    /// Restores kept state. The generation is not kept: it restarts at 0 (SPC-4 5.12.11).
    pub(super) fn restore(kept: Kept) -> Reservations {
        let registrants = kept.registrants;
        let held = kept.held.map(|(kind, holder)| Held { kind, holder: Arc::clone(&registrants[holder].0) });
        let persist = !registrants.is_empty();
        let state = PersistentState { persist, registrants, held, ..PersistentState::default() };
        Reservations { state, ..Reservations::default() }
    }

    /// Returns true if registrations and reservation are kept over a restart of the target (APTPL).
    pub fn persist(&self) -> bool {
        self.state.persist
    }

    /// A session begins. Returns the state to keep if it has adopted a registration; the adoption is in force already,
    /// so that the session is not locked out by its own reservation meanwhile.
    pub(super) fn begin(
        &mut self,
        nexus: Nexus,
        port: &Arc<Port>,
        can_keep: bool,
    ) -> Option<(Version, Kept)> {
        // Most ports have no registrations, and a login looks for them at every LUN.
        if !self.states().any(|state| state.has_namesake(port)) {
            self.ports.insert(nexus, Arc::clone(port));
            return None;
        }
        self.ports.insert(nexus, self.newest().owner(port));
        let pending = self.pending.iter_mut().map(|pending| &mut pending.state);
        let states = [&mut self.state].into_iter().chain(pending);
        let adopted = states.filter_map(|state| state.adopt(port).then_some(state.persist)).last();
        if !can_keep || adopted != Some(true) {
            return None;
        }
        let newest = self.newest().clone();
        Some(self.keep(newest, Change { nexus, notices: Vec::new() }))
    }

    /// User of a registration with this name and ISID that the port has no part in.
    pub(super) fn other_user(&self, port: &Port) -> Option<&str> {
        port.user.as_ref()?;
        let state = self.newest();
        let mut others =
            state.registrants.iter().map(|(other, _)| other).filter(|other| port.is_namesake(other));
        others.find_map(|other| other.user.as_deref()).filter(|_| state.key(port).is_none())
    }

    /// The state in force, and those on their way.
    fn states(&self) -> impl Iterator<Item = &PersistentState> {
        [&self.state].into_iter().chain(self.pending.iter().map(|pending| &pending.state))
    }

    /// State after the last change, in force or not.
    fn newest(&self) -> &PersistentState {
        self.pending.back().map_or(&self.state, |pending| &pending.state)
    }

    /// Queues a state that is to be kept.
    fn keep(&mut self, state: PersistentState, change: Change) -> (Version, Kept) {
        self.version.number += 1;
        let (version, kept) = (self.version, state.kept());
        self.pending.push_back(Pending { version, state, change });
        (version, kept)
    }

    /// Returns true while a change is on its way to stable storage.
    pub(super) fn is_keeping(&self) -> bool {
        !self.pending.is_empty()
    }

    /// A RESERVE ends with its session.
    pub(super) fn end(&mut self, nexus: Nexus) {
        self.ports.remove(&nexus);
        self.release(nexus);
    }

    /// A RESERVE ends with a reset; persistent reservations do not.
    pub(super) fn reset(&mut self) {
        self.reserved = None;
    }

    /// The open sessions of a port.
    pub(super) fn sessions_of(&self, port: &Port) -> impl Iterator<Item = Nexus> {
        self.ports.iter().filter(move |(_, other)| ***other == *port).map(|(&nexus, _)| nexus)
    }

    /// Returns true if a reservation forbids `nexus` a command with this need.
    pub fn conflict(&self, nexus: Nexus, need: Need) -> bool {
        if let Some(holder) = self.reserved {
            match need {
                Need::Nothing | Need::Release => return false,
                Need::Persistent => return true,
                _ if holder != nexus => return true,
                _ => {}
            }
        }
        match need {
            Need::Reserve | Need::Release => !self.state.registrants.is_empty() || !self.pending.is_empty(),
            Need::Read | Need::Write => self.state.held.as_ref().is_some_and(|held| {
                let port = self.port(nexus);
                let may = *held.holder == *port
                    || held.kind.admits_registrants() && self.key(&port).is_some()
                    || held.kind.allows_reads() && need == Need::Read;
                !may
            }),
            Need::Nothing | Need::Presence | Need::Persistent => false,
        }
    }

    /// Grants RESERVE; the caller has checked for conflicts.
    pub fn reserve(&mut self, nexus: Nexus) {
        self.reserved = Some(nexus);
    }

    /// Executes RELEASE: ends the RESERVE of `nexus`, and no other.
    pub fn release(&mut self, nexus: Nexus) {
        self.reserved = self.reserved.filter(|&holder| holder != nexus);
    }

    /// READ KEYS data.
    pub fn keys(&self) -> Vec<u8> {
        let keys = self.state.registrants.iter().map(|(_, key)| *key).collect();
        ReserveKeys { generation: self.state.generation, keys }.emit()
    }

    /// READ RESERVATION data.
    pub fn reservation(&self) -> Vec<u8> {
        let held = self.state.held.as_ref().map(|held| {
            let key = if held.kind.is_held_by_all() { None } else { self.key(&held.holder) };
            (key.unwrap_or(0), held.kind)
        });
        emit_reservation(self.state.generation, held)
    }

    /// The first `most_bytes` of READ FULL STATUS data; all registrations are for the port `relative_port`.
    pub fn full_status(&self, relative_port: u16, most_bytes: u16) -> Vec<u8> {
        let registrants = self.state.registrants.iter().map(|(port, key)| {
            // Every registrant holds a reservation of an "all registrants" type.
            let is_holder = |held: &&Held| held.kind.is_held_by_all() || held.holder == *port;
            Registrant {
                key: *key,
                holds: self.state.held.as_ref().filter(is_holder).map(|held| held.kind),
                relative_port,
                name: &port.name,
                isid: port.isid,
            }
        });
        let emit = || emit_full_status(self.state.generation, registrants, u16::MAX.into());
        let status = self.state.status.get_or_init(emit);
        status[..status.len().min(most_bytes.into())].to_vec()
    }

    /// Executes PERSISTENT RESERVE OUT; `can_keep` is true if the LUN has a file for reservations. Returns the state
    /// that must be kept before the change is in force; `None` if the change is in force at once.
    pub(super) fn out(
        &mut self,
        nexus: Nexus,
        request: Request,
        can_keep: bool,
    ) -> Result<(Change, Option<(Version, Kept)>), ReserveError> {
        if self.pending.len() >= PENDING_MAX {
            return Err(ReserveError::Full);
        }
        let newest = self.newest().clone();
        let (was_kept, generation) = (newest.persist, newest.generation);
        let in_force = std::mem::replace(&mut self.state, newest);
        let result = self.change(nexus, request);
        let mut next = std::mem::replace(&mut self.state, in_force);
        let change = Change { nexus, notices: result? };
        next.status.take();
        // An unregistered port that unregisters has changed nothing.
        if next.generation != generation {
            next.persist = request.persist.unwrap_or(next.persist);
        }
        if !can_keep || !was_kept && !next.persist && self.pending.is_empty() {
            self.state = next;
            return Ok((change, None));
        }
        let kept = self.keep(next, change.clone());
        Ok((change, Some(kept)))
    }

    /// Completes the write of a change. With `is_kept` the change and all before it come into force; otherwise the
    /// change and all later ones are dropped. Returns the changes that are in force now.
    pub(super) fn settle(&mut self, version: Version, is_kept: bool) -> Vec<Change> {
        let Some(place) = self.pending.iter().position(|pending| pending.version == version) else {
            return Vec::new();
        };
        if !is_kept {
            self.pending.truncate(place);
            self.version.chain += 1;
            return Vec::new();
        }
        let kept: Vec<Pending> = self.pending.drain(..=place).collect();
        let changes = kept.into_iter().map(|Pending { state, change, .. }| {
            self.state = state;
            change
        });
        changes.collect()
    }

    fn change(&mut self, nexus: Nexus, request: Request) -> Result<Vec<Notice>, ReserveError> {
        let port = self.port(nexus);
        let registered = self.key(&port);
        if request.action == ReserveOut::RegisterAndIgnore {
            return self.register(&port, request.action_key);
        }
        // An unregistered port may only register, with a RESERVATION KEY of zero.
        let is_register = request.action == ReserveOut::Register;
        if registered.unwrap_or(0) != request.key || registered.is_none() && !is_register {
            return Err(ReserveError::Conflict);
        }
        match (request.action, request.kind) {
            (ReserveOut::Register, _) => self.register(&port, request.action_key),
            (ReserveOut::Reserve, Ok(kind)) => match &self.state.held {
                Some(held) if held.kind != kind || !self.is_holder(&port, held) => {
                    Err(ReserveError::Conflict)
                }
                Some(_) => Ok(Vec::new()),
                None => {
                    self.state.held = Some(Held { kind, holder: port });
                    Ok(Vec::new())
                }
            },
            (ReserveOut::Release, Ok(kind)) => match &self.state.held {
                Some(held) if self.is_holder(&port, held) => {
                    if kind != held.kind {
                        return Err(ReserveError::Check(Sense::INVALID_RELEASE));
                    }
                    Ok(self.let_go(&port))
                }
                _ => Ok(Vec::new()),
            },
            (ReserveOut::Clear, _) => {
                self.state.held = None;
                self.state.generation = self.state.generation.wrapping_add(1);
                let gone = std::mem::take(&mut self.state.registrants);
                let others = gone.into_iter().map(|(port, _)| port).filter(|other| *other != port);
                Ok(others.map(|other| (other, Attention::ReservationsPreempted)).collect())
            }
            (ReserveOut::Preempt | ReserveOut::PreemptAndAbort, kind) => {
                self.preempt(&port, request.action_key, kind)
            }
            (ReserveOut::Reserve | ReserveOut::Release, Err(sense)) => Err(ReserveError::Check(sense)),
            (ReserveOut::RegisterAndIgnore, _) => unreachable!("it was done"),
        }
    }

    /// Registers with `key`, or ends the registration with a key of zero.
    fn register(&mut self, port: &Arc<Port>, key: u64) -> Result<Vec<Notice>, ReserveError> {
        let place = self.state.registrants.iter().position(|(other, _)| other == port);
        let mut notices = Vec::new();
        match (place, key) {
            (None, 0) => return Ok(notices),
            (None, _) if self.state.registrants.len() >= REGISTRATIONS_MAX => {
                return Err(ReserveError::Check(Sense::INSUFFICIENT_REGISTRATION_RESOURCES));
            }
            (None, _) => self.state.registrants.push((Arc::clone(port), key)),
            (Some(place), 0) => {
                self.state.registrants.remove(place);
                notices = self.leave(port);
            }
            (Some(place), _) => self.state.registrants[place].1 = key,
        }
        self.state.generation = self.state.generation.wrapping_add(1);
        Ok(notices)
    }

    /// Adjusts the reservation after a registration has ended. A reservation ends with its holder's registration; one
    /// of an "all registrants" type, with the last registration.
    fn leave(&mut self, port: &Arc<Port>) -> Vec<Notice> {
        match &self.state.held {
            Some(held) if held.kind.is_held_by_all() => {
                self.hand_on();
                Vec::new()
            }
            Some(held) if held.holder == *port => self.let_go(port),
            _ => Vec::new(),
        }
    }

    /// Passes an "all registrants" reservation to a remaining registrant; ends the reservation if none remains.
    fn hand_on(&mut self) {
        let first = self.state.registrants.first().map(|(port, _)| Arc::clone(port));
        self.state.held = self.state.held.take().zip(first).map(|(held, holder)| Held { holder, ..held });
    }

    /// Ends the reservation. Other registrants get a unit attention if the reservation has admitted registrants.
    fn let_go(&mut self, port: &Arc<Port>) -> Vec<Notice> {
        match self.state.held.take() {
            Some(held) if held.kind.admits_registrants() => {
                self.tell_others(port, Attention::ReservationsReleased)
            }
            _ => Vec::new(),
        }
    }

    fn preempt(
        &mut self,
        port: &Arc<Port>,
        key: u64,
        kind: Result<ReservationType, Sense>,
    ) -> Result<Vec<Notice>, ReserveError> {
        let takes_over = match &self.state.held {
            Some(held) if held.kind.is_held_by_all() => key == 0,
            Some(held) => self.key(&held.holder) == Some(key),
            None => false,
        };
        if key == 0 && !takes_over {
            return Err(ReserveError::Check(Sense::invalid_parameter(8, None)));
        }
        if !takes_over && !self.state.registrants.iter().any(|registrant| registrant.1 == key) {
            return Err(ReserveError::Conflict);
        }
        // Scope and type count only if the action makes a reservation; the port that makes it stays registered.
        let kind = if takes_over { Some(kind.map_err(ReserveError::Check)?) } else { None };
        let goes = |(other, found): &mut (Arc<Port>, u64)| match takes_over {
            true => other != port && (key == 0 || *found == key),
            false => *found == key,
        };
        let gone = self.state.registrants.extract_if(.., goes).map(|(port, _)| port);
        let others = gone.filter(|other| other != port);
        let mut notices: Vec<Notice> =
            others.map(|other| (other, Attention::RegistrationsPreempted)).collect();
        if let Some(kind) = kind {
            let before = self.state.held.replace(Held { kind, holder: Arc::clone(port) });
            if before.is_some_and(|held| held.kind != kind && held.kind.admits_registrants()) {
                notices.extend(self.tell_others(port, Attention::ReservationsReleased));
            }
        } else if self.state.held.as_ref().is_some_and(|held| held.kind.is_held_by_all()) {
            self.hand_on();
        }
        self.state.generation = self.state.generation.wrapping_add(1);
        Ok(notices)
    }

    fn tell_others(&self, port: &Arc<Port>, attention: Attention) -> Vec<Notice> {
        let others = self.state.registrants.iter().filter(|(other, _)| other != port);
        others.map(|(other, _)| (Arc::clone(other), attention)).collect()
    }

    fn is_holder(&self, port: &Port, held: &Held) -> bool {
        *held.holder == *port || held.kind.is_held_by_all() && self.key(port).is_some()
    }

    fn key(&self, port: &Port) -> Option<u64> {
        self.state.key(port)
    }

    fn port(&self, nexus: Nexus) -> Arc<Port> {
        self.ports.get(&nexus).cloned().unwrap_or_default()
    }
}
