//! What a socket is told as its path becomes known: pacing, and how much unsent data the kernel holds.
//! The kernel is told only of changes.

use std::io;
use std::net::TcpStream;

use net::tcp;

/// Unsent bytes the kernel may hold for a connection whose rate is not known yet.
const NOTSENT_MIN_BYTES: u32 = 256 << 10;
const NOTSENT_MAX_BYTES: u32 = 16 << 20;

/// The settings of one socket.
#[derive(Debug)]
pub(crate) struct Tuning {
    notsent_bytes: u32,
    pub(crate) pacing_bytes_per_s: Option<u64>,
}

impl Tuning {
    /// Tells a new socket what holds before anything is known.
    pub(crate) fn new(stream: &TcpStream) -> io::Result<Tuning> {
        tcp::set_notsent_lowat(stream, NOTSENT_MIN_BYTES)?;
        Ok(Tuning { notsent_bytes: NOTSENT_MIN_BYTES, pacing_bytes_per_s: None })
    }

    /// Paces at no more than `bytes_per_s`; `u64::MAX - 1` paces without a cap.
    pub(crate) fn pace(&mut self, stream: &TcpStream, bytes_per_s: u64) -> io::Result<()> {
        if self.pacing_bytes_per_s != Some(bytes_per_s) {
            tcp::set_max_pacing_rate(stream, bytes_per_s)?;
            self.pacing_bytes_per_s = Some(bytes_per_s);
        }
        Ok(())
    }

    /// Lets the kernel hold about five milliseconds of the delivery rate unsent: enough to keep the line
    /// busy, little enough that an urgent PDU does not wait behind megabytes.
    pub(crate) fn follow_rate(&mut self, stream: &TcpStream, bytes_per_s: u64) -> io::Result<()> {
        let five_ms = u32::try_from(bytes_per_s / 200).unwrap_or(u32::MAX);
        let notsent = five_ms.clamp(NOTSENT_MIN_BYTES, NOTSENT_MAX_BYTES);
        if notsent.abs_diff(self.notsent_bytes) > self.notsent_bytes / 4 {
            tcp::set_notsent_lowat(stream, notsent)?;
            self.notsent_bytes = notsent;
        }
        Ok(())
    }
}
