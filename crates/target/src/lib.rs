//! LUNs, SCSI execution, backends, and the serving loop.
//!
//! `lun` is what is served, `scsi` decides what a command means for it, `backend` holds its bytes, and
//! `serve` moves them. The iSCSI state machines are in `proto`.

pub mod backend;
pub mod lun;
pub mod scsi;
mod serve;

pub use serve::{Config, Reload, Reloaded, ServeError, Stats, Target};
