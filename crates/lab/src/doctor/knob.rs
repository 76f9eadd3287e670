//! Changes of a caller's own load that relieve a limiter.
//!
//! Only the initiator's options count; the verdict names the settings of the target and of the path.

use std::time::Duration;

use diagnosis::Limiter;
use event::{Bytes, format_delay};

use crate::plan::Pacing;

/// Request size that relieves short requests, if the target supports it.
const LONG_BLOCK_BYTES: u64 = 256 << 10;
/// Upper limits of a fix: connections of a session, and sessions.
const CONNECTIONS_MAX: u32 = 16;
const SESSIONS_MAX: u32 = 16;
/// Largest depth that `farlun bench` takes.
const DEPTH_MAX: u32 = 65_535;
/// Smallest and largest factor of one fix.
const TIMES: (f64, f64) = (2.0, 8.0);
/// Smallest extension of the warm-up while congestion windows open.
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
    /// Queue limit of a session towards iSCSI; `None` for unlimited.
    pub queue_limit: Option<u32>,
    /// Sessions.
    pub sessions: u32,
    /// Connections of each.
    pub connections: u32,
    /// True for bursts or R2Ts of writes below the possible ones.
    pub has_small_bursts: bool,
    /// Pacing of each connection.
    pub pacing: Pacing,
    /// Time before figures count.
    pub warmup: Duration,
}

impl Caller {
    /// Relieves `limiter`, where `gain` times the throughput is expected with `outstanding_bytes`. Returns the change
    /// in flags of `farlun bench`, or `None` if the caller has no setting for it.
    pub fn relieve(&mut self, limiter: Limiter, gain: f64, outstanding_bytes: f64) -> Option<String> {
        let more = |count: u32, most: u32| {
            let wanted = (f64::from(count) * gain.clamp(TIMES.0, TIMES.1)).ceil() as u32;
            Some(wanted.min(most)).filter(|wanted| *wanted > count)
        };
        match limiter {
            Limiter::QueueDepth => {
                // As many as the prediction is for.
                let each =
                    outstanding_bytes / self.block_bytes.max(1) as f64 / f64::from(self.sessions.max(1));
                let wanted = (each.round() as u32).min(DEPTH_MAX);
                let was = self.depth.unwrap_or(0);
                (wanted > was).then(|| {
                    self.depth = Some(wanted);
                    format!("--depth {wanted}")
                })
            }
            Limiter::QueueLimit => {
                let was = self.queue_limit.take()?;
                Some(format!("without --queue-limit {was}"))
            }
            Limiter::CommandWindow => {
                self.sessions = more(self.sessions, SESSIONS_MAX)?;
                Some(format!("--sessions {}: each has a command window of its own", self.sessions))
            }
            Limiter::R2t => std::mem::take(&mut self.has_small_bursts).then(|| {
                "without --first-burst, --max-burst, --r2ts and --initial-r2t: writes send unsolicited data"
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
                Some(format!(
                    "use --connections {}: every connection has windows and socket buffers of its own",
                    self.connections
                ))
            }
            Limiter::Pacing => match std::mem::replace(&mut self.pacing, Pacing::Follow) {
                Pacing::AtMost(rate) => Some(format!("without --pace {rate}")),
                as_it_was => {
                    self.pacing = as_it_was;
                    None
                }
            },
            Limiter::DeviceQueue => (self.pacing == Pacing::Off).then(|| {
                self.pacing = Pacing::Follow;
                "without --no-pacing: data are paced over the round trip".to_owned()
            }),
            Limiter::CongestionWindow => {
                let more = self.warmup.max(WARM_UP_MORE);
                self.warmup += more;
                Some(format!("warm-up extended by {}", format_delay(more)))
            }
            // Of the target, of the path, or without a setting.
            Limiter::Nagle
            | Limiter::SeparateStatus
            | Limiter::PathMtu
            | Limiter::LinkRate
            | Limiter::SenderCpu
            | Limiter::ReceiverCpu
            | Limiter::TargetQueue
            | Limiter::StoreLatency
            | Limiter::StoreBandwidth
            | Limiter::RoundTrip => None,
            // Never in a diagnosis: only `farlun top` and `farlun stream` name them.
            Limiter::Idle
            | Limiter::Receiving
            | Limiter::AppLimited
            | Limiter::TcpMemory
            | Limiter::WindowScale
            | Limiter::Path
            | Limiter::SenderHost
            | Limiter::ReceiverApplication => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use diagnosis::LIMITERS;

    use super::*;

    #[test]
    fn what_was_relieved_is_not_relieved_for_ever() {
        for limiter in LIMITERS.iter().filter(|limiter| **limiter != Limiter::CongestionWindow) {
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
            let times = (0..20).take_while(|_| caller.relieve(*limiter, 1.5, 65_536.0).is_some()).count();
            assert!(times <= 4, "{limiter:?} {times}");
        }
    }
}
