//! Results of a dissection: plain values for tables and JSON.

pub(crate) mod confidence;
pub(crate) mod connection;
pub(crate) mod direction;
pub(crate) mod dissection;
pub(crate) mod events;
pub(crate) mod framing;
pub(crate) mod iscsi;
pub(crate) mod merge;
