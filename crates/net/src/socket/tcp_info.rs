//! TCP_INFO: the kernel's statistics of one connection.
//!
//! The structure grows with the kernel, so its length is variable: fields a kernel does not have read
//! as zero. Offsets are those of `struct tcp_info` in `linux/tcp.h`.
#![allow(unsafe_code)]

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use event::CongestionState;

use crate::syscall::check;

/// The fields of TCP_INFO that farlun uses.
#[derive(Clone, Copy, Debug)]
pub struct TcpInfo {
    /// Congestion state.
    pub state: CongestionState,
    /// Both ends support ECN, so that routers may mark instead of drop.
    pub has_ecn: bool,
    /// The delivery rate was measured while the application limited the sender (app-limited).
    pub app_limited: bool,
    /// Timeouts of the first unacknowledged segment.
    pub head_timeouts: u8,
    /// Maximum segment size for sending.
    pub mss_bytes: u32,
    /// Largest segment received recently; the kernel's initial value is 536.
    pub received_segment_bytes: u32,
    /// Maximum segment size offered to the peer, without options.
    pub advertised_mss_bytes: u32,
    /// Time since the last acknowledgement.
    pub last_ack: Duration,
    /// Retransmission timeout.
    pub retransmission_timeout: Duration,
    /// Unacknowledged packets.
    pub unacked_packets: u32,
    /// Unacknowledged packets that the peer has received behind a gap (SACK).
    pub sacked_packets: u32,
    /// Unacknowledged packets presumed lost.
    pub lost_packets: u32,
    /// Lost packets that were retransmitted and are not acknowledged.
    pub resent_packets: u32,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Mean deviation of the round-trip time.
    pub rtt_var: Duration,
    /// Smallest round-trip time seen; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Slow-start threshold (2^31 − 1 while unset).
    pub ssthresh_packets: u32,
    /// Congestion window.
    pub cwnd_packets: u32,
    /// Total retransmitted packets.
    pub retransmitted_packets: u32,
    /// Pacing rate in force; `u64::MAX` if unpaced.
    pub pacing_rate_bytes_per_s: u64,
    /// Bytes the peer has acknowledged.
    pub acked_bytes: u64,
    /// Bytes sent and not acknowledged.
    pub unacked_bytes: u64,
    /// Bytes received in order.
    pub received_bytes: u64,
    /// Bytes written to the socket and not yet sent.
    pub notsent_bytes: u32,
    /// Delivery rate.
    pub delivery_rate_bytes_per_s: u64,
    /// Time with data to send.
    pub busy: Duration,
    /// Time limited by the peer's receive window.
    pub receive_window_limited: Duration,
    /// Time limited by the local send buffer.
    pub send_buffer_limited: Duration,
    /// Packets delivered, including those behind a gap; wraps.
    pub delivered_packets: u32,
    /// Delivered packets that the path had marked (ECN); wraps.
    pub marked_packets: u32,
    /// Packets received twice, as reported by the peer (D-SACK); wraps; 0 before Linux 4.20.
    pub duplicate_packets: u32,
    /// Reordering events in the sent data; wraps; 0 before Linux 4.20.
    pub reorderings: u32,
    /// Send window, as advertised by the peer.
    pub snd_wnd_bytes: u32,
    /// Receive window, as advertised to the peer (Linux 6.2 and newer).
    pub rcv_wnd_bytes: u32,
    /// Packets received behind a gap.
    pub behind_gap_packets: u32,
    /// Total retransmission timeouts (Linux 6.7 and newer).
    pub timeouts: u32,
}

impl TcpInfo {
    /// Packets in flight: neither delivered nor presumed lost, plus retransmissions.
    pub fn in_flight_packets(&self) -> u32 {
        let gone = self.sacked_packets.saturating_add(self.lost_packets);
        self.unacked_packets.saturating_sub(gone).saturating_add(self.resent_packets)
    }
}

pub(crate) const LEN: usize = 248;
/// TCPI_OPT_ECN.
const OPTION_ECN: u8 = 8;

/// Reads TCP_INFO of a connection.
pub fn read(stream: &TcpStream) -> io::Result<TcpInfo> {
    let mut bytes = [0u8; LEN];
    let mut len = LEN as libc::socklen_t;
    // SAFETY: `bytes` has room for `len` bytes, and the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &mut len,
        )
    };
    check(result)?;
    Ok(parse(&bytes))
}

/// Decodes the fields of the structure that farlun uses.
pub(crate) fn parse(bytes: &[u8; LEN]) -> TcpInfo {
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| {
        let (a, b) = (word(at).to_ne_bytes(), word(at + 4).to_ne_bytes());
        u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
    };
    let micros = |us: u32| Duration::from_micros(u64::from(us));
    TcpInfo {
        state: CongestionState::from_kernel(bytes[1]),
        has_ecn: bytes[5] & OPTION_ECN != 0,
        app_limited: bytes[7] & 1 != 0,
        head_timeouts: bytes[2],
        mss_bytes: word(16),
        received_segment_bytes: word(20),
        advertised_mss_bytes: word(84),
        last_ack: Duration::from_millis(u64::from(word(56))),
        retransmission_timeout: micros(word(8)),
        unacked_packets: word(24),
        sacked_packets: word(28),
        lost_packets: word(32),
        resent_packets: word(36),
        rtt: micros(word(68)),
        rtt_var: micros(word(72)),
        min_rtt: Some(word(148)).filter(|us| !matches!(*us, 0 | u32::MAX)).map(micros),
        ssthresh_packets: word(76),
        cwnd_packets: word(80),
        retransmitted_packets: word(100),
        pacing_rate_bytes_per_s: long(104),
        acked_bytes: long(120),
        unacked_bytes: long(200).saturating_sub(long(208)).saturating_sub(long(120)),
        received_bytes: long(128),
        notsent_bytes: word(144),
        delivery_rate_bytes_per_s: long(160),
        busy: Duration::from_micros(long(168)),
        receive_window_limited: Duration::from_micros(long(176)),
        send_buffer_limited: Duration::from_micros(long(184)),
        delivered_packets: word(192),
        marked_packets: word(196),
        duplicate_packets: word(216),
        reorderings: word(220),
        snd_wnd_bytes: word(228),
        rcv_wnd_bytes: word(232),
        behind_gap_packets: word(224),
        timeouts: u32::from(u16::from_ne_bytes([bytes[240], bytes[241]])),
    }
}
