//! Sessions of our target on real sockets: what ends tasks, and what becomes of everybody else's.

mod connections;
mod drain;
mod meanwhile;
mod reload;
mod replacing;
mod resize;
mod task_management;
