//! Errors of a stream.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use event::format_delay;
use tables::TableError;

/// Failure of a run, or of one of its streams.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The connection was refused or failed.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Address of the far end.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// No connection in time.
    #[error("{address} did not accept a connection within {}; raise --timeout if the path is that slow", format_delay(*.after))]
    Timeout {
        /// Address of the far end.
        address: SocketAddr,
        /// Time allowed.
        after: Duration,
    },
    /// A connection without an answer.
    #[error(
        "{address} accepted the connection and said nothing within {}; expected `farlun stream serve` that is not busy \
         with another run",
        format_delay(*.after)
    )]
    Silent {
        /// Address of the far end.
        address: SocketAddr,
        /// Time allowed.
        after: Duration,
    },
    /// An answer that is no greeting of this version.
    #[error("{address} does not answer like `farlun stream serve` of this version; start that there")]
    NoGreeting {
        /// Address of the far end.
        address: SocketAddr,
    },
    /// First bytes that are no hello of this version.
    #[error("it does not begin like a stream of this version of farlun; the connection is closed")]
    NoHello,
    /// End of the connection before the far end's counters.
    #[error("the far end closed the connection without its counters")]
    NoTrailer,
    /// Failure of a stream that had begun.
    #[error("the stream to {address} ended early")]
    EndedEarly {
        /// Address of the far end.
        address: SocketAddr,
        /// Reason.
        source: Box<StreamError>,
    },
    /// A socket or another system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The table of samples failed.
    #[error(transparent)]
    Table(#[from] TableError),
}
