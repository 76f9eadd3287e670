//! Sessions of our target on real sockets: what ends tasks, and what becomes of everybody else's.

mod connections;
mod drain;
mod meanwhile;
#[path = "../pdu/mod.rs"]
mod pdu;
#[path = "../raw_initiator/mod.rs"]
mod raw_initiator;
#[path = "../raw_login/mod.rs"]
mod raw_login;
mod reload;
mod task_management;
