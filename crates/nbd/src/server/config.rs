//! Configuration of the service, and the errors of its start and end.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use event::Bytes;
use proto::nbd::server::NbdConfigError;

/// Configuration of an NBD service.
#[derive(Clone, Debug)]
pub struct NbdServiceConfig {
    /// Name of the command, before each line of its log.
    pub command: &'static str,
    /// Addresses to listen on; port 0 selects a free port.
    pub listen: Vec<SocketAddr>,
    /// Paths of Unix sockets to listen on.
    pub sockets: Vec<PathBuf>,
    /// Name of the export. The empty name means it as well.
    pub export: String,
    /// Text for humans in the list of exports.
    pub description: String,
    /// Writes are refused, whatever the device permits.
    pub read_only: bool,
}

/// Reason for which a service could not start, or ended without everything on stable storage.
#[derive(Debug, thiserror::Error)]
pub enum NbdServiceError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system call.
        source: io::Error,
    },
    /// A Unix socket cannot be made.
    #[error("cannot listen on {}: {source}", path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// Another process listens on the socket.
    #[error("{} is in use: a server listens on it; stop that one, or choose another path", path.display())]
    SocketInUse {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The export cannot be served under its name and with its facts.
    #[error(transparent)]
    Config(#[from] NbdConfigError),
    /// The blocks of the device are too large.
    #[error("the device has blocks of {found_bytes} bytes; an NBD export has 64 KiB at most")]
    Block {
        /// Bytes per block.
        found_bytes: u32,
    },
    /// The device could not be flushed at the end.
    #[error("{0} written since the last flush may not be on stable storage: {1}")]
    Unflushed(Bytes, String),
    /// The system refused something the loop cannot do without.
    #[error("the serving loop failed: {0}")]
    Io(#[from] io::Error),
}
