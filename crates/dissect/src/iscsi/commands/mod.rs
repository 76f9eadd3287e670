//! SCSI commands of a connection: outstanding ones, their answers and aborts, service times, the command window.

pub(crate) mod aborts;
mod counts;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod tracker;
pub(crate) mod window;
