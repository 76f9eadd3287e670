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
        /// Its contents.
        found: String,
    },
    /// It cannot be read.
    #[error("cannot read the identity in {place}: {source}")]
    Read {
        /// The attribute or file.
        place: String,
        /// Error of the system.
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
        /// Error of the system.
        source: io::Error,
    },
}

/// A place for the identity of a store.
#[derive(Debug)]
pub(super) enum Place<'a> {
    /// An attribute of an open file, with its name.
    Attribute(BorrowedFd<'a>, &'a Path),
    /// A file of its own.
    File(PathBuf),
}

const ATTRIBUTE: &CStr = c"user.farlun.identity";

/// Further looks for an identity that another target has created.
const REREADS_MAX: u32 = 2;

impl Label {
    /// Names that no other store has.
    pub(super) fn fresh() -> Label {
        Label { serial: Serial::fresh(), naa: Naa::fresh() }
    }

    /// The identity of a store, from the first of these places that has it. A store that has none gets one, unless it is
    /// only looked at.
    pub(super) fn of(places: &[Place<'_>], is_look: bool) -> Result<Label, LabelError> {
        let mut refused = None;
        for _ in 0..=REREADS_MAX {
            for place in places {
                if let Some(label) = place.read()? {
                    return Ok(label);
                }
            }
            if is_look {
                break;
            }
            match Label::create(places) {
                // Another target, which serves the store read-only as well, was faster: the store has an identity by now.
                Err((error, true)) => refused = Some(error),
                created => return created.map_err(|(error, _)| error),
            }
        }
        refused.map_or_else(|| Ok(Label::fresh()), Err)
    }

    /// An identity of a store that has none, in the first of these places that takes it. An error comes with true if a place
    /// has one meanwhile.
    fn create(places: &[Place<'_>]) -> Result<Label, (LabelError, bool)> {
        let label = Label::fresh();
        let mut refused = None;
        for place in places {
            let Err(source) = place.create(&label.to_text()) else { return Ok(label) };
            let is_taken = source.kind() == ErrorKind::AlreadyExists;
            refused = Some((LabelError::Keep { place: place.name(), source }, is_taken));
            if is_taken {
                break;
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
            Place::File(path) => safe_file::create(path, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn in_file(path: &Path) -> Place<'static> {
        Place::File(path.to_owned())
    }

    #[test]
    fn a_file_keeps_its_identity_where_it_goes_and_a_copy_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let [path, moved, copy] = ["disk", "moved", "copy"].map(|name| dir.path().join(name));
        fs::write(&path, [0; 4096]).unwrap();
        // The second place is for file systems without attributes.
        let of = |path: &Path| {
            let file = File::open(path).unwrap();
            Label::of(&[Place::Attribute(file.as_fd(), path), in_file(&path.with_extension("label"))], false)
                .unwrap()
        };
        let first = of(&path);
        assert_eq!(of(&path), first);
        if path.with_extension("label").exists() {
            return println!("{} has no extended attributes", dir.path().display());
        }
        fs::rename(&path, &moved).unwrap();
        assert_eq!(of(&moved), first);
        fs::write(&copy, fs::read(&moved).unwrap()).unwrap();
        let other = of(&copy);
        assert!(other.serial != first.serial && other.naa != first.naa);
    }

    #[test]
    fn the_first_place_that_takes_it_has_it_and_a_look_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let [nowhere, second, third] = ["no/where", "second", "third"].map(|name| dir.path().join(name));
        let places = [in_file(&second), in_file(&third)];
        Label::of(&places, true).unwrap();
        assert!(!second.exists() && !third.exists());
        fs::write(dir.path().join("no"), "a file").unwrap();
        let label = Label::of(&[in_file(&nowhere), in_file(&third)], false).unwrap();
        assert_eq!(fs::read_to_string(&third).unwrap(), label.to_text());
        assert_eq!(Label::of(&places, false).unwrap(), label);
        assert!(!second.exists());
        let error = Label::of(&[in_file(&nowhere)], false).unwrap_err().to_string();
        assert!(
            error.contains("cannot be kept, at last in") && error.contains("serial= and naa="),
            "{error}"
        );
        assert_ne!(Label::of(&[], false).unwrap(), Label::of(&[], false).unwrap());
    }

    /// Read-only LUNs of several targets may share a store.
    #[test]
    fn targets_that_come_first_at_once_agree() {
        const TARGETS: usize = 8;
        for _ in 0..100 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("label");
            let barrier = Barrier::new(TARGETS);
            let labels: Vec<Label> = thread::scope(|scope| {
                let of = || {
                    barrier.wait();
                    Label::of(&[in_file(&path)], false).unwrap()
                };
                let targets: Vec<_> = (0..TARGETS).map(|_| scope.spawn(of)).collect();
                targets.into_iter().map(|target| target.join().unwrap()).collect()
            });
            assert!(labels.iter().all(|label| *label == labels[0]), "{labels:?}");
            assert_eq!(Label::of(&[in_file(&path)], true).unwrap(), labels[0]);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left");
        }
    }

    #[test]
    fn damage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("label");
        let good = Label::fresh().to_text();
        for cut in 0..good.len() - 1 {
            fs::write(&path, &good[..cut]).unwrap();
            let error = Label::of(&[in_file(&path)], false).unwrap_err().to_string();
            assert!(
                error.contains("expected 'serial=SERIAL naa=HEX'") && error.contains("correct it"),
                "{error}"
            );
        }
    }
}
