//! The two NBD state machines against each other and against disturbed bytes, in memory: no socket, no clock.
//!
//! A failure prints its seed.

mod far;
mod hostile;
mod near;
mod walk;
