//! What to change about a limiter: for each stack that has a setting for it, the commands, as a block to copy. Words in
//! capitals (IQN, DEV) are for the reader to fill in; numbers come from what was measured.

mod hosts;
mod places;
mod transfers;
mod transport;

use serde::Serialize;

use super::facts::Facts;
use super::limiter::Limiter;
use super::tcp;

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
    /// Commands that the target should let be open: no fewer than it does.
    window: u64,
    /// What a socket's buffer should be able to grow to.
    buffer_bytes: u64,
    /// Length of a request.
    block_bytes: u64,
    /// FirstBurstLength: of the longest request, and no less than was agreed.
    first_burst_bytes: u64,
    /// Connections of each session.
    connections: u64,
    /// Packets of a first flight.
    packets: u64,
}

/// How much more than what the path holds: rates and round trips vary.
const ROOM: f64 = 1.25;
/// Fewer are what most stacks have anyway, and more requests than this no stack takes.
const REQUESTS: [f64; 2] = [256.0, 65_536.0];
/// Buffers: less is what Linux has anyway, more is never right.
const BUFFER_BYTES: [f64; 2] = [(8 << 20) as f64, (1 << 30) as f64];
/// Requests: more bytes in one are no faster.
const BLOCK_BYTES: [f64; 2] = [4096.0, (1 << 20) as f64];
/// FirstBurstLength: what open-iscsi asks for anyway, and the most that a login takes.
const FIRST_BURST_BYTES: [f64; 2] = [262_144.0, 16_776_192.0];
/// Payload of a packet, about, where it is not known.
const PACKET_BYTES: f64 = 1448.0;

/// The settings that relieve a limiter; empty if there are none, as for a line that is full.
pub fn remedies(limiter: Limiter, facts: &Facts) -> Vec<Remedy> {
    let wanted = Wanted::of(facts);
    match limiter {
        Limiter::CallerDepth => places::caller(wanted),
        Limiter::QueueLimit => places::queue(wanted),
        Limiter::CommandWindow => places::window(wanted),
        Limiter::Connections => places::connections(wanted),
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
        Limiter::StoreLatency => hosts::store_latency(facts.is_write),
        Limiter::StoreBandwidth => hosts::store_bandwidth(facts.is_write),
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
        // What is there already is never made smaller.
        let block = (ROOM * rate * time_s / depth).max(facts.request_bytes);
        let block_bytes = within(block, BLOCK_BYTES).next_power_of_two();
        let out = facts.outstanding;
        let requests = requests.max(out.queue_limit.unwrap_or(0.0));
        let window = requests.max(out.window_most.unwrap_or(0.0));
        let sender = facts.sender.and_then(|sender| sender.buffer_most_bytes).unwrap_or(0.0);
        let buffer = facts.receiver.buffer_most_bytes.unwrap_or(0.0).max(sender);
        let mss = facts.sender.map(|sender| sender.mss_bytes).filter(|bytes| *bytes > 0.0);
        let first = facts.agreed.map_or(0.0, |agreed| agreed.first_burst_bytes);
        Wanted {
            requests: within(requests, REQUESTS).next_power_of_two(),
            window: within(window, REQUESTS).next_power_of_two(),
            // A receive buffer offers half of itself, and a window may have to grow to twice the path's product.
            buffer_bytes: within(buffer.max(4.0 * rate * rtt_s), BUFFER_BYTES).next_power_of_two(),
            block_bytes,
            first_burst_bytes: within(
                first.max(block_bytes as f64).max(facts.request_bytes),
                FIRST_BURST_BYTES,
            ),
            connections: (facts.connections.max(1.0) / facts.sessions.max(1.0)
                * tcp::more_connections(facts).max(1.0))
            .ceil() as u64,
            packets: within(rate * rtt_s / mss.unwrap_or(PACKET_BYTES), [10.0, 1000.0]),
        }
    }
}

/// In front of what ends a session.
const UNMOUNT: &str = "# unmount first: this takes the target's disks away";

fn remedy(stack: &'static str, commands: impl Into<String>) -> Remedy {
    Remedy { stack, commands: commands.into() }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Agreed;
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
        assert_eq!((nothing.requests, nothing.buffer_bytes, nothing.block_bytes), (256, 8 << 20, 4096));
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

    #[test]
    fn nothing_that_is_there_is_made_smaller() {
        let mut facts = facts();
        facts.outstanding.window_most = Some(4096.0);
        facts.receiver.buffer_most_bytes = Some((512 << 20) as f64);
        let agreed = Agreed { first_burst_bytes: (4 << 20) as f64, ..Agreed::default() };
        let wanted = Wanted::of(&Facts { agreed: Some(agreed), ..facts.clone() });
        assert_eq!(
            (wanted.requests, wanted.window, wanted.buffer_bytes, wanted.first_burst_bytes),
            (256, 4096, 512 << 20, 4 << 20)
        );
        // A target that takes its time over a short path: not shorter requests, and bursts as long as they are.
        let short =
            Facts { request_bytes: 524_288.0, rtt_s: Some(0.001), line_bytes_per_s: Some(52e6), ..facts };
        let wanted = Wanted::of(&short);
        assert_eq!((wanted.block_bytes, wanted.first_burst_bytes), (524_288, 524_288));
    }

    #[test]
    fn whoever_is_logged_out_is_told_to_unmount_first() {
        let all = LIMITERS.iter().flat_map(|limiter| remedies(*limiter, &facts()));
        let ends: Vec<Remedy> =
            all.filter(|r| r.commands.contains(" -u &&") || r.commands.contains("log in again")).collect();
        assert_eq!(ends.len(), 6, "{ends:?}");
        assert!(ends.iter().all(|remedy| remedy.commands.starts_with(UNMOUNT)), "{ends:?}");
    }

    #[test]
    fn a_write_cache_is_advised_for_writes_alone() {
        for is_write in [false, true] {
            for limiter in [Limiter::StoreLatency, Limiter::StoreBandwidth] {
                let found = remedies(limiter, &Facts { is_write, ..facts() });
                let caches = found.iter().filter(|r| r.commands.contains("write_back"));
                assert_eq!(caches.count(), usize::from(is_write), "{limiter:?}");
            }
        }
    }

    #[test]
    fn windows_takes_no_longer_first_burst() {
        let found = remedies(Limiter::R2t, &Facts { is_write: true, ..facts() });
        let windows = found.iter().find(|remedy| remedy.stack == "Windows").expect("a setting");
        let line = windows.commands.lines().find(|line| line.contains("FirstBurstLength")).expect("a line");
        assert!(
            line.contains("\\000N\\Parameters\" /v FirstBurstLength /t REG_DWORD /d 262144 /f"),
            "{line}"
        );
    }

    #[test]
    fn windows_opens_its_window_as_far_as_the_path_needs() {
        for (rtt_s, level) in [(0.01, "normal"), (0.25, "experimental")] {
            let found = remedies(Limiter::ReceiveWindow, &Facts { rtt_s: Some(rtt_s), ..facts() });
            let windows = found.iter().find(|remedy| remedy.stack == "Windows").expect("a setting");
            assert!(windows.commands.ends_with(&format!("autotuninglevel={level}")), "{}", windows.commands);
        }
    }
}
