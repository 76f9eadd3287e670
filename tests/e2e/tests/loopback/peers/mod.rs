//! Initiators and targets for tests that decide about every PDU themselves.

pub(crate) mod fake_target;
pub(crate) mod pdu;
pub(crate) mod raw_initiator;
pub(crate) mod raw_login;
