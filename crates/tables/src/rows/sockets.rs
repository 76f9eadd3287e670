//! The table `sockets`: samples of every TCP connection. Written by both ends of a load.

use event::{CongestionState, Host, Instant, SocketSample};

use super::steered::SteeredColumns;
use crate::{Row, Visit};

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
    /// Mean deviation of the round-trip time.
    pub rtt_var_ns: Vec<u64>,
    /// Smallest round-trip time seen.
    pub min_rtt_ns: Vec<u64>,
    /// Unacknowledged packets.
    pub unacked_packets: Vec<u32>,
    /// Of the unacknowledged those on the path.
    pub in_flight_packets: Vec<u32>,
    /// Packets thought lost that are not repaired yet.
    pub lost_packets: Vec<u32>,
    /// Packets retransmitted in all.
    pub retransmitted_packets: Vec<u32>,
    /// Retransmission timeouts in all.
    pub timeouts: Vec<u32>,
    /// Packets that have arrived; wraps.
    pub delivered_packets: Vec<u32>,
    /// Of them those that the path had marked (ECN); wraps.
    pub marked_packets: Vec<u32>,
    /// Bytes that the peer has acknowledged.
    pub acked_bytes: Vec<u64>,
    /// What the peer allows to be sent.
    pub snd_wnd_bytes: Vec<u32>,
    /// Delivery rate as the kernel measured it.
    pub delivery_rate_bytes_per_s: Vec<u64>,
    /// 1 if the delivery rate was measured while there was too little to send.
    pub app_limited: Vec<u32>,
    /// Pacing rate in force; 2^64 − 1 if unpaced.
    pub pacing_rate_bytes_per_s: Vec<u64>,
    /// Bytes written to the socket and not yet sent.
    pub notsent_bytes: Vec<u32>,
    /// Time with something to send or unacknowledged.
    pub busy_ns: Vec<u64>,
    /// Of that the time in which the peer's receive window was full.
    pub rwnd_limited_ns: Vec<u64>,
    /// Of that the time in which the send buffer was full.
    pub sndbuf_limited_ns: Vec<u64>,
    /// Payload that was not handed to the socket, whatever it waits for.
    pub unsent_bytes: Vec<u64>,
    /// Mean length of the requests since the last sample.
    pub request_bytes: Vec<u64>,
    /// Commands that the target lets this session have open; 0 if not known.
    pub command_window: Vec<u32>,
    /// Time that the loop of this connection has waited for something to do.
    pub loop_idle_ns: Vec<u64>,
    /// CPU time that its thread has used.
    pub loop_cpu_ns: Vec<u64>,
    /// How its policy was asked, and what it said.
    pub steered: SteeredColumns,
}

impl Sockets {
    /// One row.
    pub fn sample(&self, row: usize) -> SocketSample {
        SocketSample {
            t: Instant::from_nanos(self.t_ns[row]),
            host: self.host[row],
            connection: self.connection[row],
            app_rx_bytes: self.app_rx_bytes[row],
            app_tx_bytes: self.app_tx_bytes[row],
            cwnd_packets: self.cwnd_packets[row],
            ssthresh_packets: self.ssthresh_packets[row],
            mss_bytes: self.mss_bytes[row],
            state: self.state[row],
            rtt_ns: self.rtt_ns[row],
            rtt_var_ns: self.rtt_var_ns[row],
            min_rtt_ns: self.min_rtt_ns[row],
            unacked_packets: self.unacked_packets[row],
            in_flight_packets: self.in_flight_packets[row],
            lost_packets: self.lost_packets[row],
            retransmitted_packets: self.retransmitted_packets[row],
            timeouts: self.timeouts[row],
            delivered_packets: self.delivered_packets[row],
            marked_packets: self.marked_packets[row],
            acked_bytes: self.acked_bytes[row],
            snd_wnd_bytes: self.snd_wnd_bytes[row],
            delivery_rate_bytes_per_s: self.delivery_rate_bytes_per_s[row],
            is_app_limited: self.app_limited[row] != 0,
            pacing_rate_bytes_per_s: self.pacing_rate_bytes_per_s[row],
            notsent_bytes: self.notsent_bytes[row],
            busy_ns: self.busy_ns[row],
            rwnd_limited_ns: self.rwnd_limited_ns[row],
            sndbuf_limited_ns: self.sndbuf_limited_ns[row],
            unsent_bytes: self.unsent_bytes[row],
            request_bytes: self.request_bytes[row],
            command_window: self.command_window[row],
            loop_idle_ns: self.loop_idle_ns[row],
            loop_cpu_ns: self.loop_cpu_ns[row],
            steered: self.steered.at(row),
        }
    }

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
            rtt_var_ns,
            min_rtt_ns,
            unacked_packets,
            in_flight_packets,
            lost_packets,
            retransmitted_packets,
            timeouts,
            delivered_packets,
            marked_packets,
            acked_bytes,
            snd_wnd_bytes,
            delivery_rate_bytes_per_s,
            app_limited,
            pacing_rate_bytes_per_s,
            notsent_bytes,
            busy_ns,
            rwnd_limited_ns,
            sndbuf_limited_ns,
            unsent_bytes,
            request_bytes,
            command_window,
            loop_idle_ns,
            loop_cpu_ns,
            steered,
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
        self.rtt_var_ns.extend(rtt_var_ns);
        self.min_rtt_ns.extend(min_rtt_ns);
        self.unacked_packets.extend(unacked_packets);
        self.in_flight_packets.extend(in_flight_packets);
        self.lost_packets.extend(lost_packets);
        self.retransmitted_packets.extend(retransmitted_packets);
        self.timeouts.extend(timeouts);
        self.delivered_packets.extend(delivered_packets);
        self.marked_packets.extend(marked_packets);
        self.acked_bytes.extend(acked_bytes);
        self.snd_wnd_bytes.extend(snd_wnd_bytes);
        self.delivery_rate_bytes_per_s.extend(delivery_rate_bytes_per_s);
        self.app_limited.extend(app_limited);
        self.pacing_rate_bytes_per_s.extend(pacing_rate_bytes_per_s);
        self.notsent_bytes.extend(notsent_bytes);
        self.busy_ns.extend(busy_ns);
        self.rwnd_limited_ns.extend(rwnd_limited_ns);
        self.sndbuf_limited_ns.extend(sndbuf_limited_ns);
        self.unsent_bytes.extend(unsent_bytes);
        self.request_bytes.extend(request_bytes);
        self.command_window.extend(command_window);
        self.loop_idle_ns.extend(loop_idle_ns);
        self.loop_cpu_ns.extend(loop_cpu_ns);
        self.steered.append(steered);
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
        columns.rtt_var_ns.push(self.rtt_var_ns);
        columns.min_rtt_ns.push(self.min_rtt_ns);
        columns.unacked_packets.push(self.unacked_packets);
        columns.in_flight_packets.push(self.in_flight_packets);
        columns.lost_packets.push(self.lost_packets);
        columns.retransmitted_packets.push(self.retransmitted_packets);
        columns.timeouts.push(self.timeouts);
        columns.delivered_packets.push(self.delivered_packets);
        columns.marked_packets.push(self.marked_packets);
        columns.acked_bytes.push(self.acked_bytes);
        columns.snd_wnd_bytes.push(self.snd_wnd_bytes);
        columns.delivery_rate_bytes_per_s.push(self.delivery_rate_bytes_per_s);
        columns.app_limited.push(u32::from(self.is_app_limited));
        columns.pacing_rate_bytes_per_s.push(self.pacing_rate_bytes_per_s);
        columns.notsent_bytes.push(self.notsent_bytes);
        columns.busy_ns.push(self.busy_ns);
        columns.rwnd_limited_ns.push(self.rwnd_limited_ns);
        columns.sndbuf_limited_ns.push(self.sndbuf_limited_ns);
        columns.unsent_bytes.push(self.unsent_bytes);
        columns.request_bytes.push(self.request_bytes);
        columns.command_window.push(self.command_window);
        columns.loop_idle_ns.push(self.loop_idle_ns);
        columns.loop_cpu_ns.push(self.loop_cpu_ns);
        columns.steered.push(self.steered.as_ref());
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
        visitor.u64("rtt_var_ns", &mut columns.rtt_var_ns)?;
        visitor.u64("min_rtt_ns", &mut columns.min_rtt_ns)?;
        visitor.u32("unacked_packets", &mut columns.unacked_packets)?;
        visitor.u32("in_flight_packets", &mut columns.in_flight_packets)?;
        visitor.u32("lost_packets", &mut columns.lost_packets)?;
        visitor.u32("retransmitted_packets", &mut columns.retransmitted_packets)?;
        visitor.u32("timeouts", &mut columns.timeouts)?;
        visitor.u32("delivered_packets", &mut columns.delivered_packets)?;
        visitor.u32("marked_packets", &mut columns.marked_packets)?;
        visitor.u64("acked_bytes", &mut columns.acked_bytes)?;
        visitor.u32("snd_wnd_bytes", &mut columns.snd_wnd_bytes)?;
        visitor.u64("delivery_rate_bytes_per_s", &mut columns.delivery_rate_bytes_per_s)?;
        visitor.u32("app_limited", &mut columns.app_limited)?;
        visitor.u64("pacing_rate_bytes_per_s", &mut columns.pacing_rate_bytes_per_s)?;
        visitor.u32("notsent_bytes", &mut columns.notsent_bytes)?;
        visitor.u64("busy_ns", &mut columns.busy_ns)?;
        visitor.u64("rwnd_limited_ns", &mut columns.rwnd_limited_ns)?;
        visitor.u64("sndbuf_limited_ns", &mut columns.sndbuf_limited_ns)?;
        visitor.u64("unsent_bytes", &mut columns.unsent_bytes)?;
        visitor.u64("request_bytes", &mut columns.request_bytes)?;
        visitor.u32("command_window", &mut columns.command_window)?;
        visitor.u64("loop_idle_ns", &mut columns.loop_idle_ns)?;
        visitor.u64("loop_cpu_ns", &mut columns.loop_cpu_ns)?;
        columns.steered.visit(visitor)
    }
}
