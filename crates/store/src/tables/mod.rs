//! The tables of a cell: rows of `event` in, Parquet files out, and plain columns back.
//!
//! A table is one type that implements [`Row`]; its columns are stated once, in [`Row::visit`], and the
//! writer, the reader and the schema all follow that one list. A file is written under `NAME.partial`
//! and renamed when it is complete, so whoever finds `packets.parquet` finds all of it.
//! Columns, types and units are documented in `docs/tables.md`.

mod background;
mod io;
mod kernel;
mod layers;
mod pack;
mod packets;
mod pdus;
mod read;
mod schema;
mod sessions;
mod sockets;
mod spool;
mod steered;
mod write;

use std::path::PathBuf;

use parquet::errors::ParquetError;

pub use background::{Recorder, Written};
pub use io::Ios;
pub use kernel::KernelPoints;
pub use layers::LayerColumns;
pub use pack::Packed;
pub use packets::Packets;
pub use pdus::Pdus;
pub use read::{files, lost_rows, read, read_optional, read_pieces, said};
pub use schema::{Visit, Word};
pub use sessions::Logins;
pub use sockets::Sockets;
pub use spool::{SPOOL_MAX_BYTES, Spool};
pub use steered::SteeredColumns;
pub use write::{ROWS_PER_GROUP, Writer};

/// One row of a table, and how its columns are laid out.
pub trait Row: Copy + Send + 'static {
    /// The table's name: its files are `NAME*.parquet`.
    const TABLE: &'static str;
    /// The table as plain columns of equal length.
    type Columns: Default + Send;

    /// Appends this row to the columns.
    fn push(&self, columns: &mut Self::Columns);

    /// Shows every column, in file order, to `visitor`.
    fn visit<V: Visit>(columns: &mut Self::Columns, visitor: &mut V) -> Result<(), V::Error>;
}

/// Why a table could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file system refused.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what Parquet calls a file, or could not be encoded.
    #[error("{path}: {source}")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the Parquet library said.
        source: ParquetError,
    },
    /// No file of the table is there.
    #[error("{dir}: no file {table}*.parquet; expected a cell directory written with --trace")]
    Missing {
        /// The directory that was searched.
        dir: PathBuf,
        /// The table's name.
        table: &'static str,
    },
    /// The file has no such column, or one of another type.
    #[error("{path}: column {column}: found {found}, expected {expected}; was it written by this version?")]
    Column {
        /// The file.
        path: PathBuf,
        /// The column's name.
        column: &'static str,
        /// What is there.
        found: String,
        /// What the schema in docs/tables.md says.
        expected: &'static str,
    },
    /// The thread that writes the file ended early.
    #[error("{path}: the writer thread ended early")]
    Thread {
        /// The file.
        path: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use event::Io;

    use super::*;

    #[test]
    fn errors_say_where_and_what_was_expected() {
        let dir = tempfile::tempdir().unwrap();
        let error = read::<Io>(dir.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("no file io*.parquet; expected a cell directory written with --trace"),
            "{error}"
        );
        std::fs::write(dir.path().join("io-near.parquet"), b"not parquet at all").unwrap();
        let error = read::<Io>(dir.path()).unwrap_err().to_string();
        assert!(error.contains("io-near.parquet: "), "{error}");
    }
}
