//! A run directory: `run.json`, `report.html`, and `cells/NNN-slug/rK/` with `cell.json` and the tables.
//!
//! A cell directory alone opens as a run of one cell. Files are written whole and then renamed. Manifests carry the schema
//! version, and one of another version is refused.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::manifest::{Cell, CellEntry, Run};
use crate::version::{self, SOFTWARE};
use crate::{SCHEMA_VERSION, SchemaVersionError};

/// Name of the run's manifest.
pub const RUN_FILE: &str = "run.json";
/// Name of a cell's manifest.
pub const CELL_FILE: &str = "cell.json";
/// Name of the page drawn from a run.
pub const REPORT_FILE: &str = "report.html";

/// A run directory.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
    /// True if the path is a cell's and there is no run.json.
    single: bool,
}

/// A cell directory and its manifest.
#[derive(Clone, PartialEq, Debug)]
pub struct CellDir {
    /// The directory, with the tables.
    pub path: PathBuf,
    /// `cell.json`.
    pub cell: Cell,
}

/// Reasons why a run directory could not be made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The file system refused.
    #[error("{path}: {source}")]
    File {
        /// The file or directory.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The directory has a run already.
    #[error("{path}: has a run.json already; name another directory, or resume that run")]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// Neither a run nor a cell.
    #[error("{path}: found neither run.json nor cell.json; expected a run directory or one of its cells")]
    NotARun {
        /// Path given.
        path: PathBuf,
    },
    /// A manifest is of another schema version.
    #[error("{0}")]
    SchemaVersion(#[from] SchemaVersionError),
    /// A manifest does not read as one.
    #[error("{path}: {source}; expected the {expected} of a run that farlun wrote")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// Name of the manifest.
        expected: &'static str,
        /// Error of the JSON reader.
        source: serde_json::Error,
    },
    /// `run.json` names a cell outside its own directory.
    #[error("{path}: cell directory '{dir}' is not below the run")]
    Outside {
        /// The manifest.
        path: PathBuf,
        /// Directory that it names.
        dir: String,
    },
}

/// The document in a manifest's file.
#[derive(Serialize)]
struct Document<'a, T> {
    schema_version: u32,
    /// Version of farlun; `None` if the manifest itself has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    farlun: Option<&'static str>,
    #[serde(flatten)]
    manifest: &'a T,
}

/// The fields of a manifest that are read before the others: of any type, as another schema version may have them.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Head {
    schema_version: Option<Value>,
    farlun: Option<Value>,
    commit: Option<Value>,
}

impl Head {
    /// Version of farlun that wrote the manifest, and its commit.
    fn writer(&self) -> Option<String> {
        let version = self.farlun.as_ref()?.as_str()?;
        Some(match self.commit.as_ref().and_then(Value::as_str) {
            Some(commit) => format!("{version} ({commit})"),
            None => version.to_owned(),
        })
    }
}

impl RunDir {
    /// Makes a new run directory, with its parents; an existing directory is taken if it holds no run.
    pub fn create(path: impl AsRef<Path>) -> Result<RunDir, RunError> {
        let path = path.as_ref().to_owned();
        if path.join(RUN_FILE).exists() {
            return Err(RunError::Exists { path });
        }
        make_dirs(&path.join("cells"))?;
        Ok(RunDir { path, single: false })
    }

    /// Opens a run directory, or a cell directory as a run of one cell.
    pub fn open(path: impl AsRef<Path>) -> Result<RunDir, RunError> {
        let path = path.as_ref().to_owned();
        if path.join(RUN_FILE).is_file() {
            return Ok(RunDir { path, single: false });
        }
        if path.join(CELL_FILE).is_file() {
            return Ok(RunDir { path, single: true });
        }
        Err(RunError::NotARun { path })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of its page.
    pub fn report_path(&self) -> PathBuf {
        self.path.join(REPORT_FILE)
    }

    /// Makes the directory `cells/NNN-slug/rK` for repeat K of the plan's cell NNN (both from 1) and
    /// returns its path relative to the run, as [`CellEntry::dir`] wants it.
    pub fn make_cell(&self, number: usize, slug: &str, repeat: u32) -> Result<String, RunError> {
        let dir = RunDir::repeat_dir(number, slug, repeat);
        make_dirs(&self.path.join(&dir))?;
        Ok(dir)
    }

    /// Directory of the repeats of the plan's cell NNN, relative to the run: `cells/NNN-slug`.
    pub fn cell_dir(number: usize, slug: &str) -> String {
        format!("cells/{number:03}-{slug}")
    }

    /// Directory of one of them: `cells/NNN-slug/rK`.
    pub fn repeat_dir(number: usize, slug: &str, repeat: u32) -> String {
        format!("{}/r{repeat}", RunDir::cell_dir(number, slug))
    }

    /// Reads `run.json`. For a cell directory, returns a run of that cell from its `cell.json`.
    pub fn manifest(&self) -> Result<Run, RunError> {
        if !self.single {
            return load(&self.path.join(RUN_FILE), "run.json");
        }
        let cell: Cell = load(&self.path.join(CELL_FILE), "cell.json")?;
        let sysctls = cell.wan.as_ref().and_then(|wan| wan.get("sysctls")).cloned();
        Ok(Run {
            farlun: SOFTWARE.to_owned(),
            command_line: cell.command.clone(),
            plan_name: cell.slug.clone(),
            sysctls: sysctls.and_then(|s| serde_json::from_value(s).ok()).unwrap_or_default(),
            valid: cell.valid,
            cells: vec![CellEntry {
                dir: ".".to_owned(),
                slug: cell.slug,
                load: cell.load,
                parameters: cell.parameters,
                repeat: cell.repeat,
            }],
            ..Run::default()
        })
    }

    /// Writes `run.json`.
    pub fn save(&self, run: &Run) -> Result<(), RunError> {
        save(&self.path.join(RUN_FILE), None, run)
    }

    /// Writes `cell.json` into the cell directory `dir` (relative to the run).
    pub fn save_cell(&self, dir: &str, cell: &Cell) -> Result<(), RunError> {
        save(&self.path.join(dir).join(CELL_FILE), Some(SOFTWARE), cell)
    }

    /// Every cell that `run.json` lists, in its order, with its `cell.json`.
    pub fn cells(&self) -> Result<Vec<CellDir>, RunError> {
        let run = self.manifest()?;
        run.cells.iter().map(|entry| self.cell(&entry.dir)).collect()
    }

    /// The cell in the directory `dir` (relative to the run).
    pub fn cell(&self, dir: &str) -> Result<CellDir, RunError> {
        let relative = Path::new(dir);
        let inside = |c| matches!(c, std::path::Component::Normal(_) | std::path::Component::CurDir);
        if !relative.components().all(inside) {
            return Err(RunError::Outside { path: self.path.join(RUN_FILE), dir: dir.to_owned() });
        }
        let path = self.path.join(relative);
        Ok(CellDir { cell: load(&path.join(CELL_FILE), "cell.json")?, path })
    }

    /// Writes a file of the run, such as its page, whole.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<PathBuf, RunError> {
        let path = self.path.join(name);
        replace(&path, contents)?;
        Ok(path)
    }
}

fn make_dirs(path: &Path) -> Result<(), RunError> {
    fs::create_dir_all(path).map_err(|source| RunError::File { path: path.to_owned(), source })
}

/// Reads a manifest of this schema version.
fn load<T: DeserializeOwned>(path: &Path, expected: &'static str) -> Result<T, RunError> {
    let text = fs::read(path).map_err(|source| RunError::File { path: path.to_owned(), source })?;
    let wrong = |source| RunError::Manifest { path: path.to_owned(), expected, source };
    let head: Head = serde_json::from_slice(&text).map_err(wrong)?;
    let found = head.schema_version.as_ref().map(Value::to_string);
    version::check(path, found.as_deref(), || head.writer())?;
    serde_json::from_slice(&text).map_err(wrong)
}

/// Writes a manifest, and `farlun`, the version that writes, if the manifest itself does not have it.
fn save<T: Serialize>(path: &Path, farlun: Option<&'static str>, manifest: &T) -> Result<(), RunError> {
    let file_error = |source| RunError::File { path: path.to_owned(), source };
    let document = Document { schema_version: SCHEMA_VERSION, farlun, manifest };
    let mut text = serde_json::to_vec_pretty(&document).map_err(|e| file_error(e.into()))?;
    text.push(b'\n');
    replace(path, &text)
}

/// A reader finds the old file or the new one, never half of it.
fn replace(path: &Path, contents: &[u8]) -> Result<(), RunError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let write = || {
        let mut file = fs::File::create(&partial)?;
        file.write_all(contents)?;
        // A rename of data that are not on the disk yet could lose both files in a crash.
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().map_err(|source| RunError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_opens_again_and_so_does_its_cell() {
        let temp = tempfile::tempdir().unwrap();
        let run_dir = RunDir::create(temp.path().join("a/run")).unwrap();
        let dir = run_dir.make_cell(1, "read-8ms", 2).unwrap();
        assert_eq!(dir, "cells/001-read-8ms/r2");
        let cell = Cell { slug: "read-8ms".to_owned(), repeat: 2, valid: true, ..Cell::default() };
        run_dir.save_cell(&dir, &cell).unwrap();
        let entry =
            CellEntry { dir: dir.clone(), slug: "read-8ms".to_owned(), repeat: 2, ..CellEntry::default() };
        let run = Run { seed: 7, cells: vec![entry], ..Run::default() };
        run_dir.save(&run).unwrap();

        let again = RunDir::open(run_dir.path()).unwrap();
        assert_eq!(again.manifest().unwrap(), run);
        assert_eq!(again.cells().unwrap()[0].cell, cell);
        let alone = RunDir::open(run_dir.path().join(&dir)).unwrap();
        assert_eq!(alone.manifest().unwrap().cells.len(), 1);
        assert_eq!(alone.cells().unwrap()[0].cell, cell);
        assert!(matches!(RunDir::create(run_dir.path()), Err(RunError::Exists { .. })));
    }

    #[test]
    fn errors_name_the_path_and_what_was_expected() {
        let temp = tempfile::tempdir().unwrap();
        let error = RunDir::open(temp.path()).unwrap_err().to_string();
        assert!(error.contains("found neither run.json nor cell.json; expected a run directory"), "{error}");
        fs::write(temp.path().join(RUN_FILE), "{\"schema_version\": 2, \"seed\": true}").unwrap();
        let error = RunDir::open(temp.path()).unwrap().manifest().unwrap_err().to_string();
        assert!(error.contains("run.json: ") && error.contains("expected the run.json of a run"), "{error}");
        let run = RunDir { path: temp.path().to_owned(), single: false };
        assert!(matches!(run.cell("../elsewhere"), Err(RunError::Outside { .. })));
        assert!(matches!(run.cell("/etc"), Err(RunError::Outside { .. })));
    }

    #[test]
    fn a_manifest_of_another_schema_version_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let run_dir = RunDir::create(temp.path().join("run")).unwrap();
        let dir = run_dir.make_cell(1, "read", 1).unwrap();
        run_dir.save_cell(&dir, &Cell::default()).unwrap();
        let run = Run { farlun: "0.9.0".to_owned(), commit: Some("1234567".to_owned()), ..Run::default() };
        run_dir.save(&run).unwrap();
        let (run_file, cell_file) =
            (run_dir.path().join(RUN_FILE), run_dir.path().join(&dir).join(CELL_FILE));
        let edit = |file: &Path, change: &dyn Fn(&mut Value)| {
            let mut manifest: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
            change(&mut manifest);
            fs::write(file, serde_json::to_vec(&manifest).unwrap()).unwrap();
        };
        let refused = |result: Result<(), RunError>, file: &Path| {
            let error = result.unwrap_err();
            assert!(matches!(error, RunError::SchemaVersion(_)), "{error:?}");
            error.to_string().replace(&file.display().to_string(), "FILE")
        };
        let read_run = || refused(run_dir.manifest().map(drop), &run_file);
        let read_cell = || refused(run_dir.cell(&dir).map(drop), &cell_file);

        // Also where a field has another type there.
        edit(&run_file, &|manifest| {
            manifest["schema_version"] = 1.into();
            manifest["seed"] = "seven".into();
        });
        assert_eq!(
            read_run(),
            "FILE: found schema version 1, expected 2; run it again with this farlun, or read it with farlun 0.9.0 \
             (1234567), which wrote it"
        );
        edit(&run_file, &|manifest| manifest["schema_version"] = Value::Null);
        assert!(read_run().starts_with("FILE: found no schema version, expected 2; run it again"));
        edit(&run_file, &|manifest| manifest["schema_version"] = "2".into());
        assert!(read_run().starts_with("FILE: found schema version \"2\", expected 2; run it again"));

        edit(&cell_file, &|manifest| manifest["schema_version"] = 0.into());
        assert_eq!(
            read_cell(),
            format!(
                "FILE: found schema version 0, expected 2; run it again with this farlun, or read it with farlun \
                 {SOFTWARE}, which wrote it"
            )
        );
        let alone = RunDir::open(run_dir.path().join(&dir)).unwrap();
        assert_eq!(refused(alone.manifest().map(drop), &cell_file), read_cell());
        edit(&cell_file, &|manifest| *manifest = serde_json::json!({"slug": "read"}));
        assert_eq!(read_cell(), "FILE: found no schema version, expected 2; run it again with this farlun");
    }
}
