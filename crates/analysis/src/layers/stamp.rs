//! The hand-overs of a request that the table `layers` has a time for, in the order of the path.

use event::Host;
use tables::LayerColumns;

/// One hand-over. Its column of the table is its name and `_t_ns`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stamp {
    /// The caller issued it.
    Called,
    /// The SCSI layer made a CDB of it.
    Scsi,
    /// Taken into the iSCSI queue.
    Queued,
    /// The command window let it go.
    Granted,
    /// The sender accepted its first PDU.
    Started,
    /// The socket took the last byte of its command PDU.
    Socketed,
    /// TCP at the initiator passed that byte to the device's queueing discipline.
    NearTcpQueued,
    /// The device took it.
    NearTcpWire,
    /// The target read the header of its command PDU; immediate data may still be on its way.
    Received,
    /// The peer's TCP acknowledged the last byte of its command PDU to the initiator.
    NearTcpAcked,
    /// Accepted in the order of CmdSN.
    Parsed,
    /// The target made the first R2T.
    R2tFirst,
    /// The last byte of its data arrived, immediate data included.
    DataOutLast,
    /// The execution of the SCSI command began.
    Executed,
    /// The store was called.
    StoreBegin,
    /// The store was done.
    StoreEnd,
    /// Its data, or its status if there are none, were queued.
    Answered,
    /// The target's socket took its last byte.
    Sent,
    /// TCP at the target passed that byte to the device's queueing discipline.
    FarTcpQueued,
    /// The device took it.
    FarTcpWire,
    /// The first Data-In, or the first R2T of a write, arrived.
    DataFirst,
    /// The last byte of the last Data-In, or the last R2T of a write, arrived.
    DataLast,
    /// The status arrived.
    Status,
    /// The initiator's TCP acknowledged the status to the target.
    FarTcpAcked,
    /// The caller received the completion.
    Completed,
}

impl Stamp {
    /// Every hand-over, from the caller to the store and back.
    pub const ALL: [Stamp; 25] = [
        Stamp::Called,
        Stamp::Scsi,
        Stamp::Queued,
        Stamp::Granted,
        Stamp::Started,
        Stamp::Socketed,
        Stamp::NearTcpQueued,
        Stamp::NearTcpWire,
        Stamp::Received,
        Stamp::NearTcpAcked,
        Stamp::Parsed,
        Stamp::R2tFirst,
        Stamp::DataOutLast,
        Stamp::Executed,
        Stamp::StoreBegin,
        Stamp::StoreEnd,
        Stamp::Answered,
        Stamp::Sent,
        Stamp::FarTcpQueued,
        Stamp::FarTcpWire,
        Stamp::DataFirst,
        Stamp::DataLast,
        Stamp::Status,
        Stamp::FarTcpAcked,
        Stamp::Completed,
    ];

    /// Host of the hand-over.
    pub const fn host(self) -> Host {
        use Stamp::{
            Answered, DataOutLast, Executed, FarTcpAcked, FarTcpQueued, FarTcpWire, Parsed, R2tFirst,
            Received, Sent, StoreBegin, StoreEnd,
        };
        match self {
            Received | Parsed | R2tFirst | DataOutLast | Executed | StoreBegin | StoreEnd | Answered
            | Sent | FarTcpQueued | FarTcpWire | FarTcpAcked => Host::Far,
            _ => Host::Near,
        }
    }

    /// The hand-over in words, for labels of drawings.
    pub const fn words(self) -> &'static str {
        match self {
            Stamp::Called => "called",
            Stamp::Scsi => "SCSI command made",
            Stamp::Queued => "in the iSCSI queue",
            Stamp::Granted => "window granted",
            Stamp::Started => "send started",
            Stamp::Socketed => "in the socket",
            Stamp::NearTcpQueued => "TCP: queued to the device",
            Stamp::NearTcpWire => "TCP: on the wire",
            Stamp::NearTcpAcked => "TCP: acknowledged",
            Stamp::Received => "received by the target",
            Stamp::Parsed => "parsed, in order",
            Stamp::R2tFirst => "R2T made",
            Stamp::DataOutLast => "all data received",
            Stamp::Executed => "execution begun",
            Stamp::StoreBegin => "store called",
            Stamp::StoreEnd => "store done",
            Stamp::Answered => "answer queued",
            Stamp::Sent => "status in the socket",
            Stamp::FarTcpQueued => "TCP: status queued to the device",
            Stamp::FarTcpWire => "TCP: status on the wire",
            Stamp::FarTcpAcked => "TCP: status acknowledged",
            Stamp::DataFirst => "first answer received",
            Stamp::DataLast => "all data received",
            Stamp::Status => "status received",
            Stamp::Completed => "caller told",
        }
    }

    /// True if only a sample of the requests has it.
    pub(super) const fn is_sampled(self) -> bool {
        use Stamp::{FarTcpAcked, FarTcpQueued, FarTcpWire, NearTcpAcked, NearTcpQueued, NearTcpWire};
        matches!(self, FarTcpAcked | FarTcpQueued | FarTcpWire | NearTcpAcked | NearTcpQueued | NearTcpWire)
    }

    /// The name of its column.
    pub(super) const fn column(self) -> &'static str {
        match self {
            Stamp::Called => "called_t_ns",
            Stamp::Scsi => "scsi_t_ns",
            Stamp::Queued => "queued_t_ns",
            Stamp::Granted => "granted_t_ns",
            Stamp::Started => "started_t_ns",
            Stamp::Socketed => "socketed_t_ns",
            Stamp::NearTcpQueued | Stamp::FarTcpQueued => "tcp_queued_t_ns",
            Stamp::NearTcpWire | Stamp::FarTcpWire => "tcp_wire_t_ns",
            Stamp::NearTcpAcked | Stamp::FarTcpAcked => "tcp_acked_t_ns",
            Stamp::Received => "received_t_ns",
            Stamp::Parsed => "parsed_t_ns",
            Stamp::R2tFirst => "r2t_first_t_ns",
            Stamp::DataOutLast => "data_out_last_t_ns",
            Stamp::Executed => "executed_t_ns",
            Stamp::StoreBegin => "store_begin_t_ns",
            Stamp::StoreEnd => "store_end_t_ns",
            Stamp::Answered => "answered_t_ns",
            Stamp::Sent => "sent_t_ns",
            Stamp::DataFirst => "data_first_t_ns",
            Stamp::DataLast => "data_last_t_ns",
            Stamp::Status => "status_t_ns",
            Stamp::Completed => "completed_t_ns",
        }
    }

    /// Its column. TCP's times are the near host's in the near host's rows, and the far host's in the far one's.
    pub(super) fn of(self, columns: &LayerColumns) -> &[u64] {
        match self {
            Stamp::Called => &columns.called_t_ns,
            Stamp::Scsi => &columns.scsi_t_ns,
            Stamp::Queued => &columns.queued_t_ns,
            Stamp::Granted => &columns.granted_t_ns,
            Stamp::Started => &columns.started_t_ns,
            Stamp::Socketed => &columns.socketed_t_ns,
            Stamp::NearTcpQueued | Stamp::FarTcpQueued => &columns.tcp_queued_t_ns,
            Stamp::NearTcpWire | Stamp::FarTcpWire => &columns.tcp_wire_t_ns,
            Stamp::NearTcpAcked | Stamp::FarTcpAcked => &columns.tcp_acked_t_ns,
            Stamp::Received => &columns.received_t_ns,
            Stamp::Parsed => &columns.parsed_t_ns,
            Stamp::R2tFirst => &columns.r2t_first_t_ns,
            Stamp::DataOutLast => &columns.data_out_last_t_ns,
            Stamp::Executed => &columns.executed_t_ns,
            Stamp::StoreBegin => &columns.store_begin_t_ns,
            Stamp::StoreEnd => &columns.store_end_t_ns,
            Stamp::Answered => &columns.answered_t_ns,
            Stamp::Sent => &columns.sent_t_ns,
            Stamp::DataFirst => &columns.data_first_t_ns,
            Stamp::DataLast => &columns.data_last_t_ns,
            Stamp::Status => &columns.status_t_ns,
            Stamp::Completed => &columns.completed_t_ns,
        }
    }
}
