//! Open sessions by TSIH, with their owners.
//!
//! A login with the names and ISID of an open session reinstates that session (RFC 7143 section 6.3.5): the serving
//! loop ends the sessions of [`Sessions::take_replaced`]. Names, ISID and TSIH are visible to everybody on the path, so
//! only the CHAP user of a session may reinstate or join it.

use std::collections::HashMap;

use proto::login::{Candidate, Proof, Status};
use proto::name;
use wire::iscsi::login_status;

use crate::lun::Nexus;

/// The sessions of a target.
#[derive(Debug)]
pub(crate) struct Sessions {
    iqn: String,
    /// Initiators that may log in; all if empty.
    allowed: Vec<String>,
    open: HashMap<u16, Owner>,
    /// Sessions to be reinstated, and the new sessions in their place.
    replaced: Vec<Replaced>,
    /// Nexuses whose calls must return before these sessions begin.
    held: HashMap<u16, Vec<Nexus>>,
    /// Closed sessions with calls that stores still execute, and their owners.
    lingering: HashMap<Nexus, Owner>,
    /// Clients with a login that waits for a nexus to come to rest.
    waiting: HashMap<Nexus, Vec<usize>>,
    last_nexus: u64,
}

/// Session reinstatement: a new session in the place of an old one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Replaced {
    pub(crate) old: u16,
    pub(crate) new: u16,
}

/// Owner of a session.
#[derive(Clone, Debug)]
struct Owner {
    end: InitiatorEnd,
    /// CHAP user; `None` if no proof was needed.
    user: Option<String>,
}

/// The initiator's end of a session: two sessions with the same one cannot be there at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InitiatorEnd {
    /// Compared first, since it distinguishes most initiator ports.
    isid: [u8; 6],
    initiator_name: String,
    discovery: bool,
}

impl Sessions {
    pub(crate) fn new(iqn: String, allowed: Vec<String>) -> Sessions {
        Sessions {
            iqn,
            allowed,
            open: HashMap::new(),
            replaced: Vec::new(),
            held: HashMap::new(),
            lingering: HashMap::new(),
            waiting: HashMap::new(),
            last_nexus: 0,
        }
    }

    /// Sets the initiators that may log in from now on; open sessions stay.
    pub(crate) fn set_allowed(&mut self, allowed: Vec<String>) {
        self.allowed = allowed;
    }

    /// Sessions that must end because their initiator has logged in again, since the last call.
    pub(crate) fn take_replaced(&mut self) -> Vec<Replaced> {
        std::mem::take(&mut self.replaced)
    }

    pub(crate) fn next_nexus(&mut self) -> Nexus {
        self.last_nexus += 1;
        Nexus(self.last_nexus)
    }

    /// Closes a session; `nexus` is set if the session had begun. The initiator's next session waits for the calls of
    /// this one, and of sessions before it, that stores still execute.
    pub(crate) fn close(&mut self, tsih: u16, nexus: Option<Nexus>, is_busy: impl Fn(Nexus) -> bool) {
        let before = self.held.remove(&tsih).unwrap_or_default();
        if let Some(owner) = self.open.remove(&tsih) {
            let all = before.into_iter().chain(nexus).filter(|nexus| is_busy(*nexus));
            self.lingering.extend(all.map(|nexus| (nexus, owner.clone())));
        }
    }

    /// Notes that the last call of a closed session has returned. Returns the clients whose logins have waited for it.
    pub(crate) fn came_to_rest(&mut self, nexus: Nexus) -> Vec<usize> {
        self.lingering.remove(&nexus);
        self.waiting.remove(&nexus).unwrap_or_default()
    }

    /// Delays the begin of session `tsih` until no store executes a call of `nexus`: a write of the old session must
    /// not arrive after a write of the new one.
    pub(crate) fn hold(&mut self, tsih: u16, nexus: Nexus) {
        if self.open.contains_key(&tsih) {
            self.held.entry(tsih).or_default().push(nexus);
        }
    }

    /// Nexuses for which a session was waiting that is replaced before it began.
    pub(crate) fn held_by(&self, tsih: u16) -> Vec<Nexus> {
        self.held.get(&tsih).cloned().unwrap_or_default()
    }

    /// Returns true if a session may begin. Otherwise its `client` is kept, for [`Sessions::came_to_rest`] to wake it.
    pub(crate) fn may_begin(&mut self, tsih: u16, client: usize, is_busy: impl Fn(Nexus) -> bool) -> bool {
        if self.replaced.iter().any(|replaced| replaced.new == tsih) {
            return false;
        }
        let held = self.held.get(&tsih).and_then(|held| held.iter().find(|nexus| is_busy(**nexus)));
        if let Some(nexus) = held {
            let waiting = self.waiting.entry(*nexus).or_default();
            if !waiting.contains(&client) {
                waiting.push(client);
            }
        }
        held.is_none()
    }
}

impl Owner {
    fn of(candidate: &Candidate) -> Owner {
        let user = candidate.proof.user().map(str::to_owned);
        Owner { end: InitiatorEnd::of(candidate), user }
    }

    /// Returns true if a proof gives the right to this session. A session that needed none, before CHAP was configured,
    /// is anybody's.
    fn admits(&self, proof: &Proof) -> bool {
        match (&self.user, proof) {
            (None, _) | (_, Proof::Pending) => true,
            (Some(own), Proof::User(user)) => own == user,
            (Some(_), Proof::NotNeeded) => false,
        }
    }
}

impl InitiatorEnd {
    fn of(candidate: &Candidate) -> InitiatorEnd {
        InitiatorEnd {
            isid: candidate.isid,
            initiator_name: name::folded(&candidate.initiator_name),
            discovery: candidate.discovery,
        }
    }
}

impl Sessions {
    /// Checks the names of a login.
    pub(crate) fn admit(&mut self, candidate: &Candidate) -> Result<(), Status> {
        let initiator = &candidate.initiator_name;
        let is_it = |allowed: &String| name::is_same(allowed, initiator);
        if !self.allowed.is_empty() && !self.allowed.iter().any(is_it) {
            return Err(Status::new(login_status::AUTHORIZATION_FAILURE));
        }
        match &candidate.target_name {
            Some(target) if name::is_same(target, &self.iqn) => Ok(()),
            None if candidate.discovery => Ok(()),
            _ => Err(Status::new(login_status::NOT_FOUND)),
        }
    }

    /// Returns true if a login may add a connection to session `tsih`: the same initiator port, and the same user.
    pub(crate) fn may_join(&self, candidate: &Candidate, tsih: u16) -> bool {
        let owner = self.open.get(&tsih).filter(|owner| owner.end == InitiatorEnd::of(candidate));
        owner.is_some_and(|owner| owner.admits(&candidate.proof))
    }

    /// Opens a session for a login, in the place of an older one of the same initiator port.
    pub(crate) fn assign_tsih(&mut self, candidate: &Candidate) -> Result<u16, Status> {
        let owner = Owner::of(candidate);
        let mut own = self.open.iter().filter(|(_, old)| old.end == owner.end);
        if own.any(|(_, old)| !old.admits(&candidate.proof)) {
            return Err(Status::new(login_status::AUTHORIZATION_FAILURE));
        }
        let tsih = self.free_tsih().ok_or(Status::new(login_status::OUT_OF_RESOURCES))?;
        let old = self.open.iter().filter(|(_, old)| old.end == owner.end).map(|(tsih, _)| *tsih);
        self.replaced.extend(old.map(|old| Replaced { old, new: tsih }));
        let lingering = self.lingering.iter().filter(|(_, old)| old.end == owner.end);
        let lingering: Vec<Nexus> = lingering.map(|(nexus, _)| *nexus).collect();
        if !lingering.is_empty() {
            self.held.insert(tsih, lingering);
        }
        self.open.insert(tsih, owner);
        Ok(tsih)
    }

    /// Unpredictable TSIH: the next free one from a random number on.
    fn free_tsih(&self) -> Option<u16> {
        let mut random = [0; 2];
        net::random::fill(&mut random);
        let first = u16::from_ne_bytes(random);
        let mut all = (0..=u16::MAX).map(|n| first.wrapping_add(n));
        all.find(|tsih| *tsih != 0 && !self.open.contains_key(tsih))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(initiator_name: &str, isid: u8, discovery: bool) -> Candidate {
        Candidate {
            initiator_name: initiator_name.to_owned(),
            initiator_alias: None,
            target_name: Some("iqn.t".to_owned()),
            discovery,
            isid: [0x80, 0, 0, 0, 0, isid],
            cid: 0,
            proof: Proof::NotNeeded,
        }
    }

    fn by_user(user: &str) -> Candidate {
        Candidate { proof: Proof::User(user.to_owned()), ..candidate("iqn.a", 1, false) }
    }

    /// Name, ISID and handle of another user's session give no right to it, nor to its place.
    #[test]
    fn a_session_is_its_users() {
        let mut sessions = Sessions::new("iqn.t".to_owned(), vec![]);
        let first = sessions.assign_tsih(&by_user("alice")).unwrap();
        let refused = Err(Status::new(login_status::AUTHORIZATION_FAILURE));
        assert_eq!(sessions.assign_tsih(&by_user("bob")), refused);
        assert_eq!(sessions.assign_tsih(&candidate("iqn.a", 1, false)), refused, "without a proof");
        assert!(sessions.take_replaced().is_empty());
        let owner = &sessions.open[&first];
        let proofs = [by_user("alice").proof, by_user("bob").proof, Proof::NotNeeded, Proof::Pending];
        assert_eq!(proofs.map(|proof| owner.admits(&proof)), [true, false, false, true]);
        let second = sessions.assign_tsih(&by_user("alice")).unwrap();
        assert_eq!(sessions.take_replaced(), [Replaced { old: first, new: second }]);
        // A session from before CHAP was configured has no owner.
        let mut sessions = Sessions::new("iqn.t".to_owned(), vec![]);
        sessions.assign_tsih(&candidate("iqn.a", 1, false)).unwrap();
        sessions.assign_tsih(&by_user("alice")).unwrap();
    }

    #[test]
    fn handles_follow_no_order_and_come_to_an_end() {
        let mut sessions = Sessions::new("iqn.t".to_owned(), vec![]);
        let assign = |sessions: &mut Sessions, n: u32| {
            let [_, _, a, b] = n.to_be_bytes();
            sessions.assign_tsih(&Candidate { isid: [0x80, 0, 0, 0, a, b], ..candidate("iqn.a", 1, false) })
        };
        let some: Vec<u16> = (0..32).map(|n| assign(&mut sessions, n).unwrap()).collect();
        let followers = some.windows(2).filter(|pair| pair[1] == pair[0].wrapping_add(1)).count();
        assert!(followers < 8, "{some:?}");
        let one = Owner::of(&candidate("iqn.b", 1, false));
        (1..=u16::MAX).for_each(|tsih| drop(sessions.open.insert(tsih, one.clone())));
        assert_eq!(assign(&mut sessions, 99), Err(Status::new(login_status::OUT_OF_RESOURCES)));
        sessions.open.remove(&7);
        assert_eq!(assign(&mut sessions, 99), Ok(7));
    }

    #[test]
    fn only_those_who_are_allowed() {
        let mut sessions = Sessions::new("iqn.t".to_owned(), vec!["iqn.A".to_owned(), "iqn.b".to_owned()]);
        let refused = Err(Status::new(login_status::AUTHORIZATION_FAILURE));
        for (name, expected) in
            [("iqn.a", Ok(())), ("iqn.b", Ok(())), ("iqn.c", refused), ("iqn.aa", refused)]
        {
            assert_eq!(sessions.admit(&candidate(name, 1, false)), expected, "{name}");
            assert_eq!(sessions.admit(&candidate(name, 1, true)), expected, "{name}");
        }
        let admit = |iqn: &str| Sessions::new(iqn.to_owned(), vec![]).admit(&candidate("iqn.c", 1, false));
        assert_eq!((admit("iqn.t"), admit("IQN.T")), (Ok(()), Ok(())));
        assert_eq!(admit("iqn.u"), Err(Status::new(login_status::NOT_FOUND)));
    }

    #[test]
    fn the_same_initiator_with_the_same_isid_takes_its_own_place() {
        let mut sessions = Sessions::new("iqn.t".to_owned(), vec![]);
        let first = sessions.assign_tsih(&candidate("iqn.a", 1, false)).unwrap();
        for other in [candidate("iqn.a", 2, false), candidate("iqn.b", 1, false), candidate("iqn.a", 1, true)]
        {
            sessions.assign_tsih(&other).unwrap();
        }
        assert!(sessions.take_replaced().is_empty());
        let second = sessions.assign_tsih(&candidate("IQN.a", 1, false)).unwrap();
        assert_ne!(first, second);
        assert!(!sessions.may_begin(second, 1, |_| false), "the old one is still there");
        assert_eq!(sessions.take_replaced(), [Replaced { old: first, new: second }]);
        assert!(sessions.may_begin(second, 1, |_| true));
        sessions.hold(second, Nexus(4));
        assert!(!sessions.may_begin(second, 1, |nexus| nexus == Nexus(4)));
        assert!(sessions.may_begin(second, 1, |nexus| nexus == Nexus(5)));
        assert_eq!(sessions.held_by(second), [Nexus(4)]);
        sessions.close(first, None, |_| false);
        assert!(sessions.open.contains_key(&second) && !sessions.open.contains_key(&first));
    }

    #[test]
    fn who_comes_again_waits_for_what_stores_still_do_for_it() {
        let mut sessions = Sessions::new("iqn.t".to_owned(), vec![]);
        let busy = |nexus: Nexus| nexus == Nexus(7);
        let first = sessions.assign_tsih(&candidate("iqn.a", 1, false)).unwrap();
        sessions.close(first, Some(Nexus(7)), busy);
        let other = sessions.assign_tsih(&candidate("iqn.b", 1, false)).unwrap();
        let second = sessions.assign_tsih(&candidate("iqn.a", 1, false)).unwrap();
        assert!(sessions.may_begin(other, 3, busy) && !sessions.may_begin(second, 4, busy));
        // The initiator gives up, and logs in a third time.
        sessions.close(second, None, busy);
        let third = sessions.assign_tsih(&candidate("iqn.a", 1, false)).unwrap();
        assert!(!sessions.may_begin(third, 5, busy) && !sessions.may_begin(third, 5, busy));
        assert_eq!(sessions.came_to_rest(Nexus(8)), [0; 0]);
        assert_eq!(sessions.came_to_rest(Nexus(7)), [4, 5], "the first of them may be gone");
        assert!(sessions.may_begin(third, 5, |_| false));
        sessions.close(third, None, |_| false);
        assert!(sessions.lingering.is_empty() && sessions.held.is_empty() && sessions.waiting.is_empty());
    }
}
