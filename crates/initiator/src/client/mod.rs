//! A running session: its connections and the requests of the workload, driven by the event loop in `run`. `turn` is one
//! turn, `connections` adds connections, `reconnect` recovers a lost session, `departure` ends one. `calls` runs the loop.

mod arrival;
mod calls;
mod connections;
mod departure;
mod growth;
pub(crate) mod opening;
mod reconnect;
mod recovery;
mod state;
mod turn;

pub use state::{Client, Reception};

#[cfg(test)]
pub(crate) mod tests;
