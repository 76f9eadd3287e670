//! Tables of a report: layout as HTML or text, the tables of a run, the table of both ends' windows.

pub(crate) mod layout;
mod run;
pub(crate) mod windows;

pub(crate) use run::{
    checks, gains, has_connections, initiators, latency, load, marked, place, throughput, words,
};
