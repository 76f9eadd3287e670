//! LUNs, SCSI execution, backends, and the serving loop.
//!
//! `compat` controls how responses are sent. `lun` holds the logical units, `scsi` the meaning of commands, `backend`
//! the bytes of a LUN, and `serve` moves those bytes. The iSCSI state machines are in `proto`.

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
