//! The identity of a store, kept with it: generated when the store is served for the first time.
//!
//! A file has it in an extended attribute, so that it stays when the file is renamed or moved, and a plain copy gets one of
//! its own. Where the file system has no attributes, or the target may not set them, it is in a file beside the store, or
//! else in the state folder, where that of a block device always is. Memory has none that outlives it.

use std::ffi::CStr;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::identity::{Naa, Serial};
use super::safe_file;
use super::spec::Source;
use super::state::{in_state, with_suffix};

/// The names of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Label {
    pub(super) serial: Serial,
    pub(super) naa: Naa,
}

/// Why the identity of a store cannot be used.
#[derive(Debug, Error)]
pub enum LabelError {
    /// It is damaged, or something else.
    #[error(
        "the identity in {place}: found '{found}', expected 'serial=SERIAL naa=HEX'; correct it, or give the LUN serial= \
         and naa="
    )]
    Damaged {
        /// The attribute or file.
        place: String,
        /// What is in it.
        found: String,
    },
    /// It cannot be read.
    #[error("cannot read the identity in {place}: {source}")]
    Read {
        /// The attribute or file.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is none yet, and no place takes it.
    #[error(
        "the identity of the LUN cannot be kept, at last in {place}: {source}; give the LUN serial= and naa=, or another \
         state folder (--state)"
    )]
    Keep {
        /// The last place that was tried.
        place: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A place for the identity of a store.
enum Place<'a> {
    Attribute(BorrowedFd<'a>, &'a Path),
    File(PathBuf),
}

const ATTRIBUTE: &CStr = c"user.farlun.identity";
const SUFFIX: &str = ".farlun-identity";

impl Label {
    /// Names that no other store has.
    pub(super) fn fresh() -> Label {
        Label { serial: Serial::fresh(), naa: Naa::fresh() }
    }

    /// The identity of a store, whose open file is `file`. One that has none gets it, unless it is only looked at.
    pub(super) fn of(
        source: &Source,
        file: Option<BorrowedFd<'_>>,
        state: &Path,
        is_look: bool,
    ) -> Result<Label, LabelError> {
        let places = places(source, file, state);
        for place in &places {
            if let Some(label) = place.read()? {
                return Ok(label);
            }
        }
        let label = Label::fresh();
        if is_look || places.is_empty() {
            return Ok(label);
        }
        let mut refused = None;
        for place in &places {
            match place.create(&label.to_text()) {
                Ok(()) => return Ok(label),
                // Another target, which serves the store read-only as well, was faster.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return Ok(place.read()?.unwrap_or(label));
                }
                Err(source) => refused = Some(LabelError::Keep { place: place.name(), source }),
            }
        }
        refused.map_or(Ok(label), Err)
    }

    fn to_text(&self) -> String {
        format!("serial={} naa={}\n", self.serial, self.naa)
    }

    fn parse(text: &str) -> Option<Label> {
        let (serial, naa) = text.trim_end().strip_prefix("serial=")?.split_once(" naa=")?;
        Some(Label { serial: serial.parse().ok()?, naa: naa.parse().ok()? })
    }
}

/// In the order in which they are looked at.
fn places<'a>(source: &'a Source, file: Option<BorrowedFd<'a>>, state: &Path) -> Vec<Place<'a>> {
    match source {
        Source::Memory { .. } | Source::Null { .. } => Vec::new(),
        Source::File { path } => {
            let beside = path.canonicalize().unwrap_or_else(|_| path.clone());
            let kept = in_state(state, &beside, SUFFIX);
            let attribute = file.map(|file| Place::Attribute(file, path));
            attribute.into_iter().chain([Place::File(with_suffix(beside, SUFFIX)), Place::File(kept)]).collect()
        }
        // The name that is given: `/dev/disk/by-id/…` stays, what it leads to may not.
        Source::Block { path } => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            vec![Place::File(in_state(state, &path, SUFFIX))]
        }
    }
}

impl Place<'_> {
    fn name(&self) -> String {
        match self {
            Place::Attribute(_, path) => format!("{} of {}", ATTRIBUTE.to_string_lossy(), path.display()),
            Place::File(path) => path.display().to_string(),
        }
    }

    fn read(&self) -> Result<Option<Label>, LabelError> {
        let text = match self {
            Place::Attribute(file, _) => match net::fs::attribute(*file, ATTRIBUTE) {
                Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
                value => value.map(|value| value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())),
            },
            Place::File(path) => safe_file::read(path),
        };
        let text = text.map_err(|source| LabelError::Read { place: self.name(), source })?;
        let damaged = |text: &str| {
            let found = text.chars().take(80).collect();
            LabelError::Damaged { place: self.name(), found }
        };
        text.map(|text| Label::parse(&text).ok_or_else(|| damaged(&text))).transpose()
    }

    fn create(&self, text: &str) -> io::Result<()> {
        match self {
            Place::Attribute(file, _) => net::fs::create_attribute(*file, ATTRIBUTE, text.as_bytes()),
            Place::File(path) => safe_file::replace(path, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd;

    use super::*;

    fn file(path: &Path) -> Source {
        if !path.exists() {
            File::create(path).unwrap().set_len(4096).unwrap();
        }
        Source::File { path: path.to_owned() }
    }

    /// As a file system without attributes has it, or as any other has it.
    fn label(path: &Path, state: &Path, has_attributes: bool) -> Label {
        let source = file(path);
        let open = File::open(path).unwrap();
        Label::of(&source, has_attributes.then(|| open.as_fd()), state, false).unwrap()
    }

    #[test]
    fn a_file_keeps_its_identity_where_it_goes_and_a_copy_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let [path, moved, copy, state] = ["disk", "moved", "copy", "state"].map(|name| dir.path().join(name));
        let first = label(&path, &state, true);
        assert_eq!(label(&path, &state, true), first);
        if with_suffix(path.clone(), SUFFIX).exists() {
            return println!("{} has no extended attributes", dir.path().display());
        }
        fs::rename(&path, &moved).unwrap();
        assert_eq!(label(&moved, &state, true), first);
        fs::write(&copy, fs::read(&moved).unwrap()).unwrap();
        let other = label(&copy, &state, true);
        assert!(other.serial != first.serial && other.naa != first.naa);
        assert!(!state.exists());
    }

    #[test]
    fn without_attributes_it_is_beside_the_file_or_in_the_state_folder() {
        let dir = tempfile::tempdir().unwrap();
        let [path, state] = ["disk", "state"].map(|name| dir.path().join(name));
        let first = label(&path, &state, false);
        assert_eq!(label(&path, &state, false), first);
        let beside = with_suffix(path.clone(), SUFFIX);
        assert_eq!(fs::read_to_string(&beside).unwrap(), first.to_text());
        // Nothing can be created there.
        let other = dir.path().join("other");
        fs::create_dir(with_suffix(with_suffix(other.clone(), SUFFIX), ".new")).unwrap();
        let kept = label(&other, &state, false);
        assert_eq!((label(&other, &state, false), fs::read_dir(&state).unwrap().count()), (kept, 1));
        // Nor there: its folder is a file.
        let nowhere = dir.path().join("nowhere");
        fs::create_dir(with_suffix(with_suffix(nowhere.clone(), SUFFIX), ".new")).unwrap();
        let error = Label::of(&file(&nowhere), None, &path, true);
        assert!(error.is_err(), "the state folder is a file");
        fs::remove_file(&path).unwrap();
        Label::of(&file(&nowhere), None, &path, true).unwrap();
        assert!(!path.exists(), "a look leaves nothing behind");
    }

    #[test]
    fn a_device_has_it_in_the_state_folder_by_the_name_that_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let of = |path: &str| {
            Label::of(&Source::Block { path: path.into() }, None, dir.path(), false).unwrap()
        };
        let first = of("/dev/disk/by-id/a");
        assert_eq!(of("/dev/disk/by-id/a"), first);
        assert_ne!(of("/dev/disk/by-id/b"), first);
        assert!(dir.path().join("dev!disk!by-id!a.farlun-identity").exists());
    }

    #[test]
    fn damage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let source = file(&path);
        let good = Label::fresh().to_text();
        for cut in 0..good.len() - 1 {
            fs::write(with_suffix(path.clone(), SUFFIX), &good[..cut]).unwrap();
            let error = Label::of(&source, None, dir.path(), false).unwrap_err().to_string();
            assert!(error.contains("expected 'serial=SERIAL naa=HEX'") && error.contains("correct it"), "{error}");
        }
    }
}
