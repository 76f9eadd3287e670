//! The table `layers` of a cell: rows by column, sampling, sessions and connections, requests with rows of both ends.

pub(super) mod crossings;
pub(super) mod parts;
pub(super) mod passage;
pub(super) mod rows;
pub(super) mod sampling;
