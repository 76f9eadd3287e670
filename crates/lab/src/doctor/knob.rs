//! What a caller can change of its own load so that a limiter goes away.
//!
//! Only what the initiator's options reach: what is to be changed at the target or on the path is said by the verdict.

use std::time::Duration;

use analysis::doctor::Limiter;
use event::{Bytes, format_delay};

use crate::plan::Pacing;

/// Shorter requests become so long, if the target takes that.
const LONG_BLOCK_BYTES: u64 = 256 << 10;
/// Most connections of a session, and most sessions, that a fix asks for.
const CONNECTIONS_MAX: u32 = 16;
const SESSIONS_MAX: u32 = 16;
/// What one fix multiplies them by.
const TIMES: (f64, f64) = (2.0, 8.0);
/// What a ramp is given at least.
const WARM_UP_MORE: Duration = Duration::from_secs(2);

/// A load as its caller runs it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Caller {
    /// Bytes of a request, and the most that the target takes.
    pub block_bytes: u64,
    /// The most that the target takes in one request.
    pub block_most_bytes: u64,
    /// Requests outstanding; `None` follows the path.
    pub depth: Option<u32>,
    /// Requests that a session gives to iSCSI at a time; `None` is all.
    pub queue_limit: Option<u32>,
    /// Sessions.
    pub sessions: u32,
    /// Connections of each.
    pub connections: u32,
    /// Whether less was asked for than possible of how data of writes comes.
    pub has_small_bursts: bool,
    /// How fast each connection may send.
    pub pacing: Pacing,
    /// Time before figures count.
    pub warmup: Duration,
}

impl Caller {
    /// Relieves `limiter`, where `gain` times the throughput is expected; what was changed, in the words of
    /// `farlun bench`, or `None` if it is not in the caller's power.
    pub fn relieve(&mut self, limiter: Limiter, gain: f64) -> Option<String> {
        let more = |count: u32, most: u32| {
            let wanted = (f64::from(count) * gain.clamp(TIMES.0, TIMES.1)).ceil() as u32;
            Some(wanted.min(most)).filter(|wanted| *wanted > count)
        };
        match limiter {
            Limiter::CallerDepth => {
                let was = self.depth.take()?;
                Some(format!("no --depth {was}: as much is outstanding as the path needs"))
            }
            Limiter::QueueLimit => {
                let was = self.queue_limit.take()?;
                Some(format!("no --queue-limit {was}"))
            }
            Limiter::CommandWindow => {
                self.sessions = more(self.sessions, SESSIONS_MAX)?;
                Some(format!("--sessions {}: each has a command window of its own", self.sessions))
            }
            Limiter::R2t => std::mem::take(&mut self.has_small_bursts).then(|| {
                "no --first-burst, --max-burst, --r2ts and --initial-r2t: data comes without being asked for"
                    .to_owned()
            }),
            Limiter::BlockSize => {
                let long = LONG_BLOCK_BYTES.min(self.block_most_bytes);
                (long > self.block_bytes).then(|| {
                    self.block_bytes = long;
                    format!("--block {}", Bytes(long))
                })
            }
            Limiter::Connections | Limiter::Loss | Limiter::ReceiveWindow | Limiter::SendBuffer => {
                self.connections = more(self.connections, CONNECTIONS_MAX)?;
                Some(format!("--connections {}: each has windows and buffers of its own", self.connections))
            }
            Limiter::Pacing => match std::mem::replace(&mut self.pacing, Pacing::Follow) {
                Pacing::AtMost(rate) => Some(format!("no --pace {rate}")),
                as_it_was => {
                    self.pacing = as_it_was;
                    None
                }
            },
            Limiter::DeviceRing => (self.pacing == Pacing::Off).then(|| {
                self.pacing = Pacing::Follow;
                "no --no-pacing: what is sent is spread over the round trip".to_owned()
            }),
            Limiter::Ramp => {
                let more = self.warmup.max(WARM_UP_MORE);
                self.warmup += more;
                Some(format!("measured {} later", format_delay(more)))
            }
            // The target's, the path's, or nobody's.
            Limiter::Nagle
            | Limiter::SeparateStatus
            | Limiter::LinkRate
            | Limiter::SenderCpu
            | Limiter::ReceiverCpu
            | Limiter::TargetQueue
            | Limiter::StoreLatency
            | Limiter::StoreBandwidth
            | Limiter::RoundTrip => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use analysis::doctor::LIMITERS;

    use super::*;

    #[test]
    fn what_was_relieved_is_not_relieved_for_ever() {
        for limiter in LIMITERS.iter().filter(|limiter| **limiter != Limiter::Ramp) {
            let mut caller = Caller {
                block_bytes: 4096,
                block_most_bytes: 1 << 20,
                depth: Some(4),
                queue_limit: Some(2),
                sessions: 1,
                connections: 1,
                has_small_bursts: true,
                pacing: Pacing::Off,
                warmup: Duration::from_secs(1),
            };
            let times = (0..20).take_while(|_| caller.relieve(*limiter, 1.5).is_some()).count();
            assert!(times <= 4, "{limiter:?} {times}");
        }
    }
}
