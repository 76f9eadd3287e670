//! Identity of a program's build: two of one version may differ.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 18;

/// SHA-256 of a file, as sha256sum(1) prints it.
pub(in crate::run) fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            bytes => digest.update(&piece[..bytes]),
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Fingerprint of a file that shows a replacement or a write: device, inode, length and time of change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::run) struct Fingerprint([i64; 5]);

impl Fingerprint {
    /// `None` if there is no such file.
    pub(in crate::run) fn of(path: &Path) -> Option<Fingerprint> {
        let file = fs::metadata(path).ok()?;
        Some(Fingerprint([
            file.dev() as i64,
            file.ino() as i64,
            file.size() as i64,
            file.mtime(),
            file.mtime_nsec(),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_sum_that_others_find() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("abc");
        fs::write(&file, "abc").unwrap();
        // FIPS 180-4, the first example.
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&file).unwrap(), sum);
        assert!(sha256(&dir.path().join("none")).is_err());
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("abc"), dir.path().join("new"));
        assert_eq!(Fingerprint::of(&file), None);
        fs::write(&file, "abc").unwrap();
        let fingerprint = Fingerprint::of(&file);
        assert!(fingerprint.is_some() && fingerprint == Fingerprint::of(&file));
        fs::write(&other, "xyz").unwrap();
        fs::rename(&other, &file).unwrap();
        assert_ne!(Fingerprint::of(&file), fingerprint);
    }
}
