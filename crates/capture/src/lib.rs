//! The header logger: packets of devices, or of an emulated path, with their times, into files here or on another host.
//!
//! The traffic is never delayed: packets without room are dropped and counted, in the kernel's ring, in the queue to
//! the writing thread, or on the way to a recorder, and every count is reported. Memory is bounded everywhere.
//! `dissect` and `analysis` interpret the packets.
//!
//! Reading order: [`run`] captures from devices, [`tapped`] the packets of the emulator; both fill an
//! [`outlet`](Outlet), whose thread writes `files` or is the sending end of `recorder`. [`filter`] selects packets, and
//! the kept part of each.

mod batch;
mod files;
pub mod filter;
mod header;
mod outlet;
mod queue;
mod recorder;
pub mod run;
mod shelf;
mod sources;
pub mod tapped;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub use files::{FILE_BYTES_MIN, Rotation};
pub use filter::{Filter, FilterError, Keep};
pub use outlet::{Destination, Kept, Outlet};
pub use recorder::{Recorder, RecorderSettings, Sent, Totals, message};

/// Reasons why a capture cannot begin or continue.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No such device.
    #[error("there is no device {name}; there are {}", there.join(", "))]
    NoDevice {
        /// Its name.
        name: String,
        /// Existing interfaces.
        there: Vec<String>,
    },
    /// A device cannot be listened to.
    #[error("cannot capture on {name}: {source}")]
    Device {
        /// Its name.
        name: String,
        /// Error of the system.
        source: io::Error,
    },
    /// This user may not listen.
    #[error("cannot capture on {name}: this needs root, or CAP_NET_RAW")]
    Denied {
        /// The device.
        name: String,
    },
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The recorder cannot be reached, or does not want the capture.
    #[error("cannot record on {address}: {reason}")]
    Recorder {
        /// Its address.
        address: String,
        /// Reason, for the user.
        reason: String,
    },
    /// Another error of the system.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Destination of messages to the user that cannot wait for the end.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(&str) + Send + Sync>);

impl Notices {
    /// Calls `tell` with each, from any thread.
    pub fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Notices {
        Notices(Arc::new(tell))
    }

    fn say(&self, text: &str) {
        (self.0)(text);
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}
