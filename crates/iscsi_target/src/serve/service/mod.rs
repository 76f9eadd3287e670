//! The loop over all connections: the target and its turn, new connections, samples, effects of one session on others,
//! and the end of the target.

mod accept;
mod cross_session;
pub(crate) mod line_claims;
mod register;
pub(crate) mod sampling;
mod shutdown;
pub(crate) mod target;
mod turn;
