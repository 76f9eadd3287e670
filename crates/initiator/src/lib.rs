//! Sessions to a target and the block I/O they carry.
//!
//! `connect` makes a session, `client` is its loop, `disk` looks at a LUN and makes requests for it, and
//! a [`Workload`] lives in the loop. The iSCSI state machines are in `proto`, the policy in `control`.

mod bulk;
mod chap;
mod client;
mod connect;
mod disk;
mod error;
mod load;
mod request;
mod side;
mod url;

pub use bulk::{BulkError, FromFile, Range, ToFile};
pub use chap::{Chap, ChapError};
pub use client::{Client, Options};
pub use connect::connect;
pub use disk::{Disk, Geometry, Identity, discover, luns};
pub use error::{Error, Failure};
pub use load::{Load, Outcome, Progress, Shape};
pub use request::{Body, Completed, Request, Workload};
pub use url::{Url, UrlError};
