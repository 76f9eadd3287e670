//! Nexuses of a target, kept in the state folder. After a restart, a LUN with another store than before stays closed to
//! the nexuses that know the old store.
//!
//! One text file per target: the stores, and below them the nexuses that know them, with a checksum at the end. An
//! unreadable file keeps the target from starting: to forget a nexus is to let its initiator write into another disk.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::lun::attention::Port;
use crate::lun::nexuses::{KnownStore, KnownStores, NexusList, hash};
use crate::lun::persistent::atomic_file;
use crate::lun::persistent::file_names::with_suffix;
use crate::lun::persistent::reservation_file::{escape, name_and_user, parse_user, unescape};

/// The file of one target, which no other process uses meanwhile.
#[derive(Debug)]
pub struct Register {
    path: PathBuf,
    _lock: File,
}

/// Reason for which the sessions of an earlier process cannot be restored.
#[derive(Debug, Error)]
pub enum RegisterError {
    /// The register cannot be used.
    #[error("cannot use {} to keep which sessions know which LUN: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another target has it.
    #[error(
        "{} is in use by another target of the same name; give each a state folder of its own (--state), or another name",
        path.display()
    )]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged, or is no register.
    #[error(
        "{} is damaged: found '{found}', expected {expected}; it says which sessions must not use a LUN that has another \
         store by now: restore it, or delete it if no host has a LUN of this target in use",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Contents found.
        found: String,
        /// Expected contents.
        expected: &'static str,
    },
}

const HEADER: &str = "farlun sessions 1";
const SUFFIX: &str = ".farlun-sessions";
const LOCK: &str = ".lock";

impl Register {
    /// Opens the register of target `iqn` in the state folder; also returns its contents.
    pub fn open(state: &Path, iqn: &str) -> Result<(Register, NexusList), RegisterError> {
        let path = place(state, iqn);
        let failed = |source| RegisterError::System { path: path.clone(), source };
        fs::create_dir_all(state).map_err(failed)?;
        let lock_path = with_suffix(path.clone(), LOCK);
        let lock = net::fs::create_unlinked(&lock_path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(RegisterError::Locked { path }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let list = load(&path)?;
        Ok((Register { path, _lock: lock }, list))
    }

    /// Checks the register of target `iqn` without opening it: a target that runs may have it.
    pub fn check(state: &Path, iqn: &str) -> Result<(), RegisterError> {
        load(&place(state, iqn)).map(|_| ())
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts `list` on stable storage; may block.
    pub fn save(&self, list: &NexusList) -> io::Result<()> {
        atomic_file::overwrite(&self.path, &to_text(list))
    }
}

fn place(state: &Path, iqn: &str) -> PathBuf {
    with_suffix(state.join(escape(iqn).replace('/', "%2f")), SUFFIX)
}

fn load(path: &Path) -> Result<NexusList, RegisterError> {
    let text = atomic_file::read(path);
    let Some(text) = text.map_err(|source| RegisterError::System { path: path.to_owned(), source })? else {
        return Ok(NexusList::default());
    };
    parse(&text).map_err(|(found, expected)| RegisterError::Damaged {
        path: path.to_owned(),
        found: found.chars().take(80).collect(),
        expected,
    })
}

fn to_text(list: &NexusList) -> String {
    let mut text = format!("{HEADER}\n");
    let mut last: Option<&Arc<KnownStores>> = None;
    for (port, stores) in &list.0 {
        if last != Some(stores) {
            text += "stores";
            for (number, store) in &stores.0 {
                let KnownStore { key, block_len_bytes, blocks } = store;
                text += &format!(" {number}:{key:016x}:{block_len_bytes}:{blocks}");
            }
            text += "\n";
            last = Some(stores);
        }
        let isid = port.isid.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        text += &format!("session {isid} {}\n", name_and_user(port));
    }
    let sum = hash(&[text.as_bytes()]);
    text + &format!("sum {sum:016x}\n")
}

/// Parses a text; the error is a piece of it, and its expected content.
fn parse(text: &str) -> Result<NexusList, (&str, &'static str)> {
    let cut = text.rfind("sum ").filter(|at| text[..*at].ends_with('\n'));
    let (body, sum) =
        text.split_at(cut.ok_or((text.lines().last().unwrap_or_default(), "a last line 'sum HEX'"))?);
    if sum != format!("sum {:016x}\n", hash(&[body.as_bytes()])) {
        return Err((sum.trim_end(), "the checksum of what is before it"));
    }
    let mut lines = body.lines();
    match lines.next() {
        Some(HEADER) => {}
        first => return Err((first.unwrap_or_default(), "'farlun sessions 1'")),
    }
    let mut list = NexusList::default();
    let mut known = Arc::new(KnownStores::default());
    for line in lines {
        let read = match line.split_once(' ').unwrap_or((line, "")) {
            ("stores", rest) => stores(rest).map(|stores| known = Arc::new(stores)),
            ("session", rest) => session(rest).map(|port| list.0.push((Arc::new(port), Arc::clone(&known)))),
            _ => None,
        };
        read.ok_or((line, "'stores NUMBER:KEY:BLOCK:BLOCKS…' or 'session ISID NAME [USER]'"))?;
    }
    Ok(list)
}

fn stores(text: &str) -> Option<KnownStores> {
    let store = |word: &str| {
        let mut fields = word.split(':');
        let number = fields.next()?.parse().ok()?;
        let key = u64::from_str_radix(fields.next()?, 16).ok()?;
        let (block_len_bytes, blocks) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        fields.next().is_none().then_some((number, KnownStore { key, block_len_bytes, blocks }))
    };
    text.split_whitespace().map(store).collect::<Option<_>>().map(KnownStores)
}

fn session(text: &str) -> Option<Port> {
    let words: Vec<&str> = text.split(' ').collect();
    let [isid, name, user @ ..] = &words[..] else { return None };
    let isid = u64::from_str_radix(isid, 16).ok().filter(|_| isid.len() == 12)?.to_be_bytes();
    let isid = [isid[2], isid[3], isid[4], isid[5], isid[6], isid[7]];
    Some(Port { name: unescape(name)?, isid, user: parse_user(user)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IQN: &str = "iqn.2026-11.io.farlun:test";

    fn list() -> NexusList {
        let port = |name: &str, last| {
            Arc::new(Port { name: name.to_owned(), isid: [0x80, 0, 0, 1, 2, last], user: None })
        };
        let store = |key, blocks| KnownStore { key, block_len_bytes: 4096, blocks };
        let one = Arc::new(KnownStores([(0, store(7, 100)), (255, store(u64::MAX, u64::MAX))].into()));
        let other = Arc::new(KnownStores::default());
        NexusList(vec![
            (port("iqn.2026-11.io.farlun:a", 1), Arc::clone(&one)),
            (port("odd \n%ä", 2), one),
            (
                Arc::new(Port {
                    user: Some("a user".to_owned()),
                    ..Port::clone(&port("iqn.2026-11.io.farlun:b", 3))
                }),
                other,
            ),
        ])
    }

    #[test]
    fn what_is_saved_is_there_again_for_one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let (register, found) = Register::open(dir.path(), IQN).unwrap();
        assert_eq!(found, NexusList::default());
        register.save(&list()).unwrap();
        Register::check(dir.path(), IQN).unwrap();
        Register::check(&dir.path().join("none"), IQN).unwrap();
        assert!(!dir.path().join("none").exists());
        let error = Register::open(dir.path(), IQN).unwrap_err().to_string();
        assert!(error.contains("in use by another target of the same name"), "{error}");
        assert_eq!(Register::open(dir.path(), "iqn.other/../x").unwrap().1, NexusList::default());
        drop(register);
        assert_eq!(Register::open(dir.path(), IQN).unwrap().1, list());
    }

    #[test]
    fn a_folder_that_has_gone_is_not_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let (register, _) = Register::open(&state, IQN).unwrap();
        register.save(&list()).unwrap();
        fs::remove_dir_all(&state).unwrap();
        assert_eq!(register.save(&list()).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!state.exists());
    }

    #[test]
    fn damage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (register, _) = Register::open(dir.path(), IQN).unwrap();
        let path = register.path().to_owned();
        drop(register);
        let good = to_text(&list());
        let mut bytes = good.clone().into_bytes();
        let check = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let error = Register::open(dir.path(), IQN).unwrap_err().to_string();
            assert_eq!(Register::check(dir.path(), IQN).unwrap_err().to_string(), error);
            assert!(error.contains("is damaged") || error.contains("cannot use"), "{error}");
        };
        for at in 0..good.len() {
            check(&bytes[..at]);
            bytes[at] ^= 1;
            check(&bytes);
            bytes[at] ^= 1;
        }
        for text in
            ["farlun sessions 2\n", "farlun sessions 1\nstores 0:1:2\n", "farlun sessions 1\nsession 80 a\n"]
        {
            check(format!("{text}sum {:016x}\n", hash(&[text.as_bytes()])).as_bytes());
        }
    }
}
