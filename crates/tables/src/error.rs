//! Errors of reading and writing tables.

use std::path::PathBuf;

use parquet::errors::ParquetError;

use crate::SchemaVersionError;

/// Reasons why a table could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file system refused.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file is not a Parquet file, or could not be encoded.
    #[error("{path}: {source}")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// Error of the Parquet library.
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
    /// The file is of another schema version.
    #[error("{0}")]
    SchemaVersion(#[from] SchemaVersionError),
    /// The file has no such column, or one of another type.
    #[error(
        "{path}: column {column}: found {found}, expected {expected}, as docs/reference/tables.md has it"
    )]
    Column {
        /// The file.
        path: PathBuf,
        /// The column's name.
        column: &'static str,
        /// Value found.
        found: String,
        /// Value expected by the schema in docs/reference/tables.md.
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

    use crate::read;

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
