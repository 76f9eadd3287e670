//! Parameters with which a connection of a session was made.

use crate::{Host, Instant};

/// A row of the table `sessions`: one connection as one end has it after its login. Names follow the keys of RFC 7143
/// section 13.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Login {
    /// End of the login.
    pub t: Instant,
    /// End that recorded it.
    pub host: Host,
    /// ISID and TSIH, as in `layers`.
    pub session: u64,
    /// CID.
    pub cid: u32,
    /// Number of the connection within its process, as in `sockets`.
    pub connection: u32,
    /// `ImmediateData`.
    pub immediate_data: bool,
    /// `InitialR2T`.
    pub initial_r2t: bool,
    /// `FirstBurstLength`.
    pub first_burst_bytes: u32,
    /// `MaxBurstLength`.
    pub max_burst_bytes: u32,
    /// `MaxOutstandingR2T`.
    pub max_outstanding_r2t: u32,
    /// `MaxRecvDataSegmentLength` that the initiator declared.
    pub near_segment_bytes: u32,
    /// `MaxRecvDataSegmentLength` that the target declared.
    pub far_segment_bytes: u32,
    /// Requests that the caller keeps outstanding; 0 if it follows the path, or at the other end.
    pub caller_depth: u32,
    /// Commands that the initiator has in its iSCSI queue at most; 0 if it has no such limit, or at the other end.
    pub queue_limit: u32,
    /// True if Nagle's algorithm is on at this end.
    pub has_nagle: bool,
    /// The most that this end's send buffer may grow to.
    pub send_buffer_max_bytes: u64,
    /// The most that its receive buffer may grow to.
    pub receive_buffer_max_bytes: u64,
}
