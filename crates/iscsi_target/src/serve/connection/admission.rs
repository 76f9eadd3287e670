//! Admission of logins: names, rights, and the session that a login opens or joins.

use proto::login::{Candidate, Directory, Existing, Status};
use slab::Slab;
use wire::iscsi::login_status;

use crate::serve::connection::open_sessions::Sessions;
use crate::serve::session::state::SessionState;

/// State that a login needs: the sessions, and the activity of each.
pub(crate) struct Door<'a> {
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) sides: &'a Slab<SessionState>,
}

impl Directory for Door<'_> {
    fn admit(&mut self, candidate: &Candidate) -> Result<(), Status> {
        self.sessions.admit(candidate)
    }

    fn random(&mut self, bytes: &mut [u8]) {
        net::random::fill(bytes);
    }

    /// RFC 7143 sections 6.3.1 and 6.3.4: to the same target, with the same name and ISID, by the same user. A
    /// connection with a CID that is there takes its place, and needs no other.
    fn join(&mut self, candidate: &Candidate, tsih: u16) -> Result<Existing, Status> {
        let missing = Status::new(login_status::SESSION_DOES_NOT_EXIST);
        if !self.sessions.may_join(candidate, tsih) {
            return Err(missing);
        }
        let (_, side) = self.sides.iter().find(|(_, side)| side.identity.tsih == tsih).ok_or(missing)?;
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
