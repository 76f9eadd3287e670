//! Numbers in remedies, from the bandwidth-delay product of the path.

use crate::facts::Facts;

/// Numbers in remedies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Wanted {
    /// Requests outstanding.
    pub(super) requests: u64,
    /// Command window of the target; never below the present one.
    pub(super) window: u64,
    /// Limit of a socket buffer in bytes.
    pub(super) buffer_bytes: u64,
    /// Length of a request in bytes.
    pub(super) block_bytes: u64,
    /// FirstBurstLength: of the longest request, and never below the negotiated value.
    pub(super) first_burst_bytes: u64,
    /// Connections of each session.
    pub(super) connections: u64,
    /// Packets of an initial window.
    pub(super) packets: u64,
}

/// Reserve above the bandwidth-delay product: rates and round trips vary.
const ROOM: f64 = 1.25;
/// Requests: the usual default of stacks, and the most that any stack takes.
const REQUESTS: [f64; 2] = [256.0, 65_536.0];
/// Buffers in bytes: the default of Linux, and the most that is ever useful.
const BUFFER_BYTES: [f64; 2] = [(8 << 20) as f64, (1 << 30) as f64];
/// Request length in bytes: longer requests are no faster.
const BLOCK_BYTES: [f64; 2] = [4096.0, (1 << 20) as f64];
/// FirstBurstLength in bytes: the default of open-iscsi, and the largest value of a login.
const FIRST_BURST_BYTES: [f64; 2] = [262_144.0, 16_776_192.0];
/// Payload of a packet in bytes where the segment size is not known.
const PACKET_BYTES: f64 = 1448.0;
/// Factor by which connections are raised, and their largest number per session.
const TIMES: f64 = 4.0;
const CONNECTIONS: f64 = 16.0;

impl Wanted {
    pub(super) fn from_facts(facts: &Facts) -> Wanted {
        let rate = facts.path.line_bytes_per_s.unwrap_or(facts.current.bytes_per_s);
        let rtt_s = facts.path.rtt_s.unwrap_or(facts.current.latency_s);
        let time_s = rtt_s + facts.stages.target.unwrap_or(0.0);
        let requests = ROOM * rate * time_s / facts.request_bytes.max(1.0);
        let depth = facts.outstanding.called.max(1.0);
        let within = |value: f64, [least, most]: [f64; 2]| value.max(least).min(most) as u64;
        // Present values are never lowered.
        let block = (ROOM * rate * time_s / depth).max(facts.request_bytes);
        let block_bytes = within(block, BLOCK_BYTES).next_power_of_two();
        let out = facts.outstanding;
        let requests = requests.max(out.queue_limit.unwrap_or(0.0));
        let window = requests.max(out.window_most.unwrap_or(0.0));
        let sender = facts.sender.and_then(|sender| sender.socket.buffer_most_bytes).unwrap_or(0.0);
        let buffer = facts.receiver.buffer_most_bytes.unwrap_or(0.0).max(sender);
        let mss = facts.sender.map(|sender| sender.traffic.mss_bytes).filter(|bytes| *bytes > 0.0);
        let first = facts.agreed.map_or(0.0, |agreed| agreed.first_burst_bytes);
        Wanted {
            requests: within(requests, REQUESTS).next_power_of_two(),
            window: within(window, REQUESTS).next_power_of_two(),
            // A receive buffer advertises half of itself, and a window may have to grow to twice the product.
            buffer_bytes: within(buffer.max(4.0 * rate * rtt_s), BUFFER_BYTES).next_power_of_two(),
            block_bytes,
            first_burst_bytes: within(
                first.max(block_bytes as f64).max(facts.request_bytes),
                FIRST_BURST_BYTES,
            ),
            connections: (facts.connections.max(1.0) / facts.sessions.max(1.0)
                * more_connections(facts).max(1.0))
            .ceil() as u64,
            packets: within(rate * rtt_s / mss.unwrap_or(PACKET_BYTES), [10.0, 1000.0]),
        }
    }
}

/// Factor by which more connections are advised.
pub(crate) fn more_connections(facts: &Facts) -> f64 {
    TIMES.min(CONNECTIONS * facts.sessions.max(1.0) / facts.connections.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Negotiated;
    use crate::remedy::testing::facts;

    #[test]
    fn numbers_come_from_the_path() {
        let wanted = Wanted::from_facts(&facts());
        // 1.25 × 117.7 MB/s × 100 ms ÷ 64 KiB = 224.5; 4 × 11.77 MB.
        assert_eq!((wanted.requests, wanted.buffer_bytes), (256, 64 << 20));
        assert_eq!((wanted.block_bytes, wanted.packets), (1 << 20, 1000));
        let nothing = Wanted::from_facts(&Facts::default());
        assert_eq!((nothing.requests, nothing.buffer_bytes, nothing.block_bytes), (256, 8 << 20, 4096));
    }

    #[test]
    fn present_values_are_never_lowered() {
        let mut facts = facts();
        facts.outstanding.window_most = Some(4096.0);
        facts.receiver.buffer_most_bytes = Some((512 << 20) as f64);
        let agreed = Negotiated { first_burst_bytes: (4 << 20) as f64, ..Negotiated::default() };
        let wanted = Wanted::from_facts(&Facts { agreed: Some(agreed), ..facts.clone() });
        assert_eq!(
            (wanted.requests, wanted.window, wanted.buffer_bytes, wanted.first_burst_bytes),
            (256, 4096, 512 << 20, 4 << 20)
        );
        // A slow target over a short path: requests keep their length, and bursts are as long as they are.
        (facts.request_bytes, facts.path.rtt_s, facts.path.line_bytes_per_s) =
            (524_288.0, Some(0.001), Some(52e6));
        let wanted = Wanted::from_facts(&facts);
        assert_eq!((wanted.block_bytes, wanted.first_burst_bytes), (524_288, 524_288));
    }
}
