//! Reasons for which a connection ends.

use std::io;

use proto::nbd::NbdFault;

/// Reason of the end of a connection.
#[derive(Debug)]
pub(super) enum EndReason {
    /// The client has disconnected in good order.
    Done,
    /// The client has closed the connection.
    Closed,
    /// The client broke the protocol.
    Fault(NbdFault),
    /// The socket failed.
    Io(io::Error),
    /// The negotiation took too long.
    Silent,
    /// It made room for another connection while it negotiated.
    MadeRoom,
    /// It held memory for which others wait, and moved no byte of it.
    Late,
    /// The service ends.
    Shutdown,
}

impl EndReason {
    /// Kind of the line in the log.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            EndReason::Done => "done",
            EndReason::Closed => "closed",
            EndReason::Fault(_) => "fault",
            EndReason::Io(_) => "io",
            EndReason::Silent => "silent",
            EndReason::MadeRoom => "room",
            EndReason::Late => "late",
            EndReason::Shutdown => "shutdown",
        }
    }

    /// Text of the line in the log, for a connection with so many unanswered requests. `None` if nothing is wrong.
    pub(super) fn text(&self, unanswered: usize) -> Option<String> {
        let text = match self {
            EndReason::Done => return None,
            EndReason::Closed | EndReason::Shutdown if unanswered == 0 => return None,
            EndReason::Closed => "closed by its client".to_owned(),
            EndReason::Shutdown => "closed by the end of the service".to_owned(),
            EndReason::Fault(fault) => format!("closed: {fault}"),
            EndReason::Io(error) => format!("lost: {error}"),
            EndReason::Silent => "closed: it did not end its negotiation in time".to_owned(),
            EndReason::MadeRoom => "closed: it made room while it negotiated".to_owned(),
            EndReason::Late => {
                "closed: it moved no data while others waited for the memory that it held".to_owned()
            }
        };
        Some(match unanswered {
            0 => text,
            1 => format!("{text}; 1 request is unanswered"),
            many => format!("{text}; {many} requests are unanswered"),
        })
    }
}

impl From<NbdFault> for EndReason {
    fn from(fault: NbdFault) -> EndReason {
        EndReason::Fault(fault)
    }
}

impl From<io::Error> for EndReason {
    fn from(error: io::Error) -> EndReason {
        EndReason::Io(error)
    }
}
