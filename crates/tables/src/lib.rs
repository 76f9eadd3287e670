//! The tables of a run, its manifest, and their Parquet files.
//!
//! A table is one type that implements [`Row`]: rows of `event` in, Parquet files out, and plain columns back. `rows/` has
//! one file per table, in which one line declares a column (`column.rs`). [`manifest`] has the fields of `run.json` and `cell.json`, [`RunDir`] is the directory that holds
//! both. A file is written under `NAME.partial` and renamed when it is complete. Tables and manifests
//! carry [`SCHEMA_VERSION`], and one of another version is refused. Columns, types and units are documented
//! in `docs/reference/tables.md`. Nothing is computed here (that is `analysis`), and this is the only crate that knows Parquet.

mod background;
mod column;
mod error;
pub mod manifest;
mod pack;
mod read;
mod rows;
mod run;
mod schema;
mod spool;
mod version;
mod write;

pub use background::{Recorder, Written};
pub use error::TableError;
pub use pack::Packed;
pub use read::{files, lost_rows, read, read_optional, read_pieces, said};
pub use rows::{
    DecidedColumns, Ios, KernelPoints, LayerColumns, Logins, NoticeColumns, Packets, Pdus, Sockets,
    SteeredColumns,
};
pub use run::{CELL_FILE, CellDir, REPORT_FILE, RUN_FILE, RunDir, RunError};
pub use schema::{Row, Visit, Word};
pub use spool::{SPOOL_MAX_BYTES, Spool};
pub use version::{SCHEMA_VERSION, SchemaVersionError};
pub use write::{ROWS_PER_GROUP, Writer};
