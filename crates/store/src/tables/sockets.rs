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
        visitor.u32("notsent_bytes", &mut columns.notsent_bytes)
    }
}
