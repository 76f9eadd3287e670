//! The table `sessions`: what the connections of sessions were made with. Written by both ends.

use event::{Host, Login};

use crate::{Row, Visit};

/// The table `sessions` as plain columns. Switches are 0 or 1.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Logins {
    /// When the login was over, CLOCK_MONOTONIC.
    pub t_ns: Vec<u64>,
    /// At which end.
    pub host: Vec<Host>,
    /// ISID and TSIH.
    pub session: Vec<u64>,
    /// CID.
    pub cid: Vec<u32>,
    /// Number of the connection within its process.
    pub connection: Vec<u32>,
    /// `ImmediateData`.
    pub immediate_data: Vec<u32>,
    /// `InitialR2T`.
    pub initial_r2t: Vec<u32>,
    /// `FirstBurstLength`.
    pub first_burst_bytes: Vec<u32>,
    /// `MaxBurstLength`.
    pub max_burst_bytes: Vec<u32>,
    /// `MaxOutstandingR2T`.
    pub max_outstanding_r2t: Vec<u32>,
    /// `MaxRecvDataSegmentLength` of the initiator.
    pub near_segment_bytes: Vec<u32>,
    /// `MaxRecvDataSegmentLength` of the target.
    pub far_segment_bytes: Vec<u32>,
    /// Requests that the caller keeps outstanding; 0: it follows the path, or not known here.
    pub caller_depth: Vec<u32>,
    /// Commands in the initiator's iSCSI queue at most; 0: no limit, or not known here.
    pub queue_limit: Vec<u32>,
    /// Whether Nagle's algorithm is on.
    pub has_nagle: Vec<u32>,
    /// The most that the send buffer may grow to.
    pub send_buffer_max_bytes: Vec<u64>,
    /// The most that the receive buffer may grow to.
    pub receive_buffer_max_bytes: Vec<u64>,
}

impl Row for Login {
    const TABLE: &'static str = "sessions";
    type Columns = Logins;

    fn push(&self, columns: &mut Logins) {
        columns.t_ns.push(self.t.as_nanos());
        columns.host.push(self.host);
        columns.session.push(self.session);
        columns.cid.push(self.cid);
        columns.connection.push(self.connection);
        columns.immediate_data.push(self.immediate_data.into());
        columns.initial_r2t.push(self.initial_r2t.into());
        columns.first_burst_bytes.push(self.first_burst_bytes);
        columns.max_burst_bytes.push(self.max_burst_bytes);
        columns.max_outstanding_r2t.push(self.max_outstanding_r2t);
        columns.near_segment_bytes.push(self.near_segment_bytes);
        columns.far_segment_bytes.push(self.far_segment_bytes);
        columns.caller_depth.push(self.caller_depth);
        columns.queue_limit.push(self.queue_limit);
        columns.has_nagle.push(self.has_nagle.into());
        columns.send_buffer_max_bytes.push(self.send_buffer_max_bytes);
        columns.receive_buffer_max_bytes.push(self.receive_buffer_max_bytes);
    }

    fn visit<V: Visit>(columns: &mut Logins, visitor: &mut V) -> Result<(), V::Error> {
        visitor.u64("t_ns", &mut columns.t_ns)?;
        visitor.word("host", &mut columns.host)?;
        visitor.u64("session", &mut columns.session)?;
        visitor.u32("cid", &mut columns.cid)?;
        visitor.u32("connection", &mut columns.connection)?;
        visitor.u32("immediate_data", &mut columns.immediate_data)?;
        visitor.u32("initial_r2t", &mut columns.initial_r2t)?;
        visitor.u32("first_burst_bytes", &mut columns.first_burst_bytes)?;
        visitor.u32("max_burst_bytes", &mut columns.max_burst_bytes)?;
        visitor.u32("max_outstanding_r2t", &mut columns.max_outstanding_r2t)?;
        visitor.u32("near_segment_bytes", &mut columns.near_segment_bytes)?;
        visitor.u32("far_segment_bytes", &mut columns.far_segment_bytes)?;
        visitor.u32("caller_depth", &mut columns.caller_depth)?;
        visitor.u32("queue_limit", &mut columns.queue_limit)?;
        visitor.u32("has_nagle", &mut columns.has_nagle)?;
        visitor.u64("send_buffer_max_bytes", &mut columns.send_buffer_max_bytes)?;
        visitor.u64("receive_buffer_max_bytes", &mut columns.receive_buffer_max_bytes)
    }
}
