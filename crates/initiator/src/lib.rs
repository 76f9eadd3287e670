//! Sessions to a target and the block I/O they carry.
//!
//! `login` establishes a session with all its connections, `session` is its state and its connections, `client` runs and
//! recovers it, `run` is the event loop of one or several sessions. `disk` identifies a LUN and builds requests for it,
//! `device` is a LUN as a device of `block`, `discovery` lists the targets and LUNs of a portal. A [`Workload`] issues
//! requests in the loop (`workloads`). The iSCSI state machines are in `proto`, the policy in `control`.

mod client;
mod device;
mod discovery;
mod disk;
mod error;
mod login;
mod options;
mod request;
mod run;
mod session;
mod tables;
mod url;
mod workloads;

pub use client::{Client, Reception};
pub use device::IscsiDevice;
pub use discovery::{Found, FoundLun, discover, luns};
pub use disk::{Disk, Geometry, Identity, UnmapLimits};
pub use error::{Abort, Error, Failure};
pub use login::chap::{Chap, ChapError};
pub use login::local_end::{InitiatorName, InitiatorNameError, NearEnd};
pub use options::Options;
pub use request::{Body, Completed, Request, Workload};
pub use run::together;
pub use url::{Url, UrlError};
pub use workloads::bulk::{BulkError, Discard, FromFile, Range, ToFile};
pub use workloads::early_end::Cut;
pub use workloads::load::{Load, Outcome, Progress, Shape};
