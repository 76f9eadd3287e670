//! The kernel's TCP of a connection: samples of TCP_INFO, socket settings, congestion control, advice on buffer limits.

pub(crate) mod advice;
pub(crate) mod black_hole;
pub(crate) mod congestion;
pub(crate) mod sample;
pub(crate) mod tuning;
