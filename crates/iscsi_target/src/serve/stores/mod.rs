//! Work on the stores of LUNs outside the turns of sessions: calls by workers, long operations in memory, files.

pub(crate) mod delayed_jobs;
pub(crate) mod error_log;
pub(crate) mod file_watch;
pub(crate) mod jobs;
pub(crate) mod memory_jobs;
pub(crate) mod register_writer;
