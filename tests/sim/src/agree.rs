//! A login in memory: what our two machines agree on, and the numbers that their sessions begin with.

use proto::login::{
    Admitted, Candidate, Directory, Existing, Initiator, LoggedIn, LoginPolicy, Request, Security, Session,
    Status, Target,
};
use proto::params::Wishes;
use wire::iscsi::login_status;

/// Both ends of a login that succeeded.
#[derive(Clone, Debug)]
pub struct Agreed {
    /// Seen from the initiator.
    pub near: LoggedIn,
    /// Seen from the target.
    pub far: Admitted,
}

/// A target that lets everybody in.
#[derive(Clone, Copy, Debug)]
struct Open;

impl Directory for Open {
    fn admit(&mut self, _: &Candidate) -> Result<(), Status> {
        Ok(())
    }

    fn random(&mut self, bytes: &mut [u8]) {
        bytes.fill(0x5a);
    }

    fn join(&mut self, _: &Candidate, _: u16) -> Result<Existing, Status> {
        Err(login_status::SESSION_DOES_NOT_EXIST.into())
    }

    fn assign_tsih(&mut self, _: &Candidate) -> Result<u16, Status> {
        Ok(1)
    }
}

/// Logs in with these wishes at a target of ours whose command window is `window`.
///
/// # Panics
/// If they do not come to terms.
pub fn agree(wishes: Wishes, window: u32) -> Agreed {
    let mut initiator = Initiator::new(Request {
        session: Session::Normal { target_name: "iqn.2026-11.io.farlun:far".to_owned() },
        initiator_name: "iqn.2026-11.io.farlun:near".to_owned(),
        initiator_alias: None,
        isid: [0x80, 0, 0, 0, 0, 1],
        cid: 0,
        wishes,
        security: Security::Skip,
        private_key: true,
    });
    let mut target = Target::new(LoginPolicy { command_window: window, ..LoginPolicy::default() });
    while let Some((request, data)) = initiator.poll_transmit() {
        target.handle_request(&request, &data, &mut Open).expect("the target takes our login");
        let (response, data) = target.poll_transmit().expect("every request is answered");
        initiator.handle_response(&response, &data).expect("the initiator takes our answer");
    }
    let near = initiator.outcome().expect("the initiator is logged in").clone();
    let far = target.outcome().expect("the target has a session").clone();
    Agreed { near, far }
}
