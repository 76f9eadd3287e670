//! What to change about a limiter: for each stack that has a setting for it, the commands, as a block to copy. Words in
//! capitals (IQN, DEV) are for the reader to fill in; numbers come from what was measured.

mod hosts;
mod places;
mod transfers;
mod transport;

use serde::Serialize;

use super::facts::Facts;
use super::limiter::Limiter;

/// The commands of one stack.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Remedy {
    /// Whose setting it is: `farlun`, `LIO`, `tgt`, `open-iscsi`, `Windows`, `ESXi`, `Linux`.
    pub stack: &'static str,
    /// What to run or write there.
    pub commands: String,
}

/// Numbers that a remedy needs.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Wanted {
    /// Requests under way.
    requests: u64,
    /// What a socket's buffer should be able to grow to.
    buffer_bytes: u64,
    /// Length of a request.
    block_bytes: u64,
    /// Packets of a first flight.
    packets: u64,
}

/// How much more than what the path holds: rates and round trips vary.
const ROOM: f64 = 1.25;
/// More requests than this no stack takes.
const REQUESTS: [f64; 2] = [32.0, 65_536.0];
/// Buffers: less is never needed, more is never right.
const BUFFER_BYTES: [f64; 2] = [(4 << 20) as f64, (1 << 30) as f64];
/// Requests: more bytes in one are no faster.
const BLOCK_BYTES: [f64; 2] = [4096.0, (1 << 20) as f64];
/// Payload of a packet, about.
const PACKET_BYTES: f64 = 1448.0;

/// The settings that relieve a limiter; empty if there are none, as for a line that is full.
pub fn remedies(limiter: Limiter, facts: &Facts) -> Vec<Remedy> {
    let wanted = Wanted::of(facts);
    match limiter {
        Limiter::CallerDepth => places::caller(wanted),
        Limiter::QueueLimit => places::queue(wanted),
        Limiter::CommandWindow => places::window(wanted),
        Limiter::Connections => places::connections(),
        Limiter::R2t => transfers::r2t(wanted),
        Limiter::BlockSize => transfers::block(wanted),
        Limiter::Nagle => transfers::nagle(),
        Limiter::SeparateStatus => transfers::status(),
        Limiter::SendBuffer => transport::send_buffer(wanted),
        Limiter::ReceiveWindow => transport::receive_window(wanted),
        Limiter::Loss => transport::loss(),
        Limiter::DeviceRing => transport::ring(),
        Limiter::Ramp => transport::ramp(wanted),
        Limiter::Pacing => transport::pacing(),
        Limiter::SenderCpu | Limiter::ReceiverCpu => hosts::cpu(),
        Limiter::TargetQueue => hosts::target_queue(wanted),
        Limiter::StoreLatency => hosts::store_latency(),
        Limiter::StoreBandwidth => hosts::store_bandwidth(),
        Limiter::LinkRate | Limiter::RoundTrip => Vec::new(),
    }
}

impl Wanted {
    fn of(facts: &Facts) -> Wanted {
        let rate = facts.line_bytes_per_s.unwrap_or(facts.current.bytes_per_s);
        let rtt_s = facts.rtt_s.unwrap_or(facts.current.latency_s);
        let time_s = rtt_s + facts.stages.target.unwrap_or(0.0);
        let requests = ROOM * rate * time_s / facts.request_bytes.max(1.0);
        let depth = facts.outstanding.called.max(1.0);
        let within = |value: f64, [least, most]: [f64; 2]| value.max(least).min(most) as u64;
        Wanted {
            requests: within(requests, REQUESTS).next_power_of_two(),
            // A receive buffer offers half of itself, and a window may have to grow to twice the path's product.
            buffer_bytes: within(4.0 * rate * rtt_s, BUFFER_BYTES).next_power_of_two(),
            block_bytes: within(ROOM * rate * time_s / depth, BLOCK_BYTES).next_power_of_two(),
            packets: within(rate * rtt_s / PACKET_BYTES, [10.0, 1000.0]),
        }
    }
}

fn remedy(stack: &'static str, commands: impl Into<String>) -> Remedy {
    Remedy { stack, commands: commands.into() }
}

#[cfg(test)]
mod tests {
    use super::super::limiter::LIMITERS;
    use super::super::verdict::Performance;
    use super::*;

    fn facts() -> Facts {
        Facts {
            request_bytes: 65_536.0,
            current: Performance { bytes_per_s: 5e6, latency_s: 0.1 },
            rtt_s: Some(0.1),
            line_bytes_per_s: Some(117.7e6),
            ..Facts::default()
        }
    }

    #[test]
    fn numbers_come_from_the_path() {
        let wanted = Wanted::of(&facts());
        // 1.25 × 117.7 MB/s × 100 ms ÷ 64 KiB = 224.5; 4 × 11.77 MB.
        assert_eq!((wanted.requests, wanted.buffer_bytes), (256, 64 << 20));
        assert_eq!((wanted.block_bytes, wanted.packets), (1 << 20, 1000));
        let nothing = Wanted::of(&Facts::default());
        assert_eq!((nothing.requests, nothing.buffer_bytes, nothing.block_bytes), (32, 4 << 20, 4096));
    }

    #[test]
    fn whatever_can_be_changed_has_commands() {
        for limiter in LIMITERS {
            let found = remedies(*limiter, &facts());
            assert_eq!(found.is_empty(), limiter.is_final(), "{limiter:?}");
            assert!(found.iter().all(|remedy| !remedy.commands.trim().is_empty()), "{limiter:?}");
            assert!(found.iter().all(|remedy| remedy.commands.lines().count() <= 8), "{limiter:?}");
        }
    }
}
