//! Settings of a socket that follow the policy: pacing rate, limit on unsent data, reset of the slow-start threshold.
//! Only changes reach the kernel.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use net::{tcp, threshold};

/// Unsent bytes the kernel may hold for a connection whose rate is not known yet.
const NOTSENT_MIN_BYTES: u32 = 256 << 10;
const NOTSENT_MAX_BYTES: u32 = 64 << 20;
/// For so long of the rate: a thread may be kept waiting that long. Over a long path it matters more, and less to an urgent PDU:
/// BBR does not leave its start while it has run out of data once in each round trip.
const HELD_MIN: Duration = Duration::from_millis(5);
const HELD_PER_RTT: u32 = 16;
/// Round trip below which the limit on unsent data stays at its first value. On such a path acknowledgements arrive
/// during the send call, and the kernel sends all unsent data in that call: over loopback for a millisecond and more
/// with 16 MiB, during which no other program has that processor. The rate of 1 MiB writes is the same.
const NEAR: Duration = Duration::from_millis(1);

/// The settings of one socket.
#[derive(Debug)]
pub(crate) struct Tuning {
    notsent_bytes: u32,
    pub(crate) pacing_bytes_per_s: Option<u64>,
    /// Number of resets; the maximum if the kernel cannot do it.
    forgotten: u32,
}

impl Tuning {
    /// Applies the settings of a new socket, before any sample.
    pub(crate) fn new(stream: &TcpStream) -> io::Result<Tuning> {
        tcp::set_notsent_lowat(stream, NOTSENT_MIN_BYTES)?;
        Ok(Tuning { notsent_bytes: NOTSENT_MIN_BYTES, pacing_bytes_per_s: None, forgotten: 0 })
    }

    /// Paces at no more than `bytes_per_s`; `u64::MAX - 1` paces without a cap.
    pub(crate) fn pace(&mut self, stream: &TcpStream, bytes_per_s: u64) -> io::Result<()> {
        if self.pacing_bytes_per_s != Some(bytes_per_s) {
            tcp::set_max_pacing_rate(stream, bytes_per_s)?;
            self.pacing_bytes_per_s = Some(bytes_per_s);
        }
        Ok(())
    }

    /// Resets the slow-start threshold, if fewer resets were made than `times`. Without support of the kernel the rest
    /// of the decision holds: the window then grows from the old threshold.
    pub(crate) fn forget(&mut self, stream: &TcpStream, times: u32) {
        if times > self.forgotten {
            // Another attempt would only have the kernel search for a module again, which takes its time. A paced
            // connection loses nothing by slow start and gets another notice of a full line.
            let is_paced = self.pacing_bytes_per_s.is_some();
            let done = if is_paced { threshold::begin_again(stream) } else { threshold::forget(stream) };
            self.forgotten = done.map_or(u32::MAX, |()| times);
        }
    }

    /// Lets the kernel hold some milliseconds of the delivery rate unsent: enough to keep the line busy, and an urgent
    /// PDU does not wait behind megabytes. With pacing by this process, `held` at most.
    pub(crate) fn follow_rate(
        &mut self,
        stream: &TcpStream,
        bytes_per_s: u64,
        min_rtt: Option<Duration>,
        held: Option<u64>,
    ) -> io::Result<()> {
        let notsent = held.map_or_else(
            || notsent_bytes(bytes_per_s, min_rtt),
            |bytes| u32::try_from(bytes).unwrap_or(NOTSENT_MAX_BYTES),
        );
        if notsent.abs_diff(self.notsent_bytes) > self.notsent_bytes / 4 {
            tcp::set_notsent_lowat(stream, notsent)?;
            self.notsent_bytes = notsent;
        }
        Ok(())
    }
}

fn notsent_bytes(bytes_per_s: u64, min_rtt: Option<Duration>) -> u32 {
    let rtt = min_rtt.unwrap_or_default();
    let held_ns = HELD_MIN.max(rtt / HELD_PER_RTT).as_nanos();
    let bytes = u32::try_from(u128::from(bytes_per_s) * held_ns / 1_000_000_000).unwrap_or(u32::MAX);
    let is_near = min_rtt.is_some_and(|rtt| rtt < NEAR);
    bytes.clamp(NOTSENT_MIN_BYTES, if is_near { NOTSENT_MIN_BYTES } else { NOTSENT_MAX_BYTES })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_milliseconds_of_the_rate_and_less_where_the_peer_is_near() {
        let [near, far, farther] = [40, 16_000, 400_000].map(|us| Some(Duration::from_micros(us)));
        for (bytes_per_s, rtt, expected) in [
            (0, None, NOTSENT_MIN_BYTES),
            (125_000_000, far, 625_000),
            (125_000_000, near, NOTSENT_MIN_BYTES),
            (125_000_000, farther, 3_125_000),
            (5_000_000_000, far, 25_000_000),
            (5_000_000_000, farther, NOTSENT_MAX_BYTES),
            (5_000_000_000, None, 25_000_000),
            (5_000_000_000, near, NOTSENT_MIN_BYTES),
        ] {
            assert_eq!(notsent_bytes(bytes_per_s, rtt), expected, "{bytes_per_s} {rtt:?}");
        }
    }
}
