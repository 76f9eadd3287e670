//! One request on its way through the layers of one end, and the PDUs that carried it.
//!
//! Times that are [`Instant::ZERO`] belong to what did not happen or was not seen.

use crate::{Host, Instant, Op};

/// What names a request at both ends, with no state shared between them. ITTs are used again; the command
/// number tells one use from the next.
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

/// What TCP did with the last byte of a PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpTimes {
    /// Handed to the queue of the device.
    pub queued: Instant,
    /// Handed to the device.
    pub wire: Instant,
    /// Acknowledged by the peer's TCP.
    pub acked: Instant,
}

/// A row of the table `layers`: a request as one end saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layers<T = LayerTimes> {
    /// Which request.
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
    /// Where its command PDU ends in the stream from the initiator to the target.
    pub command_stream_end: u64,
    /// Where the PDU with its status ends in the stream from the target to the initiator.
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

/// A request at the initiator, in the order of what happens.
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
    /// Its first PDU was handed to the sender.
    pub started: Instant,
    /// The socket took the last byte of its command PDU.
    pub socketed: Instant,
    /// The first Data-In PDU or R2T came.
    pub data_first: Instant,
    /// The last byte of the last Data-In PDU came, or the last R2T.
    pub data_last: Instant,
    /// The status came.
    pub status: Instant,
    /// The caller was told.
    pub completed: Instant,
}

/// A request at the target, in the order of what happens to a write; a read has no R2T and no Data-Out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FarTimes {
    /// The header of its command PDU was read from the socket; data that comes with it may still be on its way.
    pub received: Instant,
    /// Accepted, in the order of command numbers.
    pub parsed: Instant,
    /// Its execution began.
    pub executed: Instant,
    /// The first R2T was handed to the sender.
    pub r2t_first: Instant,
    /// The last byte of its data came.
    pub data_out_last: Instant,
    /// The store was called.
    pub store_begin: Instant,
    /// The store had done its work.
    pub store_end: Instant,
    /// Its data, or its status if it has none, was given to the session to be sent.
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

/// Whether an end sends a PDU or receives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It sends it.
    Out,
    /// It receives it.
    In,
}

/// What a PDU is.
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
    /// When it was made, or when its last byte was read.
    pub t: Instant,
    /// At which end.
    pub host: Host,
    /// The request it belongs to; the command number is 0 for what belongs to none.
    pub id: RequestId,
    /// Sent or received.
    pub way: Way,
    /// What it is.
    pub kind: PduKind,
    /// It carries the status of its request.
    pub has_status: bool,
    /// StatSN, 0 where the PDU has none.
    pub stat_sn: u32,
    /// DataSN or R2TSN, 0 where the PDU has none.
    pub data_sn: u32,
    /// Buffer offset of its data, or of the data it asks for.
    pub offset_bytes: u32,
    /// Bytes of data that it carries; those that it asks for if it is an R2T.
    pub len_bytes: u32,
    /// Where it begins in its stream.
    pub stream_begin: u64,
    /// Where it ends in its stream.
    pub stream_end: u64,
    /// The socket took its last byte.
    pub socketed: Instant,
    /// What TCP did with its last byte.
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
