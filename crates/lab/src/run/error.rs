//! Errors of a run, which then has no result.

use std::io;
use std::path::PathBuf;

/// Reason why a run has no result.
#[derive(thiserror::Error, Debug)]
pub enum LabError {
    /// The directory of the run is not empty.
    #[error("{0} exists and is not empty; name another directory with --out")]
    NotEmpty(PathBuf),
    /// The directory holds another run.
    #[error("{0} holds a run already; go on with it by --resume, or name another directory with --out")]
    Begun(PathBuf),
    /// Another lab is at work there.
    #[error(
        "{0}: another farlun lab is at work there; wait until it has ended, or name another directory with --out"
    )]
    Busy(PathBuf),
    /// The run to resume differs from this one.
    #[error(
        "{path}: this run was begun with {text}; resume it as it was begun, or name another directory with --out"
    )]
    Different {
        /// The run directory.
        path: PathBuf,
        /// Condition at its start, and condition now.
        text: String,
    },
    /// The path of the run is a file.
    #[error("{0} is not a directory; name another one with --out")]
    NotADirectory(PathBuf),
    /// The run directory could not be made or written.
    #[error("{path}: {source}{}", advice(source))]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A run whose cells depend on measured values starts anew.
    #[error("{0}: a plan with cases cannot be resumed; run it again with another --out")]
    NoResume(PathBuf),
    /// The program could not be started.
    #[error("cannot run {program}: {source}")]
    Program {
        /// Its path.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The program was replaced while the plan ran: figures of two builds have no median.
    #[error(
        "{0} was replaced while the plan ran; what was measured until then is kept, and --resume goes on with it once the \
         same build is back"
    )]
    Replaced(PathBuf),
    /// A table could not be read back.
    #[error(transparent)]
    Table(#[from] tables::TableError),
    /// A load left no tables.
    #[error("{0}: no request was recorded there; measure for longer")]
    Nothing(PathBuf),
    /// The run directory could not be read back.
    #[error(transparent)]
    Analysis(#[from] analysis::TourError),
    /// A foreign program that the plan calls is missing.
    #[error("this plan needs {program}, which is not installed; install the package {package}")]
    Missing {
        /// The program.
        program: String,
        /// Package that contains it.
        package: String,
    },
    /// A manifest does not read or does not write.
    #[error(transparent)]
    Manifest(tables::RunError),
}

impl From<tables::RunError> for LabError {
    fn from(error: tables::RunError) -> LabError {
        match error {
            tables::RunError::File { path, source } => LabError::File { path, source },
            tables::RunError::Exists { path } => LabError::Begun(path),
            other => LabError::Manifest(other),
        }
    }
}

impl LabError {
    pub(super) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> LabError {
        let path = path.to_owned();
        |source| LabError::File { path, source }
    }
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space, or name a directory on another disk with --out"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; name a directory you may write to with --out"
        }
        _ => "",
    }
}
