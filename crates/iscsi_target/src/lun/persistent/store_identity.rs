//! The identity of a store, kept with it: generated when the store is served for the first time.
//!
//! A file has it in an extended attribute, so that it stays when the file is renamed or moved, and a plain copy gets
//! one of its own. Where the file system has no attributes, or the target may not set them, it is in a file beside the
//! store, or else in the state folder, where that of a block device always is. Memory has none that outlives it.
//!
//! A file beside a store, or in the state folder, is found by the path of the store. So it also has a mark of the store
//! (`store_identity/marks.rs`): another store under the same path gets an identity of its own.

mod marks;

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::log::log;
use crate::lun::identity::{Naa, Serial};
use crate::lun::persistent::atomic_file;

pub(crate) use marks::marks;

/// The names of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Label {
    pub(crate) serial: Serial,
    pub(crate) naa: Naa,
}

/// Reason for which the identity of a store cannot be used.
#[derive(Debug, Error)]
pub enum LabelError {
    /// The contents are damaged, or are no identity.
    #[error(
        "the identity in {place}: found '{found}', expected 'serial=SERIAL naa=HEX', and a whole line if store=MARK \
         follows; correct it, or give the LUN serial= and naa="
    )]
    Damaged {
        /// The attribute or file.
        place: String,
        /// Contents found.
        found: String,
    },
    /// The identity cannot be read.
    #[error("cannot read the identity in {place}: {source}")]
    Read {
        /// The attribute or file.
        place: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The store has no identity, and no place accepts one.
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

/// A label as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Kept {
    label: Label,
    /// Mark of its store, where it is kept by path. Earlier versions wrote none.
    store: Option<String>,
}

/// A place for the identity of a store.
#[derive(Debug)]
pub(crate) enum Place<'a> {
    /// An attribute of an open file, with its name.
    Attribute(BorrowedFd<'a>, &'a Path),
    /// A file of its own, which is found by the path of the store.
    File(PathBuf),
}

const ATTRIBUTE: &CStr = c"user.farlun.identity";

/// Most further attempts to read an identity that another target has created.
const REREADS_MAX: u32 = 2;

impl Label {
    /// Names that no other store has.
    pub(crate) fn fresh() -> Label {
        Label { serial: Serial::fresh(), naa: Naa::fresh() }
    }

    /// The identity of a store with these marks, from the first of these places that has it. A store that has none gets
    /// one; if it is only looked at, it is seen whether a place would take one.
    pub(crate) fn of(places: &[Place<'_>], marks: &[String], is_look: bool) -> Result<Label, LabelError> {
        let mut refused = None;
        'look: for _ in 0..=REREADS_MAX {
            for place in places {
                let Some(kept) = place.read()? else { continue };
                if let Some(label) = place.check(kept, marks, is_look)? {
                    return Ok(label);
                }
                if !is_look {
                    let source = ErrorKind::AlreadyExists.into();
                    refused = Some(LabelError::Keep { place: place.name(), source });
                    // Another target, which serves the store as well, has changed it meanwhile.
                    continue 'look;
                }
            }
            if is_look {
                return Label::look(places);
            }
            match Label::create(places, marks) {
                // Another target, which serves the store read-only as well, was faster: the store has an identity by
                // now.
                Err((error, true)) => refused = Some(error),
                created => return created.map_err(|(error, _)| error),
            }
        }
        refused.map_or_else(|| Ok(Label::fresh()), Err)
    }

    /// An identity that is not kept, if one of these places would take it.
    fn look(places: &[Place<'_>]) -> Result<Label, LabelError> {
        let mut refused = None;
        for place in places {
            let Err(source) = place.check_create() else { return Ok(Label::fresh()) };
            refused = Some(LabelError::Keep { place: place.name(), source });
        }
        refused.map_or_else(|| Ok(Label::fresh()), Err)
    }

    /// An identity of a store that has none, in the first of these places that takes it. An error comes with true if a
    /// place has one meanwhile.
    fn create(places: &[Place<'_>], marks: &[String]) -> Result<Label, (LabelError, bool)> {
        let label = Label::fresh();
        let mut refused = None;
        for place in places {
            let Err(source) = place.create(&label, marks) else { return Ok(label) };
            let is_taken = source.kind() == ErrorKind::AlreadyExists;
            refused = Some((LabelError::Keep { place: place.name(), source }, is_taken));
            if is_taken {
                break;
            }
        }
        refused.map_or(Ok(label), Err)
    }

    /// Text that is kept by path, with the best mark of the store.
    fn to_text(&self, marks: &[String]) -> String {
        let store = marks.first().map_or(String::new(), |mark| format!(" store={mark}"));
        format!("serial={} naa={}{store}\n", self.serial, self.naa)
    }
}

impl Kept {
    fn parse(text: &str) -> Option<Kept> {
        let (serial, rest) = text.trim_end().strip_prefix("serial=")?.split_once(" naa=")?;
        let (naa, store) = match rest.split_once(" store=") {
            // A mark that was cut would be that of another store.
            Some((naa, mark)) if text.ends_with('\n') => (naa, Some(mark.to_owned())),
            Some(_) => return None,
            None => (rest, None),
        };
        Some(Kept { label: Label { serial: serial.parse().ok()?, naa: naa.parse().ok()? }, store })
    }
}

impl Place<'_> {
    fn name(&self) -> String {
        match self {
            Place::Attribute(_, path) => format!("{} of {}", ATTRIBUTE.to_string_lossy(), path.display()),
            Place::File(path) => path.display().to_string(),
        }
    }

    fn read(&self) -> Result<Option<Kept>, LabelError> {
        let text = match self {
            Place::Attribute(file, _) => match net::fs::attribute(*file, ATTRIBUTE) {
                Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
                value => value.map(|value| value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())),
            },
            Place::File(path) => match atomic_file::read(path) {
                // A file in the place of the folder: the next place may do.
                Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(None),
                text => text,
            },
        };
        let text = text.map_err(|source| LabelError::Read { place: self.name(), source })?;
        let damaged = |text: &str| {
            let found = text.chars().take(80).collect();
            LabelError::Damaged { place: self.name(), found }
        };
        text.map(|text| Kept::parse(&text).ok_or_else(|| damaged(&text))).transpose()
    }

    fn check_create(&self) -> io::Result<()> {
        match self {
            Place::Attribute(file, _) => {
                net::fs::attribute(*file, ATTRIBUTE)?;
                net::fs::check_writable_open(*file)
            }
            Place::File(path) => atomic_file::check_create(path),
        }
    }

    fn create(&self, label: &Label, marks: &[String]) -> io::Result<()> {
        match self {
            Place::Attribute(file, _) => {
                net::fs::create_attribute(*file, ATTRIBUTE, label.to_text(&[]).as_bytes())
            }
            Place::File(path) => atomic_file::create(path, &label.to_text(marks)),
        }
    }

    /// The identity of the store with these marks, if this place has `kept`: the same, or a fresh one in its place if
    /// it is that of another store. `None` if the place has changed meanwhile, or if it is only looked at and there is
    /// none.
    fn check(&self, kept: Kept, marks: &[String], is_look: bool) -> Result<Option<Label>, LabelError> {
        let (Place::File(path), Some(now)) = (self, marks.first()) else { return Ok(Some(kept.label)) };
        match &kept.store {
            Some(store) if marks.contains(store) => Ok(Some(kept.label)),
            Some(_) if is_look => Ok(None),
            Some(store) => {
                let label = Label::fresh();
                let is_replaced = self.replace(path, &kept, &label, marks);
                let is_replaced =
                    is_replaced.map_err(|source| LabelError::Keep { place: self.name(), source })?;
                if is_replaced {
                    log(format_args!(
                        "{} has the identity of another store ({store}, this one is {now}); this one gets a new \
                         identity, naa {}",
                        self.name(),
                        label.naa
                    ));
                }
                Ok(is_replaced.then_some(label))
            }
            None => {
                // Where it cannot be written it has no mark next time either.
                if !is_look {
                    let _ = self.replace(path, &kept, &kept.label, marks);
                }
                Ok(Some(kept.label))
            }
        }
    }

    /// Replaces `kept`, unless another target has done so meanwhile.
    fn replace(&self, path: &Path, kept: &Kept, label: &Label, marks: &[String]) -> io::Result<bool> {
        let folder = File::open(path.parent().unwrap_or(Path::new("/")))?;
        // Some network file systems have no locks of folders. Targets that share a store there rarely start at once.
        let _ = folder.lock();
        let is_same = matches!(self.read(), Ok(Some(now)) if now == *kept);
        if is_same {
            atomic_file::replace(path, &label.to_text(marks))?;
        }
        Ok(is_same)
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

    fn mark(mark: &str) -> [String; 1] {
        [mark.to_owned()]
    }

    #[test]
    fn another_store_under_the_same_path_has_an_identity_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("label");
        let of = |marks: &[&str], is_look| {
            let marks: Vec<String> = marks.iter().map(|mark| (*mark).to_owned()).collect();
            Label::of(&[in_file(&path)], &marks, is_look).unwrap()
        };
        let text = || fs::read_to_string(&path).unwrap();
        let first = of(&["wwid:a b", "serial:c"], false);
        assert!(text().ends_with(" store=wwid:a b\n"), "{}", text());
        let same = [&["wwid:a b"][..], &["serial:d", "wwid:a b"], &[]];
        assert!(same.iter().all(|marks| of(marks, false) == first));
        let before = text();
        assert!(of(&["wwid:b"], true) != first && text() == before, "a look changes nothing");
        let second = of(&["wwid:b", "serial:c"], false);
        assert!(second != first && text() == second.to_text(&mark("wwid:b")));
        assert_eq!(of(&["wwid:b"], false), second);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_label_without_a_mark_gets_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("label");
        let label = Label::fresh();
        fs::write(&path, label.to_text(&[])).unwrap();
        let of = |is_look| Label::of(&[in_file(&path)], &mark("ino:12"), is_look).unwrap();
        let text = || fs::read_to_string(&path).unwrap();
        assert_eq!((of(true), text()), (label.clone(), label.to_text(&[])));
        assert_eq!((of(false), text()), (label.clone(), label.to_text(&mark("ino:12"))));
    }

    #[test]
    fn targets_that_find_another_store_at_once_agree() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("label");
        for round in 0..100 {
            let marks = mark(&format!("ino:{round}"));
            let barrier = Barrier::new(2);
            let of = || {
                barrier.wait();
                Label::of(&[in_file(&path)], &marks, false).unwrap()
            };
            let [one, other] =
                thread::scope(|scope| [scope.spawn(of), scope.spawn(of)].map(|it| it.join().unwrap()));
            assert_eq!(one, other);
        }
    }

    #[test]
    fn a_file_keeps_its_identity_where_it_goes_and_a_copy_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let [path, moved, copy] = ["disk", "moved", "copy"].map(|name| dir.path().join(name));
        fs::write(&path, [0; 4096]).unwrap();
        // The second place is for file systems without attributes.
        let of = |path: &Path| {
            let file = File::open(path).unwrap();
            let places = [Place::Attribute(file.as_fd(), path), in_file(&path.with_extension("label"))];
            Label::of(&places, &marks(file.as_fd()), false).unwrap()
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
        Label::of(&places, &[], true).unwrap();
        assert!(!second.exists() && !third.exists());
        fs::write(dir.path().join("no"), "a file").unwrap();
        let label = Label::of(&[in_file(&nowhere), in_file(&third)], &[], false).unwrap();
        assert_eq!(fs::read_to_string(&third).unwrap(), label.to_text(&[]));
        assert_eq!(Label::of(&places, &[], false).unwrap(), label);
        assert!(!second.exists());
        for is_look in [false, true] {
            let error = Label::of(&[in_file(&nowhere)], &[], is_look).unwrap_err().to_string();
            assert!(
                error.contains("cannot be kept, at last in") && error.contains("serial= and naa="),
                "{error}"
            );
        }
        Label::of(&[in_file(&nowhere), in_file(&dir.path().join("not/there"))], &[], true).unwrap();
        assert!(!dir.path().join("not").exists());
        assert_ne!(Label::of(&[], &[], false).unwrap(), Label::of(&[], &[], false).unwrap());
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
                    Label::of(&[in_file(&path)], &[], false).unwrap()
                };
                let targets: Vec<_> = (0..TARGETS).map(|_| scope.spawn(of)).collect();
                targets.into_iter().map(|target| target.join().unwrap()).collect()
            });
            assert!(labels.iter().all(|label| *label == labels[0]), "{labels:?}");
            assert_eq!(Label::of(&[in_file(&path)], &[], true).unwrap(), labels[0]);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left");
        }
    }

    #[test]
    fn damage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("label");
        let check = |text: &str| {
            fs::write(&path, text).unwrap();
            let error = Label::of(&[in_file(&path)], &mark("a"), false).unwrap_err().to_string();
            assert!(
                error.contains("expected 'serial=SERIAL naa=HEX'") && error.contains("correct it"),
                "{error}"
            );
        };
        let label = Label::fresh();
        let (old, good) = (label.to_text(&[]), label.to_text(&mark("ino:12")));
        (0..old.len() - 1).for_each(|cut| check(&old[..cut]));
        (old.len() + 1..good.len()).for_each(|cut| check(&good[..cut]));
    }
}
