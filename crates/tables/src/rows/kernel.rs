//! The table `kernel`: what the kernel itself said of connections and block devices. Written by
//! `farlun wan --trace-kernel`.

use event::{CongestionState, Host, KernelEvent, KernelPoint, Op};

use crate::{Row, Visit};

/// The table `kernel` as plain columns. What an event does not say is 0 or none.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct KernelPoints {
    /// When it happened, CLOCK_MONOTONIC.
    pub t_ns: Vec<u64>,
    /// What happened.
    pub event: Vec<KernelEvent>,
    /// At which end; none for block devices.
    pub host: Vec<Option<Host>>,
    /// Which host.
    pub host_number: Vec<u32>,
    /// The host at the other end of the connection.
    pub peer_number: Vec<u32>,
    /// Port of that host.
    pub local_port: Vec<u32>,
    /// Port of its peer.
    pub remote_port: Vec<u32>,
    /// Congestion window.
    pub cwnd_packets: Vec<u32>,
    /// Slow-start threshold; more than 2^30 while there is none.
    pub ssthresh_packets: Vec<u32>,
    /// Smoothed round-trip time.
    pub srtt_ns: Vec<u64>,
    /// What the peer allows to be sent.
    pub snd_wnd_bytes: Vec<u32>,
    /// What the peer may send.
    pub rcv_wnd_bytes: Vec<u32>,
    /// The next sequence number to be sent.
    pub snd_nxt: Vec<u32>,
    /// The first that is not acknowledged.
    pub snd_una: Vec<u32>,
    /// Payload of the segment that was received.
    pub data_bytes: Vec<u32>,
    /// The congestion state from now on.
    pub state: Vec<Option<CongestionState>>,
    /// The block device.
    pub device: Vec<u32>,
    /// What a request of it does.
    pub op: Vec<Option<Op>>,
    /// First byte on it.
    pub offset_bytes: Vec<u64>,
    /// Length of the request.
    pub len_bytes: Vec<u32>,
}

impl Row for KernelPoint {
    const TABLE: &'static str = "kernel";
    type Columns = KernelPoints;

    fn push(&self, columns: &mut KernelPoints) {
        columns.t_ns.push(self.t.as_nanos());
        columns.event.push(self.event);
        columns.host.push(self.host);
        columns.host_number.push(self.host_number);
        columns.peer_number.push(self.peer_number);
        columns.local_port.push(u32::from(self.local_port));
        columns.remote_port.push(u32::from(self.remote_port));
        columns.cwnd_packets.push(self.cwnd_packets);
        columns.ssthresh_packets.push(self.ssthresh_packets);
        columns.srtt_ns.push(self.srtt_ns);
        columns.snd_wnd_bytes.push(self.snd_wnd_bytes);
        columns.rcv_wnd_bytes.push(self.rcv_wnd_bytes);
        columns.snd_nxt.push(self.snd_nxt);
        columns.snd_una.push(self.snd_una);
        columns.data_bytes.push(self.data_bytes);
        columns.state.push(self.state);
        columns.device.push(self.device);
        columns.op.push(self.op);
        columns.offset_bytes.push(self.offset_bytes);
        columns.len_bytes.push(self.len_bytes);
    }

    fn visit<V: Visit>(columns: &mut KernelPoints, visitor: &mut V) -> Result<(), V::Error> {
        visitor.u64("t_ns", &mut columns.t_ns)?;
        visitor.word("event", &mut columns.event)?;
        visitor.word("host", &mut columns.host)?;
        visitor.u32("host_number", &mut columns.host_number)?;
        visitor.u32("peer_number", &mut columns.peer_number)?;
        visitor.u32("local_port", &mut columns.local_port)?;
        visitor.u32("remote_port", &mut columns.remote_port)?;
        visitor.u32("cwnd_packets", &mut columns.cwnd_packets)?;
        visitor.u32("ssthresh_packets", &mut columns.ssthresh_packets)?;
        visitor.u64("srtt_ns", &mut columns.srtt_ns)?;
        visitor.u32("snd_wnd_bytes", &mut columns.snd_wnd_bytes)?;
        visitor.u32("rcv_wnd_bytes", &mut columns.rcv_wnd_bytes)?;
        visitor.u32("snd_nxt", &mut columns.snd_nxt)?;
        visitor.u32("snd_una", &mut columns.snd_una)?;
        visitor.u32("data_bytes", &mut columns.data_bytes)?;
        visitor.word("state", &mut columns.state)?;
        visitor.u32("device", &mut columns.device)?;
        visitor.word("op", &mut columns.op)?;
        visitor.u64("offset_bytes", &mut columns.offset_bytes)?;
        visitor.u32("len_bytes", &mut columns.len_bytes)
    }
}
