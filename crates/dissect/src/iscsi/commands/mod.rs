//! SCSI commands of a connection: outstanding ones, their answers and aborts, service times, the command window.

pub(crate) mod aborts;
pub(crate) mod count;
pub(crate) mod counts;
pub(crate) mod numbers;
pub(crate) mod statuses;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod tracker;
pub(crate) mod window;
