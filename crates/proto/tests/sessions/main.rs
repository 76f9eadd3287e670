//! The two session state machines against each other and against scripted peers, in memory: no socket, no clock.
//!
//! `sim` lends the hosts around the sessions and [`sim::Rules`], which panics where a header breaks RFC 7143.
//! A failure prints the case and, where the order of events was random, its seed.

mod connections;
mod hostile;
mod management;
mod near;
mod near_management;
mod order;
mod pair;
mod refusals;
mod services;
mod target_connections;
mod transfers;
mod windows;
