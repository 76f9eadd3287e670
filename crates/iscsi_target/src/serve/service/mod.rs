//! Work of the loop on all connections: samples, effects of one session on others, the end of the target.

mod cross_session;
pub(crate) mod line_claims;
pub(crate) mod sampling;
pub(crate) mod shutdown;
