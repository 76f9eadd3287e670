//! Mapped memory: shared with the kernel, or aligned to pages for direct I/O.

pub mod aligned;
pub(crate) mod mapping;
