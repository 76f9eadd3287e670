//! The path: capacity of its line, clock offset of its hosts, packet accounting and lateness of the emulator.

pub mod accounting;
pub mod clock;
pub mod lateness;
pub mod line;
