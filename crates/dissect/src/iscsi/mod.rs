//! iSCSI in the byte streams of a TCP connection: PDU boundaries, hidden headers, login, commands.

pub(crate) mod commands;
pub(crate) mod digests;
mod expectations;
pub(crate) mod framer;
mod header;
mod inference;
pub(crate) mod login;
pub(crate) mod pdu;
mod plausible;
mod recognition;
pub(crate) mod role;
pub(crate) mod session;
mod stretch;
pub(crate) mod text;
pub(crate) mod trial;
