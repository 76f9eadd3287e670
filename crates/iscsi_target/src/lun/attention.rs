//! Unit attentions: conditions to report to a session before the next command on a LUN (SAM-5 section 5.14).
//!
//! Bounded: each condition is remembered at most once per session, and sessions that are over leave
//! nothing behind.

use std::collections::BTreeMap;

/// I_T nexus: one session from the view of a LUN. The serving loop assigns the number, and never uses one twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Nexus(pub u64);

/// An initiator port (RFC 7143 section 4.4.1): the initiator's end of an I_T nexus. Names and ISIDs are no secrets, so
/// ports of different CHAP users are different ports even with equal names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Port {
    /// ISID, the initiator's part of the session identifier. Compared first, since it distinguishes most ports.
    pub isid: [u8; 6],
    /// Name of the initiator.
    pub name: String,
    /// CHAP user; `None` if no proof was needed, or for a port of a file from before users were kept.
    pub user: Option<String>,
}

impl Port {
    /// Returns true for a port that was kept without a user and is this one's, which has one.
    pub(super) fn adopts(&self, kept: &Port) -> bool {
        self.user.is_some() && kept.user.is_none() && self.is_namesake(kept)
    }

    /// Returns true for the port of an initiator with this name and ISID, whatever its user.
    pub(super) fn is_namesake(&self, other: &Port) -> bool {
        (self.isid, &self.name) == (other.isid, &other.name)
    }

    /// The first port of this name and ISID in the order of ports.
    pub(super) fn without_user(&self) -> Port {
        Port { user: None, ..self.clone() }
    }
}

/// A unit attention condition, in the order in which they are reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Attention {
    /// The LUN has another store than the one that the nexus knows. It is reported by every command, and the LUN is
    /// closed to the nexus, until the initiator has logged out.
    Replaced,
    /// The session is new; the LUN may have been started or reset since the initiator last saw it.
    PowerOn,
    /// Some session reset the LUN.
    Reset,
    /// Another session ended commands of this one.
    Cleared,
    /// Another session changed a mode page.
    ModeChanged,
    /// The LUN has grown.
    CapacityChanged,
    /// Another session ended all reservations.
    ReservationsPreempted,
    /// A reservation that let the session pass is over.
    ReservationsReleased,
    /// Another session ended the registration.
    RegistrationsPreempted,
    /// LUNs came or went.
    LunsChanged,
}

/// The conditions of one LUN that are not reported yet.
#[derive(Debug, Default)]
pub(super) struct Attentions {
    pending: BTreeMap<Nexus, Pending>,
    /// Number of resets of the LUN. Each session compares this number when it takes its conditions: a reset of all LUNs
    /// must not cost time per session and LUN.
    resets: u64,
}

#[derive(Debug)]
struct Pending {
    list: Vec<Attention>,
    /// Resets that are in the list, or were.
    seen_resets: u64,
}

impl Attentions {
    /// A session begins; `knows_another` is whether it knows another store in the place of this one.
    pub(super) fn begin(&mut self, nexus: Nexus, knows_another: bool) {
        let first = if knows_another { Attention::Replaced } else { Attention::PowerOn };
        self.pending.insert(nexus, Pending { list: vec![first], seen_resets: self.resets });
    }

    /// Returns true if the LUN is closed to a session.
    pub(super) fn is_closed_to(&self, nexus: Nexus) -> bool {
        self.pending.get(&nexus).is_some_and(|pending| pending.list.first() == Some(&Attention::Replaced))
    }

    pub(super) fn end(&mut self, nexus: Nexus) {
        self.pending.remove(&nexus);
    }

    /// Raises a unit attention for all sessions for which `concerns` is true.
    pub(super) fn raise(&mut self, attention: Attention, concerns: impl Fn(Nexus) -> bool) {
        for (_, pending) in self.pending.iter_mut().filter(|(nexus, _)| concerns(**nexus)) {
            pending.add(attention);
        }
    }

    /// Raises the unit attention of a reset for all sessions.
    pub(super) fn raise_reset(&mut self) {
        self.resets += 1;
    }

    /// `nexus` knows already.
    pub(super) fn forget(&mut self, attention: Attention, nexus: Nexus) {
        if let Some(pending) = self.pending.get_mut(&nexus) {
            pending.list.retain(|pending| *pending != attention);
        }
    }

    pub(super) fn take(&mut self, nexus: Nexus) -> Option<Attention> {
        let pending = self.pending.get_mut(&nexus)?;
        if std::mem::replace(&mut pending.seen_resets, self.resets) != self.resets {
            pending.add(Attention::Reset);
        }
        match pending.list.first()? {
            Attention::Replaced => Some(Attention::Replaced),
            _ => Some(pending.list.remove(0)),
        }
    }
}

impl Pending {
    fn add(&mut self, attention: Attention) {
        if let Err(place) = self.list.binary_search(&attention) {
            self.list.insert(place, attention);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reset touches no session: it is the session's own next command that finds it, in its place among others.
    #[test]
    fn a_reset_waits_for_each_session_to_ask() {
        let mut attentions = Attentions::default();
        let (one, two) = (Nexus(1), Nexus(2));
        attentions.begin(one, false);
        attentions.raise_reset();
        attentions.begin(two, false);
        attentions.raise(Attention::LunsChanged, |_| true);
        attentions.raise_reset();
        assert!(attentions.pending.values().all(|pending| pending.list.len() == 2));
        for nexus in [one, two] {
            let told: Vec<_> = std::iter::from_fn(|| attentions.take(nexus)).collect();
            assert_eq!(told, [Attention::PowerOn, Attention::Reset, Attention::LunsChanged]);
        }
    }
}
