//! One request on its way through the layers of one end, and the PDUs that carried it.
//!
//! [`Instant::ZERO`] stands for a hand-over that did not happen or was not observed.

use crate::{Host, Instant, Op};

/// Name of a request at both ends, without state shared between them. An ITT is reused; the command number tells its
/// uses apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RequestId {
    /// ISID (48 bits) and TSIH (16 bits) of the session.
    pub session: u64,
    /// CID of the connection.
    pub connection: u32,
    /// Initiator task tag.
    pub itt: u32,
    /// Command number.
    pub cmd_sn: u32,
}

impl RequestId {
    /// A session's number in the tables.
    pub const fn session_of(isid: [u8; 6], tsih: u16) -> u64 {
        let [a, b, c, d, e, f] = isid;
        let [g, h] = tsih.to_be_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

/// TCP's times of the last byte of a PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpTimes {
    /// Passed to the device's queueing discipline.
    pub queued: Instant,
    /// Passed to the device.
    pub wire: Instant,
    /// Acknowledged by the peer's TCP.
    pub acked: Instant,
}

/// A row of the table `layers`: a request as one end saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layers<T = LayerTimes> {
    /// Id of the request.
    pub id: RequestId,
    /// Read or write.
    pub op: Op,
    /// SCSI status byte (0 is GOOD).
    pub status: u8,
    /// Number of the LUN.
    pub lun: u16,
    /// Bytes of data.
    pub len_bytes: u32,
    /// First byte on the LUN.
    pub offset_bytes: u64,
    /// End of the command PDU in the stream from the initiator to the target.
    pub command_stream_end: u64,
    /// End of the PDU with the status in the stream from the target to the initiator.
    pub status_stream_end: u64,
    /// TCP times of the PDU that this end sends: the command at the near end, the status at the far end.
    pub tcp: TcpTimes,
    /// Times of the hand-over between layers.
    pub times: T,
}

/// Times of a request by layer, recorded at one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayerTimes {
    /// Recorded at the initiator.
    Near(NearTimes),
    /// Recorded at the target.
    Far(FarTimes),
}

/// Times of a request at the initiator, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NearTimes {
    /// The caller issued it.
    pub called: Instant,
    /// The SCSI layer made a command of it.
    pub scsi: Instant,
    /// Taken into the iSCSI queue: it was below the queue limit.
    pub queued: Instant,
    /// The command window let it go.
    pub granted: Instant,
    /// The sender accepted its first PDU.
    pub started: Instant,
    /// The socket took the last byte of its command PDU.
    pub socketed: Instant,
    /// The first Data-In PDU or R2T arrived.
    pub data_first: Instant,
    /// The last byte of the last Data-In PDU, or the last R2T, arrived.
    pub data_last: Instant,
    /// The status arrived.
    pub status: Instant,
    /// The caller received the completion.
    pub completed: Instant,
}

/// Times of a request at the target, in the order of a write; a read has neither R2T nor Data-Out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FarTimes {
    /// The header of its command PDU was read from the socket; data that comes with it may still be on its way.
    pub received: Instant,
    /// Accepted, in the order of command numbers.
    pub parsed: Instant,
    /// Start of its execution.
    pub executed: Instant,
    /// The sender accepted the first R2T.
    pub r2t_first: Instant,
    /// The last byte of its data arrived.
    pub data_out_last: Instant,
    /// The store was called.
    pub store_begin: Instant,
    /// The store had done its work.
    pub store_end: Instant,
    /// The session accepted its data, or its status if there are none, for sending.
    pub answered: Instant,
    /// The socket took the last byte of the PDU with its status.
    pub sent: Instant,
}

impl<T: Into<LayerTimes>> Layers<T> {
    /// The row of the table.
    pub fn into_row(self) -> Layers {
        Layers {
            id: self.id,
            op: self.op,
            status: self.status,
            lun: self.lun,
            len_bytes: self.len_bytes,
            offset_bytes: self.offset_bytes,
            command_stream_end: self.command_stream_end,
            status_stream_end: self.status_stream_end,
            tcp: self.tcp,
            times: self.times.into(),
        }
    }
}

impl From<NearTimes> for LayerTimes {
    fn from(times: NearTimes) -> LayerTimes {
        LayerTimes::Near(times)
    }
}

impl From<FarTimes> for LayerTimes {
    fn from(times: FarTimes) -> LayerTimes {
        LayerTimes::Far(times)
    }
}

impl LayerTimes {
    /// At which end they were taken.
    pub const fn host(&self) -> Host {
        match self {
            LayerTimes::Near(_) => Host::Near,
            LayerTimes::Far(_) => Host::Far,
        }
    }
}

/// Direction of a PDU at one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Sent by this end.
    Out,
    /// Received by this end.
    In,
}

/// Type of a PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PduKind {
    /// SCSI Command.
    Command,
    /// SCSI Response.
    Response,
    /// Data-In.
    DataIn,
    /// Data-Out.
    DataOut,
    /// R2T.
    R2t,
    /// Task management, request or response.
    Management,
    /// NOP, out or in.
    Nop,
    /// Text, request or response.
    Text,
    /// Logout, request or response.
    Logout,
    /// Asynchronous Message.
    Async,
    /// Reject.
    Reject,
    /// Anything else.
    Other,
}

/// A row of the table `pdus`: a PDU as one end saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PduSeen {
    /// Creation of the PDU at its sender; read of its last byte at its receiver.
    pub t: Instant,
    /// At which end.
    pub host: Host,
    /// The request to which it belongs; command number 0 if it belongs to none.
    pub id: RequestId,
    /// Sent or received.
    pub way: Way,
    /// Type of the PDU.
    pub kind: PduKind,
    /// True if it carries the status of its request.
    pub has_status: bool,
    /// StatSN, 0 where the PDU has none.
    pub stat_sn: u32,
    /// DataSN or R2TSN, 0 where the PDU has none.
    pub data_sn: u32,
    /// Buffer offset of its data, or of the data it asks for.
    pub offset_bytes: u32,
    /// Bytes of data in it; of an R2T, the requested bytes.
    pub len_bytes: u32,
    /// Offset of its first byte in its stream.
    pub stream_begin: u64,
    /// Offset behind its last byte in its stream.
    pub stream_end: u64,
    /// The socket took its last byte.
    pub socketed: Instant,
    /// TCP's times of its last byte.
    pub tcp: TcpTimes,
}

impl Way {
    /// The name that tables and users see.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Out => "out",
            Way::In => "in",
        }
    }
}

impl PduKind {
    /// The name that tables and users see.
    pub const fn name(self) -> &'static str {
        match self {
            PduKind::Command => "command",
            PduKind::Response => "response",
            PduKind::DataIn => "data-in",
            PduKind::DataOut => "data-out",
            PduKind::R2t => "r2t",
            PduKind::Management => "management",
            PduKind::Nop => "nop",
            PduKind::Text => "text",
            PduKind::Logout => "logout",
            PduKind::Async => "async",
            PduKind::Reject => "reject",
            PduKind::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_its_isid_and_its_tsih() {
        let isid = [0x80, 1, 2, 3, 4, 5];
        assert_eq!(RequestId::session_of(isid, 0x0607), 0x8001_0203_0405_0607);
    }
}
