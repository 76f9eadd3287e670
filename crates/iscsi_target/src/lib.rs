//! LUNs, SCSI execution, backends, and the serving loop.
//!
//! `compat` is how answers are sent; `lun` is what is served, `scsi` decides what a command means for it, `backend` holds its bytes, and
//! `serve` moves them. The iSCSI state machines are in `proto`.

pub mod backend;
mod compat;
mod log;
pub mod lun;
pub mod scsi;
mod serve;

pub use compat::Compat;
pub use serve::{
    Config, CutOff, Grown, InitiatorRights, LunSet, Reload, Reloaded, ServeError, Stats, Target, log,
    rehearse,
};
