//! Diagnostic lines of the target; see [`engine::Log`].

use std::fmt::Arguments;
use std::net::IpAddr;

use engine::Log;
use event::{Instant, LineRate};

static STDERR: Log = Log::new("farlun target");

/// Writes a line to standard error. A missing or slow reader neither stops the target nor delays the loop.
pub fn log(text: Arguments<'_>) {
    STDERR.write(text);
}

/// Says something of a kind about a peer, unless too much of it has been said of late.
pub(super) fn log_some(
    lines: &mut LineRate,
    about: (&'static str, IpAddr),
    now: Instant,
    text: Arguments<'_>,
) {
    STDERR.write_some(lines, about, now, text);
}
