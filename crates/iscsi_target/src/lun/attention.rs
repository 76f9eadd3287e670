//! What a session has to be told about a LUN before its next command (SAM-5 section 5.14).
//!
//! Bounded: each condition is remembered at most once per session, and sessions that are over leave
//! nothing behind.

use std::collections::BTreeMap;

/// One session as a LUN sees it: an I_T nexus. The number is the serving loop's, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Nexus(pub u64);

/// A unit attention condition, in the order in which they are reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Attention {
    /// The session is new; the LUN may have been started or reset since the initiator last saw it.
    PowerOn,
    /// Some session reset the LUN.
    Reset,
    /// Another session ended commands of this one.
    Cleared,
    /// Another session changed a mode page.
    ModeChanged,
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
    pending: BTreeMap<Nexus, Vec<Attention>>,
}

impl Attentions {
    pub(super) fn begin(&mut self, nexus: Nexus) {
        self.pending.insert(nexus, vec![Attention::PowerOn]);
    }

    pub(super) fn end(&mut self, nexus: Nexus) {
        self.pending.remove(&nexus);
    }

    /// Tells all sessions that `concerns` holds for.
    pub(super) fn raise(&mut self, attention: Attention, concerns: impl Fn(Nexus) -> bool) {
        for (_, list) in self.pending.iter_mut().filter(|(nexus, _)| concerns(**nexus)) {
            if let Err(place) = list.binary_search(&attention) {
                list.insert(place, attention);
            }
        }
    }

    /// `nexus` knows already.
    pub(super) fn forget(&mut self, attention: Attention, nexus: Nexus) {
        if let Some(list) = self.pending.get_mut(&nexus) {
            list.retain(|pending| *pending != attention);
        }
    }

    pub(super) fn take(&mut self, nexus: Nexus) -> Option<Attention> {
        let list = self.pending.get_mut(&nexus)?;
        (!list.is_empty()).then(|| list.remove(0))
    }
}
