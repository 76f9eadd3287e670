//! The table `sockets`: samples of every TCP connection. Written by both ends of a load.

use event::{CongestionState, Host, SocketSample};

use super::{Row, Visit};

/// The table `sockets` as plain columns. Counters run from the start of the connection.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sockets {
    /// When the sample was taken, CLOCK_MONOTONIC.
    pub t_ns: Vec<u64>,
    /// At which end.
    pub host: Vec<Host>,
    /// Connection number within the process.
    pub connection: Vec<u32>,
    /// Application payload received so far.
    pub app_rx_bytes: Vec<u64>,
    /// Application payload handed to the socket so far.
    pub app_tx_bytes: Vec<u64>,
    /// Congestion window.
    pub cwnd_packets: Vec<u32>,
    /// Slow-start threshold; more than 2^30 while there is none.
    pub ssthresh_packets: Vec<u32>,
    /// Maximum segment size for sending.
    pub mss_bytes: Vec<u32>,
    /// Congestion state.
    pub state: Vec<CongestionState>,
    /// Smoothed round-trip time.
    pub rtt_ns: Vec<u64>,
    /// Smallest round-trip time seen.
    pub min_rtt_ns: Vec<u64>,
    /// Unacknowledged packets.
    pub unacked_packets: Vec<u32>,
    /// Packets retransmitted in all.
    pub retransmitted_packets: Vec<u32>,
    /// Delivery rate as the kernel measured it.
    pub delivery_rate_bytes_per_s: Vec<u64>,
    /// Pacing rate in force; 2^64 − 1 if unpaced.
    pub pacing_rate_bytes_per_s: Vec<u64>,
    /// Bytes written to the socket and not yet sent.
    pub notsent_bytes: Vec<u32>,
    /// Payload that was not handed to the socket, whatever it waits for.
    pub unsent_bytes: Vec<u64>,
    /// Bytes that the peer lets be under way.
    pub peer_window_bytes: Vec<u32>,
    /// Time with something to send or not acknowledged.
    pub busy_ns: Vec<u64>,
    /// Of that, limited by the peer's window.
    pub receive_window_limited_ns: Vec<u64>,
    /// Of that, limited by the send buffer.
    pub send_buffer_limited_ns: Vec<u64>,
    /// Commands that the target lets this session have open; 0 if not known.
    pub command_window: Vec<u32>,
    /// Time that the loop of this connection has waited for something to do.
    pub loop_idle_ns: Vec<u64>,
    /// CPU time that its thread has used.
    pub loop_cpu_ns: Vec<u64>,
}

impl Sockets {
    /// Puts the rows of another such table behind these.
    pub fn append(&mut self, other: Sockets) {
        let Sockets {
            t_ns,
            host,
            connection,
            app_rx_bytes,
            app_tx_bytes,
            cwnd_packets,
            ssthresh_packets,
            mss_bytes,
            state,
            rtt_ns,
            min_rtt_ns,
            unacked_packets,
            retransmitted_packets,
            delivery_rate_bytes_per_s,
            pacing_rate_bytes_per_s,
            notsent_bytes,
            unsent_bytes,
            peer_window_bytes,
            busy_ns,
            receive_window_limited_ns,
            send_buffer_limited_ns,
            command_window,
            loop_idle_ns,
            loop_cpu_ns,
        } = other;
        self.t_ns.extend(t_ns);
        self.host.extend(host);
        self.connection.extend(connection);
        self.app_rx_bytes.extend(app_rx_bytes);
        self.app_tx_bytes.extend(app_tx_bytes);
        self.cwnd_packets.extend(cwnd_packets);
        self.ssthresh_packets.extend(ssthresh_packets);
        self.mss_bytes.extend(mss_bytes);
        self.state.extend(state);
        self.rtt_ns.extend(rtt_ns);
        self.min_rtt_ns.extend(min_rtt_ns);
        self.unacked_packets.extend(unacked_packets);
        self.retransmitted_packets.extend(retransmitted_packets);
        self.delivery_rate_bytes_per_s.extend(delivery_rate_bytes_per_s);
        self.pacing_rate_bytes_per_s.extend(pacing_rate_bytes_per_s);
        self.notsent_bytes.extend(notsent_bytes);
        self.unsent_bytes.extend(unsent_bytes);
        self.peer_window_bytes.extend(peer_window_bytes);
        self.busy_ns.extend(busy_ns);
        self.receive_window_limited_ns.extend(receive_window_limited_ns);
        self.send_buffer_limited_ns.extend(send_buffer_limited_ns);
        self.command_window.extend(command_window);
        self.loop_idle_ns.extend(loop_idle_ns);
        self.loop_cpu_ns.extend(loop_cpu_ns);
    }
}

impl Row for SocketSample {
    const TABLE: &'static str = "sockets";
    type Columns = Sockets;

    fn push(&self, columns: &mut Sockets) {
        columns.t_ns.push(self.t.as_nanos());
        columns.host.push(self.host);
        columns.connection.push(self.connection);
        columns.app_rx_bytes.push(self.app_rx_bytes);
        columns.app_tx_bytes.push(self.app_tx_bytes);
        columns.cwnd_packets.push(self.cwnd_packets);
        columns.ssthresh_packets.push(self.ssthresh_packets);
        columns.mss_bytes.push(self.mss_bytes);
        columns.state.push(self.state);
        columns.rtt_ns.push(self.rtt_ns);
        columns.min_rtt_ns.push(self.min_rtt_ns);
        columns.unacked_packets.push(self.unacked_packets);
        columns.retransmitted_packets.push(self.retransmitted_packets);
        columns.delivery_rate_bytes_per_s.push(self.delivery_rate_bytes_per_s);
        columns.pacing_rate_bytes_per_s.push(self.pacing_rate_bytes_per_s);
        columns.notsent_bytes.push(self.notsent_bytes);
        columns.unsent_bytes.push(self.unsent_bytes);
        columns.peer_window_bytes.push(self.peer_window_bytes);
        columns.busy_ns.push(self.busy_ns);
        columns.receive_window_limited_ns.push(self.receive_window_limited_ns);
        columns.send_buffer_limited_ns.push(self.send_buffer_limited_ns);
        columns.command_window.push(self.command_window);
        columns.loop_idle_ns.push(self.loop_idle_ns);
        columns.loop_cpu_ns.push(self.loop_cpu_ns);
    }

    fn visit<V: Visit>(columns: &mut Sockets, visitor: &mut V) -> Result<(), V::Error> {
        visitor.u64("t_ns", &mut columns.t_ns)?;
        visitor.word("host", &mut columns.host)?;
        visitor.u32("connection", &mut columns.connection)?;
        visitor.u64("app_rx_bytes", &mut columns.app_rx_bytes)?;
        visitor.u64("app_tx_bytes", &mut columns.app_tx_bytes)?;
        visitor.u32("cwnd_packets", &mut columns.cwnd_packets)?;
        visitor.u32("ssthresh_packets", &mut columns.ssthresh_packets)?;
        visitor.u32("mss_bytes", &mut columns.mss_bytes)?;
        visitor.word("state", &mut columns.state)?;
        visitor.u64("rtt_ns", &mut columns.rtt_ns)?;
        visitor.u64("min_rtt_ns", &mut columns.min_rtt_ns)?;
        visitor.u32("unacked_packets", &mut columns.unacked_packets)?;
        visitor.u32("retransmitted_packets", &mut columns.retransmitted_packets)?;
        visitor.u64("delivery_rate_bytes_per_s", &mut columns.delivery_rate_bytes_per_s)?;
        visitor.u64("pacing_rate_bytes_per_s", &mut columns.pacing_rate_bytes_per_s)?;
        visitor.u32("notsent_bytes", &mut columns.notsent_bytes)?;
        visitor.u64("unsent_bytes", &mut columns.unsent_bytes)?;
        visitor.u32("peer_window_bytes", &mut columns.peer_window_bytes)?;
        visitor.u64("busy_ns", &mut columns.busy_ns)?;
        visitor.u64("receive_window_limited_ns", &mut columns.receive_window_limited_ns)?;
        visitor.u64("send_buffer_limited_ns", &mut columns.send_buffer_limited_ns)?;
        visitor.u32("command_window", &mut columns.command_window)?;
        visitor.u64("loop_idle_ns", &mut columns.loop_idle_ns)?;
        visitor.u64("loop_cpu_ns", &mut columns.loop_cpu_ns)
    }
}
