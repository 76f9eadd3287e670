//! The kernel's TCP of a connection: samples of TCP_INFO, socket settings, advice on buffer limits.

pub(crate) mod advice;
pub(crate) mod black_hole;
pub(crate) mod sample;
pub(crate) mod tuning;
