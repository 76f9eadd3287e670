//! Errors of a plan.

use document::{Problem, lines};

/// Reason why a plan cannot be used.
#[derive(thiserror::Error, Debug)]
pub enum PlanError {
    /// Neither a shipped plan nor a file.
    #[error("{0}")]
    Unknown(String),
    /// The file is there and cannot be read.
    #[error("plan {path}: {source}")]
    Unreadable {
        /// As given.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// It was read and does not make sense: all its problems, in the order of the lines.
    #[error("{}", lines(origin, problems))]
    Wrong {
        /// Path or name of the plan.
        origin: String,
        /// At least one.
        problems: Vec<Problem>,
    },
}
