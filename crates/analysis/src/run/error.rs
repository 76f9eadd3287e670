//! Errors of reading a run.

use tables::{RunError, TableError};

/// Reasons why a run could not be analysed.
#[derive(Debug, thiserror::Error)]
pub enum TourError {
    /// The run directory.
    #[error(transparent)]
    Run(#[from] RunError),
    /// One of its tables.
    #[error(transparent)]
    Table(#[from] TableError),
}
