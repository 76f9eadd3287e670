//! A packet as captured at one end of the emulated path.

use crate::{Host, Instant};

/// A packet at a tap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tapped<'a> {
    /// Time of capture.
    pub t: Instant,
    /// At which end.
    pub host: Host,
    /// Headers, the IP header first.
    pub headers: &'a [u8],
    /// Bytes behind the headers.
    pub payload: &'a [u8],
}
