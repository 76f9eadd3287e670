//! Number of stretches of a window.

/// Stretches of a window that have a value each. Much shorter ones would depend on each other.
pub const STRETCHES: usize = 20;
