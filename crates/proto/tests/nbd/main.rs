//! The two NBD state machines against each other and against disturbed bytes, in memory: no socket, no clock.
//!
//! A failure prints its seed.

mod bounds;
mod ends;
mod far;
mod feed;
mod flags;
mod hostile;
mod near;
mod options;
mod walk;
