//! The schema version of a run: written into every table and manifest, checked by every reader.
//!
//! There is no compatibility layer: a reader takes its own version and refuses every other.

use std::fmt;
use std::path::{Path, PathBuf};

/// Version of the columns of tables and of the fields of `run.json` and `cell.json`. It is raised when this version would
/// misread, or could not read, what the one before wrote, or the other way round.
pub const SCHEMA_VERSION: u32 = 2;

/// Key of the schema version in the metadata of a table.
pub(super) const SCHEMA_VERSION_KEY: &str = "farlun.schema_version";
/// Key of the version of farlun in the metadata of a table.
pub(super) const SOFTWARE_KEY: &str = "farlun.version";

/// Version of farlun that writes.
pub(super) const SOFTWARE: &str = env!("CARGO_PKG_VERSION");

/// Refusal of a table or manifest of another schema version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemaVersionError {
    /// The file.
    pub path: PathBuf,
    /// Schema version in the file, as it stands there; `None` if there is none.
    pub found: Option<String>,
    /// Version of farlun that wrote the file, and its commit in parentheses if that is known; `None` if the file does not
    /// name it.
    pub writer: Option<String>,
}

impl fmt::Display for SchemaVersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: found ", self.path.display())?;
        match &self.found {
            Some(version) => write!(f, "schema version {version}")?,
            None => write!(f, "no schema version")?,
        }
        write!(f, ", expected {SCHEMA_VERSION}; run it again with this farlun")?;
        match &self.writer {
            Some(writer) => write!(f, ", or read it with farlun {writer}, which wrote it"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SchemaVersionError {}

/// Refuses the file `path` unless `found` is [`SCHEMA_VERSION`].
pub(super) fn check(
    path: &Path,
    found: Option<&str>,
    writer: impl FnOnce() -> Option<String>,
) -> Result<(), SchemaVersionError> {
    if found == Some(SCHEMA_VERSION.to_string().as_str()) {
        return Ok(());
    }
    Err(SchemaVersionError { path: path.to_owned(), found: found.map(str::to_owned), writer: writer() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_both_versions_and_the_writer() {
        let path = Path::new("run/run.json");
        assert_eq!(check(path, Some("2"), || None), Ok(()));
        let said = |found, writer: Option<&str>| {
            check(path, found, || writer.map(str::to_owned)).unwrap_err().to_string()
        };
        assert_eq!(
            said(Some("1"), Some("0.9.0 (1234567)")),
            "run/run.json: found schema version 1, expected 2; run it again with this farlun, or read it with farlun \
             0.9.0 (1234567), which wrote it"
        );
        assert_eq!(
            said(None, None),
            "run/run.json: found no schema version, expected 2; run it again with this farlun"
        );
    }
}
