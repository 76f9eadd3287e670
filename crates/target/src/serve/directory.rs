//! Who may log in, and the handles of sessions that have.
//!
//! A login with the names and ISID of a session that is still there takes its place (RFC 7143 section
//! 6.3.5): the serving loop ends those that [`Sessions::take_replaced`] names.

use std::collections::HashMap;

use proto::login::{Candidate, Directory, Existing, Status};
use slab::Slab;
use wire::iscsi::login_status;

use super::side::Side;
use crate::lun::Nexus;

/// The sessions of a target.
#[derive(Debug)]
pub(super) struct Sessions {
    iqn: String,
    /// Initiators that may log in; everybody if empty.
    allowed: Vec<String>,
    open: HashMap<u16, Owner>,
    /// Sessions whose initiator has come again.
    replaced: Vec<u16>,
    last_tsih: u16,
    last_nexus: u64,
}

/// Whose session it is: two with the same owner cannot be there at a time.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    initiator_name: String,
    isid: [u8; 6],
    discovery: bool,
}

impl Sessions {
    pub(super) fn new(iqn: String, allowed: Vec<String>) -> Sessions {
        let (open, replaced) = (HashMap::new(), Vec::new());
        Sessions { iqn, allowed, open, replaced, last_tsih: 0, last_nexus: 0 }
    }

    /// Sessions that must end because their initiator has logged in again, since the last call.
    pub(super) fn take_replaced(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.replaced)
    }

    pub(super) fn next_nexus(&mut self) -> Nexus {
        self.last_nexus += 1;
        Nexus(self.last_nexus)
    }

    pub(super) fn close(&mut self, tsih: u16) {
        self.open.remove(&tsih);
    }
}

/// The sessions, with what goes on in each: what a login asks.
pub(super) struct Door<'a> {
    pub(super) sessions: &'a mut Sessions,
    pub(super) sides: &'a Slab<Side>,
}

impl Directory for Door<'_> {
    fn admit(&mut self, candidate: &Candidate) -> Result<(), Status> {
        self.sessions.admit(candidate)
    }

    fn random(&mut self, bytes: &mut [u8]) {
        net::random::fill(bytes);
    }

    /// RFC 7143 sections 6.3.1 and 6.3.4: to the same target, with the same name and ISID. A connection with a
    /// CID that is there takes its place, and needs no other.
    fn join(&mut self, candidate: &Candidate, tsih: u16) -> Result<Existing, Status> {
        let missing = Status::new(login_status::SESSION_DOES_NOT_EXIST);
        if self.sessions.open.get(&tsih) != Some(&Owner::of(candidate)) {
            return Err(missing);
        }
        let (_, side) = self.sides.iter().find(|(_, side)| side.tsih == tsih).ok_or(missing)?;
        let session = &side.session;
        let takes_place = session.connection_of(candidate.cid).is_some();
        let most = usize::from(session.params().max_connections);
        if !takes_place && session.connections().len() >= most {
            return Err(Status::new(login_status::TOO_MANY_CONNECTIONS));
        }
        let (exp_cmd_sn, max_cmd_sn) = session.window();
        Ok(Existing { params: session.params().clone(), exp_cmd_sn, max_cmd_sn })
    }

    fn assign_tsih(&mut self, candidate: &Candidate) -> Result<u16, Status> {
        self.sessions.assign_tsih(candidate)
    }
}

impl Owner {
    fn of(candidate: &Candidate) -> Owner {
        Owner {
            initiator_name: candidate.initiator_name.to_ascii_lowercase(),
            isid: candidate.isid,
            discovery: candidate.discovery,
        }
    }
}

impl Sessions {
    fn admit(&mut self, candidate: &Candidate) -> Result<(), Status> {
        // Names are compared without regard to case (RFC 3722 folds it).
        let name = &candidate.initiator_name;
        if !self.allowed.is_empty() && !self.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
        {
            return Err(Status::new(login_status::AUTHORIZATION_FAILURE));
        }
        match &candidate.target_name {
            Some(name) if *name == self.iqn => Ok(()),
            None if candidate.discovery => Ok(()),
            _ => Err(Status::new(login_status::NOT_FOUND)),
        }
    }

    fn assign_tsih(&mut self, candidate: &Candidate) -> Result<u16, Status> {
        let owner = Owner::of(candidate);
        for _ in 0..u16::MAX {
            self.last_tsih = if self.last_tsih == u16::MAX { 1 } else { self.last_tsih + 1 };
            if !self.open.contains_key(&self.last_tsih) {
                let old = self.open.iter().filter(|(_, old)| **old == owner).map(|(tsih, _)| *tsih);
                self.replaced.extend(old);
                self.open.insert(self.last_tsih, owner);
                return Ok(self.last_tsih);
            }
        }
        Err(Status::new(login_status::OUT_OF_RESOURCES))
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
        }
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
        assert_eq!(Sessions::new("iqn.t".to_owned(), vec![]).admit(&candidate("iqn.c", 1, false)), Ok(()));
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
        assert_eq!(sessions.take_replaced(), [first]);
        sessions.close(first);
        assert!(sessions.open.contains_key(&second) && !sessions.open.contains_key(&first));
    }
}
