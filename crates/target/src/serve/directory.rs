//! Who may log in, and the handles of sessions that have.

use std::collections::HashSet;

use proto::login::{Candidate, Directory, Status};
use wire::iscsi::login_status;

use crate::lun::Nexus;

/// The sessions of a target.
#[derive(Debug)]
pub(super) struct Sessions {
    iqn: String,
    open: HashSet<u16>,
    last_tsih: u16,
    last_nexus: u64,
}

impl Sessions {
    pub(super) fn new(iqn: String) -> Sessions {
        Sessions { iqn, open: HashSet::new(), last_tsih: 0, last_nexus: 0 }
    }

    pub(super) fn next_nexus(&mut self) -> Nexus {
        self.last_nexus += 1;
        Nexus(self.last_nexus)
    }

    pub(super) fn close(&mut self, tsih: u16) {
        self.open.remove(&tsih);
    }
}

impl Directory for Sessions {
    fn admit(&mut self, candidate: &Candidate) -> Result<(), Status> {
        match &candidate.target_name {
            Some(name) if *name == self.iqn => Ok(()),
            None if candidate.discovery => Ok(()),
            _ => Err(Status::new(login_status::NOT_FOUND)),
        }
    }

    fn has_session(&self, tsih: u16) -> bool {
        self.open.contains(&tsih)
    }

    fn assign_tsih(&mut self, _candidate: &Candidate) -> Result<u16, Status> {
        for _ in 0..u16::MAX {
            self.last_tsih = if self.last_tsih == u16::MAX { 1 } else { self.last_tsih + 1 };
            if self.open.insert(self.last_tsih) {
                return Ok(self.last_tsih);
            }
        }
        Err(Status::new(login_status::OUT_OF_RESOURCES))
    }
}
