//! The table `sessions`: parameters of the connections of sessions, as negotiated at login. Written by both ends.

use event::{Host, Login};

use crate::column::table;

table! {
    /// The table `sessions` as plain columns. Switches are 0 or 1.
    Logins, table "sessions" of login: Login;
    /// End of the login phase, CLOCK_MONOTONIC.
    t_ns: Vec<u64> = login.t,
    /// End that wrote the row.
    host: Vec<Host> = login.host,
    /// ISID and TSIH.
    session: Vec<u64> = login.session,
    /// CID.
    cid: Vec<u32> = login.cid,
    /// Number of the connection within its process.
    connection: Vec<u32> = login.connection,
    /// `ImmediateData`.
    immediate_data: Vec<u32> = login.immediate_data,
    /// `InitialR2T`.
    initial_r2t: Vec<u32> = login.initial_r2t,
    /// `FirstBurstLength`.
    first_burst_bytes: Vec<u32> = login.first_burst_bytes,
    /// `MaxBurstLength`.
    max_burst_bytes: Vec<u32> = login.max_burst_bytes,
    /// `MaxOutstandingR2T`.
    max_outstanding_r2t: Vec<u32> = login.max_outstanding_r2t,
    /// `MaxRecvDataSegmentLength` of the initiator.
    near_segment_bytes: Vec<u32> = login.near_segment_bytes,
    /// `MaxRecvDataSegmentLength` of the target.
    far_segment_bytes: Vec<u32> = login.far_segment_bytes,
    /// Queue depth of the caller; 0: it follows the path, or is not known at this end.
    caller_depth: Vec<u32> = login.caller_depth,
    /// Limit of the initiator's iSCSI queue; 0: no limit, or not known at this end.
    queue_limit: Vec<u32> = login.queue_limit,
    /// 1 if Nagle's algorithm is on.
    has_nagle: Vec<u32> = login.has_nagle,
    /// Upper limit of send buffer autotuning.
    send_buffer_max_bytes: Vec<u64> = login.send_buffer_max_bytes,
    /// Upper limit of receive buffer autotuning.
    receive_buffer_max_bytes: Vec<u64> = login.receive_buffer_max_bytes,
}
