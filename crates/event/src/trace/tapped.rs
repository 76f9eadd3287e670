//! A packet as somebody saw it who listened at one end of the emulated path.

use crate::{Host, Instant};

/// What crossed a tap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tapped<'a> {
    /// When.
    pub t: Instant,
    /// At which end.
    pub host: Host,
    /// Its headers, the IP header first.
    pub headers: &'a [u8],
    /// What is behind them.
    pub payload: &'a [u8],
}
