//! Tracepoint events of the kernel about a connection or a block device.

use crate::{CongestionState, Host, Instant, Op};

/// Kind of a kernel event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelEvent {
    /// An established connection received a segment: data, or an acknowledgement.
    Received,
    /// The congestion state of a connection changed.
    State,
    /// A connection sent something again.
    Retransmitted,
    /// A request was given to a block device.
    BlockIssued,
    /// A block device has done a request.
    BlockCompleted,
}

/// A row of the table `kernel`. Fields that the event does not carry are 0 or `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelPoint {
    /// Time of the event.
    pub t: Instant,
    /// Kind of the event.
    pub event: KernelEvent,
    /// At which end; `None` for block devices, which belong to the machine.
    pub host: Option<Host>,
    /// Number of the host: near is 0, near2 1 and so on, far is 100, far2 101 and so on.
    pub host_number: u32,
    /// The host at the other end of the connection.
    pub peer_number: u32,
    /// Our port.
    pub local_port: u16,
    /// The peer's.
    pub remote_port: u16,
    /// Congestion window.
    pub cwnd_packets: u32,
    /// Slow-start threshold; above 2^30 if unset.
    pub ssthresh_packets: u32,
    /// Smoothed round-trip time.
    pub srtt_ns: u64,
    /// Send window: bytes that the peer allows.
    pub snd_wnd_bytes: u32,
    /// Receive window: bytes that this end allows.
    pub rcv_wnd_bytes: u32,
    /// The next sequence number to be sent.
    pub snd_nxt: u32,
    /// The first that is not acknowledged.
    pub snd_una: u32,
    /// Payload of the segment.
    pub data_bytes: u32,
    /// The congestion state from now on.
    pub state: Option<CongestionState>,
    /// Major number times 2^20 plus minor.
    pub device: u32,
    /// Operation of a block device's request; `None` for others than reads and writes.
    pub op: Option<Op>,
    /// First byte on the device.
    pub offset_bytes: u64,
    /// Length of the request.
    pub len_bytes: u32,
}

impl KernelEvent {
    /// The name that tables and users see.
    pub const fn name(self) -> &'static str {
        match self {
            KernelEvent::Received => "received",
            KernelEvent::State => "state",
            KernelEvent::Retransmitted => "retransmitted",
            KernelEvent::BlockIssued => "block-issued",
            KernelEvent::BlockCompleted => "block-completed",
        }
    }
}

impl KernelPoint {
    /// That something happened, and nothing else of it.
    pub const fn new(t: Instant, event: KernelEvent) -> KernelPoint {
        KernelPoint {
            t,
            event,
            host: None,
            host_number: 0,
            peer_number: 0,
            local_port: 0,
            remote_port: 0,
            cwnd_packets: 0,
            ssthresh_packets: 0,
            srtt_ns: 0,
            snd_wnd_bytes: 0,
            rcv_wnd_bytes: 0,
            snd_nxt: 0,
            snd_una: 0,
            data_bytes: 0,
            state: None,
            device: 0,
            op: None,
            offset_bytes: 0,
            len_bytes: 0,
        }
    }
}
