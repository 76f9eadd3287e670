//! Sessions to a target and the block I/O they carry.
//!
//! `approach` establishes a session with all its connections, `client` runs and recovers it, `run` is the event loop of
//! one or several sessions, `disk` identifies a LUN and builds requests for it, `survey` lists the targets and LUNs of
//! a portal. A [`Workload`] issues requests in the loop. The iSCSI state machines are in `proto`, the policy in
//! `control`. `control`.

mod approach;
mod asking;
mod bulk;
mod chap;
mod client;
mod connect;
mod device;
mod dial;
mod disk;
mod error;
mod known;
mod line;
mod load;
mod lookup;
mod near_end;
mod once;
mod options;
mod patience;
mod pulse;
mod request;
mod room;
mod run;
mod side;
mod survey;
mod tables;
mod trail;
mod url;
mod watch;

pub use bulk::{BulkError, Discard, FromFile, Range, ToFile};
pub use chap::{Chap, ChapError};
pub use client::{Client, Reception};
pub use device::IscsiDevice;
pub use disk::{Disk, Geometry, Identity, UnmapLimits};
pub use error::{Error, Failure};
pub use load::{Load, Outcome, Progress, Shape};
pub use near_end::{InitiatorName, InitiatorNameError, NearEnd};
pub use options::Options;
pub use patience::Cut;
pub use request::{Body, Completed, Request, Workload};
pub use run::together;
pub use survey::{Found, FoundLun, discover, luns};
pub use url::{Url, UrlError};
pub use watch::Abort;
