//! Path MTU black hole of a live connection: large packets vanish, small ones arrive (RFC 2923 section 2.1, RFC 4821).
//! The evidence is TCP_INFO.

use std::fmt;

use net::TcpInfo;

/// Segment sizes to fall back to, in bytes: the IPv6 minimum MTU (RFC 8200 section 5) without headers, and the default
/// send MSS (RFC 9293 section 3.7.1).
const SMALLER_SEGMENTS: [u16; 2] = [1_220, 536];
/// Timeouts of one segment after which its size is suspected: Linux's `tcp_retries1`, two more without a sign of the peer
/// since, and one where the connection is given up in any case.
const TIMEOUTS_HEARD: u8 = 3;
const TIMEOUTS_UNHEARD: u8 = 5;
const TIMEOUTS_AT_LAST: u8 = 1;
/// Progress that takes full-sized segments: beyond it the path carries them.
const SMALL_PROGRESS_BYTES: u64 = 64 << 10;
/// Longest TCP options of a data segment.
const OPTIONS_BYTES: u32 = 40;

/// A path MTU black hole in one direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlackHole {
    /// The large segments are this end's.
    pub is_sender: bool,
    /// The peer was heard during the stall, so that the path is not down.
    pub is_heard: bool,
    /// Payload of a full-sized segment, in bytes.
    pub segment_bytes: u32,
    /// Timeouts of the first unacknowledged segment; 0 at the receiver.
    pub timeouts: u8,
}

impl BlackHole {
    /// Judges the segments that this end sends: a full one times out again and again, although the peer's host is there
    /// and has acknowledged smaller ones.
    pub fn of_sent(info: &TcpInfo) -> Option<BlackHole> {
        BlackHole::sent(info, if is_heard(info) { TIMEOUTS_HEARD } else { TIMEOUTS_UNHEARD })
    }

    /// The same when the connection is given up for its silence: one timeout has to do, since it may be long.
    pub fn of_sent_at_last(info: &TcpInfo) -> Option<BlackHole> {
        BlackHole::sent(info, TIMEOUTS_AT_LAST)
    }

    fn sent(info: &TcpInfo, timeouts_min: u8) -> Option<BlackHole> {
        // TCP_INFO counts the SYN of this end as acknowledged.
        let is_full = info.unacked_bytes + 1 >= u64::from(info.mss_bytes);
        let is_stalled = info.head_timeouts >= timeouts_min && is_full;
        let is_new = (1..SMALL_PROGRESS_BYTES).contains(&info.acked_bytes);
        let (segment_bytes, timeouts) = (info.mss_bytes, info.head_timeouts);
        let hole = BlackHole { is_sender: true, is_heard: is_heard(info), segment_bytes, timeouts };
        (is_stalled && is_new && hole.smaller_segment().is_some()).then_some(hole)
    }

    /// Judges the segments that the peer sends, after a silence of it that nothing explains: its TCP acknowledges
    /// everything, and no full-sized segment of it has ever arrived.
    pub fn of_received(info: &TcpInfo) -> Option<BlackHole> {
        let is_acknowledged = info.unacked_packets == 0 && info.notsent_bytes == 0;
        let is_small = info.received_segment_bytes + OPTIONS_BYTES < info.advertised_mss_bytes;
        // A packet behind a gap is a small one behind large ones.
        let is_new = info.received_bytes < SMALL_PROGRESS_BYTES || info.behind_gap_packets > 0;
        let segment_bytes = info.advertised_mss_bytes;
        let hole = BlackHole { is_sender: false, is_heard: true, segment_bytes, timeouts: 0 };
        (is_acknowledged && is_small && is_new && hole.smaller_segment().is_some()).then_some(hole)
    }

    /// Returns the maximum segment size for another connection, in bytes; `None` if there is no smaller one.
    pub fn smaller_segment(&self) -> Option<u16> {
        SMALLER_SEGMENTS.into_iter().find(|&bytes| u32::from(bytes) < self.segment_bytes)
    }
}

/// Returns true if the peer has answered since the first unacknowledged segment stalls.
fn is_heard(info: &TcpInfo) -> bool {
    // The backoff doubles the timeout each time: an answer of the last half is younger than the stall.
    info.sacked_packets > 0 || info.last_ack < info.retransmission_timeout / 2
}

impl fmt::Display for BlackHole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlackHole { segment_bytes, timeouts, .. } = self;
        let sent = u32::from(*timeouts) + 1;
        match self.is_sender {
            true if self.is_heard => write!(
                f,
                "large packets do not get through to it: a segment of {segment_bytes} bytes was sent {sent} times and not \
                 acknowledged, smaller ones were; give this end's interface the MTU of the path, or set \
                 net.ipv4.tcp_mtu_probing=1 on this host"
            ),
            true => write!(
                f,
                "it acknowledges no segment of {segment_bytes} bytes, sent {sent} times, and acknowledged smaller ones; if \
                 large packets do not get through, give this end's interface the MTU of the path, or set \
                 net.ipv4.tcp_mtu_probing=1 on this host"
            ),
            false => write!(
                f,
                "its host acknowledges everything, but no segment near {segment_bytes} bytes has ever arrived from it; if \
                 large packets do not get through, give its interface the MTU of the path, or set \
                 net.ipv4.tcp_mtu_probing=1 on its host"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use net::tcp_info;

    use super::*;

    /// A connection at rest, with the figures of a session that has just logged in.
    fn rest() -> TcpInfo {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        TcpInfo {
            mss_bytes: 1_448,
            advertised_mss_bytes: 1_448,
            received_segment_bytes: 536,
            acked_bytes: 729,
            received_bytes: 864,
            unacked_bytes: 0,
            unacked_packets: 0,
            sacked_packets: 0,
            notsent_bytes: 0,
            behind_gap_packets: 0,
            duplicate_packets: 0,
            reorderings: 0,
            head_timeouts: 0,
            retransmission_timeout: Duration::from_millis(3_264),
            last_ack: Duration::from_millis(3_796),
            ..tcp_info::read(&stream).unwrap()
        }
    }

    #[test]
    fn a_full_segment_that_times_out_again_and_again() {
        let stalled = TcpInfo { unacked_packets: 17, unacked_bytes: 24_616, head_timeouts: 5, ..rest() };
        let hole = BlackHole::of_sent(&stalled).expect("a black hole");
        assert_eq!((hole.segment_bytes, hole.smaller_segment()), (1_448, Some(1_220)));
        let words = hole.to_string();
        assert!(words.contains("1448 bytes, sent 6 times") && words.contains("if large packets"), "{words}");
        let heard = BlackHole { is_heard: true, ..hole }.to_string();
        assert!(heard.starts_with("large packets do not get through to it: "), "{heard}");
        let few = TcpInfo { head_timeouts: 4, ..stalled };
        assert_eq!(BlackHole::of_sent(&few), None, "too early");
        assert!(BlackHole::of_sent_at_last(&few).is_some(), "the connection is given up");
        assert_eq!(BlackHole::of_sent_at_last(&TcpInfo { head_timeouts: 0, ..stalled }), None);
        assert!(BlackHole::of_sent(&TcpInfo { sacked_packets: 1, ..few }).is_some(), "a small one arrived");
        let last_ack = Duration::from_millis(1_000);
        assert!(BlackHole::of_sent(&TcpInfo { last_ack, ..few }).is_some(), "the peer was heard");
        for (other, why) in [
            (TcpInfo { unacked_bytes: 900, ..stalled }, "small segments do not arrive either"),
            (TcpInfo { acked_bytes: 1 << 20, ..stalled }, "the path has carried large ones"),
            (TcpInfo { acked_bytes: 0, ..stalled }, "nothing has ever arrived"),
            (TcpInfo { mss_bytes: 536, ..stalled }, "there is no smaller segment"),
            (rest(), "nothing is under way"),
        ] {
            assert_eq!(BlackHole::of_sent(&other), None, "{why}");
        }
        let smaller = TcpInfo { mss_bytes: 1_208, ..stalled };
        assert_eq!(BlackHole::of_sent(&smaller).and_then(|hole| hole.smaller_segment()), Some(536));
    }

    #[test]
    fn a_peer_that_acknowledges_and_whose_large_segments_never_arrive() {
        let hole = BlackHole::of_received(&rest()).expect("a black hole");
        assert_eq!((hole.is_sender, hole.smaller_segment()), (false, Some(1_220)));
        assert!(hole.to_string().contains("tcp_mtu_probing=1 on its host"), "{hole}");
        let much = TcpInfo { received_bytes: 1 << 20, ..rest() };
        assert_eq!(BlackHole::of_received(&much), None, "a peer that hangs");
        let gap = TcpInfo { behind_gap_packets: 1, ..much };
        assert!(BlackHole::of_received(&gap).is_some(), "something came behind a gap");
        for (other, why) in [
            (TcpInfo { unacked_packets: 1, ..rest() }, "its host does not answer"),
            (TcpInfo { received_segment_bytes: 1_448, ..rest() }, "a large one has arrived"),
            (TcpInfo { received_segment_bytes: 1_424, ..gap }, "a large one has arrived, with options"),
            (TcpInfo { advertised_mss_bytes: 536, ..rest() }, "there is no smaller segment"),
        ] {
            assert_eq!(BlackHole::of_received(&other), None, "{why}");
        }
    }
}
