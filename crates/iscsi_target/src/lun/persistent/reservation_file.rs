//! Persistent reservations that outlive the target (APTPL: SPC-4 section 5.12.5.2): a small text file per LUN,
//! which is on stable storage before the command is answered.
//!
//! The file is replaced as a whole (`atomic_file.rs`), so that a crash leaves the old or the new version, and ends with a
//! checksum. An unreadable file keeps its LUN from being served: to forget a reservation is to let two hosts write one
//! file system. Read-only LUNs share their file with others and keep nothing.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use proto::name;
use thiserror::Error;
use wire::scsi::ReservationType;

use crate::lun::attention::Port;
use crate::lun::nexuses::hash;
use crate::lun::options::Options;
use crate::lun::persistent::atomic_file;
use crate::lun::persistent::file_names::{in_state, with_suffix};
use crate::lun::source::Source;
use block::{BlockError, ErrorKind};

/// Persistent state of the reservations of a LUN.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Kept {
    /// Registrations (port and key) in order of arrival.
    pub(crate) registrants: Vec<(Arc<Port>, u64)>,
    /// Type of the reservation, and which of the registrants holds it.
    pub(crate) held: Option<(ReservationType, usize)>,
}

/// The file of one LUN.
#[derive(Debug)]
pub struct Keeper {
    path: PathBuf,
    saved: Mutex<Saved>,
}

/// State of the file. Workers may write changes in another order than that of their commands.
#[derive(Debug, Default)]
struct Saved {
    /// Number of the version in the file.
    number: u64,
    /// Chain of a change that could not be written.
    failed_chain: Option<u64>,
}

/// Number of a change, above that of every earlier one. Changes of a chain build on each other: if one is not kept,
/// none after it is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Version {
    pub(crate) chain: u64,
    pub(crate) number: u64,
}

/// A write of reservations that must complete before a command is answered.
#[derive(Clone, Debug)]
pub struct Save {
    keeper: Arc<Keeper>,
    version: Version,
    kept: Kept,
}

/// Reason for which kept reservations cannot be restored.
#[derive(Debug, Error)]
pub enum KeptError {
    /// The file cannot be read.
    #[error(
        "cannot read the reservations in {} (symbolic links are not followed): {source}; without them the LUN is not served",
        path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is damaged, or no file of reservations.
    #[error(
        "{} line {line}: found '{found}', expected {expected}; without its reservations the LUN is not served, \
         because hosts rely on them: restore the file, or delete it if no host has the LUN in use",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Text found.
        found: String,
        /// Text expected.
        expected: &'static str,
    },
}

const HEADER: &str = "farlun reservations 2";
/// Files of before there was a checksum. They are taken as they are, since a LUN that is not served is no safer: their
/// last line shows that they are whole, and the next change replaces them.
const OLD_HEADER: &str = "farlun reservations 1";
const END: &str = "end";
const SUM: &str = "sum ";
const SUFFIX: &str = ".farlun-reservations";

impl Keeper {
    /// Opens the keeper of a LUN, if the options name one, and reads the kept state.
    pub(crate) fn open(
        source: &Source,
        options: &Options,
        state: &Path,
    ) -> Result<Option<(Arc<Keeper>, Kept)>, KeptError> {
        let Some(path) = Keeper::place(source, options, state) else { return Ok(None) };
        let kept = match atomic_file::read(&path) {
            Err(source) => return Err(KeptError::Read { path, source }),
            Ok(None) => Kept::default(),
            Ok(Some(text)) => Kept::parse(&text, &path)?,
        };
        Ok(Some((Arc::new(Keeper { path, saved: Mutex::default() }), kept)))
    }

    /// File of the reservations of a LUN, if they are kept; that of a block device is in the state folder.
    pub(crate) fn place(source: &Source, options: &Options, state: &Path) -> Option<PathBuf> {
        if options.read_only {
            return None;
        }
        let default = match source {
            Source::Memory { .. } | Source::Null { .. } => return None,
            Source::File { path } => {
                with_suffix(path.canonicalize().unwrap_or_else(|_| path.clone()), SUFFIX)
            }
            Source::Block { path } => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                in_state(state, &path, SUFFIX)
            }
        };
        Some(options.reservations.clone().unwrap_or(default))
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// State that has to be on stable storage before the command that made it so is answered.
    pub(crate) fn save(self: &Arc<Keeper>, version: Version, kept: Kept) -> Save {
        Save { keeper: Arc::clone(self), version, kept }
    }
}

impl Save {
    /// Puts it on stable storage; may block. A later state that is there already includes this one.
    pub(crate) fn write(&self) -> Result<(), BlockError> {
        let mut saved = self.keeper.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if saved.number >= self.version.number {
            return Ok(());
        }
        let path = &self.keeper.path;
        let result = match saved.failed_chain == Some(self.version.chain) {
            true => Err(io::Error::other("the change before this one could not be kept either")),
            false => self.replace(path),
        };
        result.map_err(|error| {
            saved.failed_chain = Some(self.version.chain);
            BlockError::new(
                ErrorKind::Medium,
                format!("cannot keep the reservations in {}: {error}", path.display()),
            )
        })?;
        saved.number = self.version.number;
        Ok(())
    }

    /// Version of the change.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Returns true if it is for this file.
    pub(crate) fn is_of(&self, keeper: &Arc<Keeper>) -> bool {
        Arc::ptr_eq(&self.keeper, keeper)
    }

    fn replace(&self, path: &Path) -> io::Result<()> {
        if self.kept != Kept::default() {
            return atomic_file::replace(path, &self.kept.to_text());
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => result?,
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(dir)?.sync_all()
    }
}

/// Equal for the same file and the same state.
impl PartialEq for Save {
    fn eq(&self, other: &Save) -> bool {
        self.keeper.path == other.keeper.path && self.version == other.version && self.kept == other.kept
    }
}

impl Eq for Save {}

impl Kept {
    fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for (port, key) in &self.registrants {
            let isid = port.isid.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            text += &format!("registration {key:016x} {isid} {}\n", name_and_user(port));
        }
        if let Some((kind, holder)) = self.held {
            text += &format!("reservation {} {holder}\n", kind as u8);
        }
        let sum = hash(&[text.as_bytes()]);
        text + &format!("{SUM}{sum:016x}\n")
    }

    fn parse(text: &str, path: &Path) -> Result<Kept, KeptError> {
        let mut kept = Kept::default();
        let damaged = |line, found: &str, expected| {
            let found = found.chars().take(80).collect();
            Err(KeptError::Damaged { path: path.to_owned(), line, found, expected })
        };
        let is_old = match text.lines().next() {
            Some(HEADER) => false,
            Some(OLD_HEADER) => true,
            first => return damaged(1, first.unwrap_or_default(), "'farlun reservations 2'"),
        };
        let lines = text.lines().count();
        let body = match is_old {
            true => text.strip_suffix("end\n").or_else(|| text.strip_suffix(END)),
            false => text.rfind(SUM).map(|at| &text[..at]),
        };
        let Some(body) = body.filter(|body| body.ends_with('\n')) else {
            return damaged(lines + 1, "", if is_old { "'end'" } else { "'sum' and a checksum" });
        };
        let sum = &text[body.len()..];
        if !is_old && sum != format!("{SUM}{:016x}\n", hash(&[body.as_bytes()])) {
            return damaged(lines, sum.trim_end(), "the checksum of what is before it");
        }
        for (line, number) in body.lines().zip(1..).skip(1) {
            let words: Vec<&str> = line.split(' ').collect();
            let read = match words[..] {
                ["registration", key, isid, name, ref user @ ..] if kept.held.is_none() => {
                    registration(key, isid, name, user).map(|registrant| kept.registrants.push(registrant))
                }
                ["reservation", kind, holder] if kept.held.is_none() => {
                    let kind = kind.parse().ok().and_then(ReservationType::from_code);
                    let holder = holder.parse().ok().filter(|&holder| holder < kept.registrants.len());
                    kind.zip(holder).map(|held| kept.held = Some(held))
                }
                _ => None,
            };
            if read.is_none() {
                return damaged(
                    number,
                    line,
                    "'registration KEY ISID NAME [USER]' or 'reservation TYPE HOLDER'",
                );
            }
        }
        Ok(kept)
    }
}

fn registration(key: &str, isid: &str, name: &str, user: &[&str]) -> Option<(Arc<Port>, u64)> {
    if key.len() != 16 || isid.len() != 12 || !isid.is_ascii() {
        return None;
    }
    let key = u64::from_str_radix(key, 16).ok()?;
    let isid = u64::from_str_radix(isid, 16).ok()?.to_be_bytes();
    let isid = [isid[2], isid[3], isid[4], isid[5], isid[6], isid[7]];
    Some((Port { name: name::folded(&unescape(name)?), isid, user: parse_user(user)? }.into(), key))
}

/// Name of a port, and its user if it has one.
pub(crate) fn name_and_user(port: &Port) -> String {
    match &port.user {
        None => escape(&port.name),
        Some(user) => format!("{} {}", escape(&port.name), escape(user)),
    }
}

/// The user of a port, of the words behind its name.
pub(crate) fn parse_user(words: &[&str]) -> Option<Option<String>> {
    match words {
        [] => Some(None),
        [user] => unescape(user).map(Some),
        _ => None,
    }
}

/// Encodes an initiator name, with any characters, as one word of the file.
pub(crate) fn escape(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") })
        .collect()
}

pub(crate) fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let hex = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        let port = |name: &str, last, user: Option<&str>| {
            let (name, user) = (name.to_owned(), user.map(str::to_owned));
            Arc::new(Port { name, isid: [0x80, 0, 0, 1, 2, last], user })
        };
        Kept {
            registrants: vec![
                (port("iqn.2026-11.io.farlun:a", 1, None), 7),
                (port("odd \n%ä", 2, Some("a user")), u64::MAX),
            ],
            held: Some((ReservationType::WriteExclusiveRegistrants, 1)),
        }
    }

    fn keeper(dir: &Path) -> (Source, Options) {
        let path = dir.join("disk");
        File::create(&path).unwrap().set_len(4096).unwrap();
        (Source::File { path }, Options::default())
    }

    fn version(chain: u64, number: u64) -> Version {
        Version { chain, number }
    }

    #[test]
    fn what_is_saved_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let (source, options) = keeper(dir.path());
        let open = || Keeper::open(&source, &options, dir.path()).unwrap().unwrap();
        let (keeper, found) = open();
        assert_eq!(found, Kept::default());
        keeper.save(version(0, 1), kept()).write().unwrap();
        assert_eq!(open().1, kept());
        let mut later = kept();
        later.held = None;
        keeper.save(version(0, 3), later.clone()).write().unwrap();
        keeper.save(version(0, 2), kept()).write().unwrap();
        assert_eq!(open().1, later, "the older state came later");
        keeper.save(version(0, 4), Kept::default()).write().unwrap();
        assert!(open().1 == Kept::default() && !keeper.path().exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left lying about");
    }

    #[test]
    fn who_keeps_nothing_and_who_cannot() {
        let dir = tempfile::tempdir().unwrap();
        let (source, mut options) = keeper(dir.path());
        options.read_only = true;
        assert!(Keeper::open(&source, &options, dir.path()).unwrap().is_none());
        let memory = Source::Memory { len: event::Bytes(512) };
        assert!(Keeper::open(&memory, &Options::default(), dir.path()).unwrap().is_none());
        options = Options { reservations: Some(dir.path().join("disk/below")), ..Options::default() };
        let text = Keeper::open(&source, &options, dir.path()).unwrap_err().to_string();
        assert!(text.contains("cannot read the reservations in"), "{text}");
        options.reservations = Some(dir.path().join("r"));
        let (keeper, _) = Keeper::open(&source, &options, dir.path()).unwrap().unwrap();
        fs::create_dir(dir.path().join("r.new")).unwrap();
        let write = |chain, number| keeper.save(version(chain, number), kept()).write();
        let error = write(0, 1).unwrap_err().to_string();
        assert!(error.contains("cannot keep the reservations in"), "{error}");
        fs::remove_dir(dir.path().join("r.new")).unwrap();
        assert!(write(0, 2).is_err(), "it builds on one that is not kept");
        write(1, 3).unwrap();
        write(1, 2).unwrap();
    }

    /// The folder may be one that others can write to.
    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (source, options) = keeper(dir.path());
        let [path, new, other] = ["disk.farlun-reservations", "disk.farlun-reservations.new", "precious"]
            .map(|name| dir.path().join(name));
        let (keeper, _) = Keeper::open(&source, &options, dir.path()).unwrap().unwrap();
        fs::write(&other, kept().to_text()).unwrap();
        std::os::unix::fs::symlink(&other, &new).unwrap();
        keeper.save(version(0, 1), Kept { held: None, ..kept() }).write().unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), kept().to_text());
        assert!(!path.symlink_metadata().unwrap().is_symlink());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let error = Keeper::open(&source, &options, dir.path()).unwrap_err().to_string();
        assert!(error.contains("symbolic links are not followed"), "{error}");
    }

    #[test]
    fn damage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (source, options) = keeper(dir.path());
        let path = dir.path().join("disk.farlun-reservations");
        let open = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            Keeper::open(&source, &options, dir.path()).map(|opened| opened.unwrap().1)
        };
        let good = kept().to_text();
        assert_eq!(open(good.as_bytes()).unwrap(), kept());
        let mut bytes = good.clone().into_bytes();
        for at in 0..good.len() {
            open(&bytes[..at]).expect_err("it is cut");
            bytes[at] ^= 1;
            let error = open(&bytes).expect_err("a bit is wrong").to_string();
            assert!(error.contains("without") && error.contains("the LUN is not served"), "{error}");
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn a_file_of_before_there_was_a_checksum_is_taken_if_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (source, options) = keeper(dir.path());
        let path = dir.path().join("disk.farlun-reservations");
        let open = |text: &str| {
            fs::write(&path, text).unwrap();
            Keeper::open(&source, &options, dir.path()).map(|opened| opened.unwrap().1)
        };
        let new = kept().to_text();
        let good = new[..new.rfind(SUM).unwrap()].replace(HEADER, OLD_HEADER) + "end\n";
        assert_eq!(open(&good).unwrap(), kept());
        let check = |text: &str, line: usize| {
            let error = open(text).unwrap_err().to_string();
            assert!(error.contains(&format!("line {line}: ")) && error.contains("delete it if"), "{error}");
        };
        check("", 1);
        check(&good.replace("reservations 1", "reservations 3"), 1);
        check(&good.replace("0000000000000007", "7"), 2);
        check(&good.replace("registration ffff", "registration gfff"), 3);
        check(&good.replace("reservation 5 1", "reservation 5 2"), 4);
        check(&good.replace("reservation 5 1", "reservation 4 1"), 4);
        check(&good.replace("end\n", ""), 5);
        check(&good.replace("end\n", "end\nend\n"), 5);
        check(&good.replace("%25", "%2"), 3);
        for len in 0..good.len() - 1 {
            open(&good[..len]).expect_err("it is cut");
        }
    }
}
