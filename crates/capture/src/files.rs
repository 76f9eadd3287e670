//! The files of a capture: one after the other, each with the same header; beyond a limit the oldest is removed.
//!
//! A file is a complete pcapng file after every write, so nothing has to be done at its end. Nothing is overwritten:
//! existing files keep their names. Blocks are not decoded.
//!
//! Large writes bypass the page cache where the file system allows it: they cost a third of the CPU time, and leave the
//! cache to the observed programs.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use event::Instant;
use wire::pcap::write::padding_len;

use crate::CaptureError;
use crate::batch::ALIGNMENT;
use crate::shelf::Shelf;

const EXTENSION: &str = "pcapng";
/// Less than this is no file worth having.
pub const FILE_BYTES_MIN: u64 = 1 << 20;

/// Numbers of others that are passed over for one file.
const NUMBERS_MAX: u32 = 1000;

/// Least size of a write that bypasses the page cache.
const DIRECT_BYTES_MIN: usize = 256 << 10;

/// Rotation of files, and limit on their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rotation {
    /// Size at which a new file begins.
    pub bytes: Option<u64>,
    /// Age at which a new file begins.
    pub time: Option<Duration>,
    /// The oldest are removed.
    pub files: Option<u32>,
}

/// Files in a directory, `PREFIX-00001.pcapng` and so on.
#[derive(Debug)]
pub(crate) struct Files {
    dir: PathBuf,
    prefix: String,
    header: Vec<u8>,
    rotation: Rotation,
    number: u32,
    current: Current,
    /// Existing files, the current one last.
    kept: VecDeque<PathBuf>,
    /// Files that they count together with.
    shelf: Shelf,
    removed: u64,
}

#[derive(Debug)]
struct Current {
    file: File,
    /// The same file opened for direct I/O, if the file system allows it.
    direct: Option<File>,
    path: PathBuf,
    len: u64,
    begun: Instant,
}

impl Files {
    /// Begins the first file, numbered behind those of this prefix in `dir`.
    pub(crate) fn create(
        dir: &Path,
        prefix: &str,
        header: Vec<u8>,
        rotation: Rotation,
        now: Instant,
    ) -> Result<Files, CaptureError> {
        Files::create_on(&Shelf::default(), dir, prefix, (header, rotation), now)
    }

    /// Creates the first file of a capture that shares the limit of a shelf.
    pub(crate) fn create_on(
        shelf: &Shelf,
        dir: &Path,
        prefix: &str,
        (header, rotation): (Vec<u8>, Rotation),
        now: Instant,
    ) -> Result<Files, CaptureError> {
        let failed = |source| CaptureError::File { path: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(failed)?;
        let last = last_number(dir, prefix).map_err(failed)?;
        let (number, current) = Current::create_behind(dir, prefix, last, &header, now)?;
        shelf.add(&current.path);
        let kept = VecDeque::from([current.path.clone()]);
        let (dir, prefix, shelf) = (dir.to_owned(), prefix.to_owned(), shelf.clone());
        let mut files = Files { dir, prefix, header, rotation, number, current, kept, shelf, removed: 0 };
        files.trim()?;
        Ok(files)
    }

    /// Adds whole blocks. After an error the file ends where it did before, and the same can be tried again.
    pub(crate) fn write(&mut self, blocks: &[u8], now: Instant) -> Result<(), CaptureError> {
        if self.is_due(blocks.len() as u64, now) {
            self.rotate(now)?;
        }
        self.current.write(blocks)
    }

    /// Padding behind `len` bytes that allows the next write to bypass the page cache.
    pub(crate) fn padding_behind(&self, len: usize) -> usize {
        let is_worth_it = self.current.direct.is_some() && len >= DIRECT_BYTES_MIN;
        let end = self.current.len + len as u64;
        if is_worth_it { padding_len(end, ALIGNMENT as u64) } else { 0 }
    }

    /// The files that are there, the oldest first.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.kept.iter().map(PathBuf::as_path)
    }

    /// Number of removed files.
    pub(crate) const fn removed(&self) -> u64 {
        self.removed
    }

    fn is_due(&self, more: u64, now: Instant) -> bool {
        let Rotation { bytes, time, .. } = self.rotation;
        let has_packets = self.current.len > self.header.len() as u64;
        has_packets
            && (bytes.is_some_and(|most| self.current.len + more > most)
                || time.is_some_and(|time| now.since(self.current.begun) >= time))
    }

    fn rotate(&mut self, now: Instant) -> Result<(), CaptureError> {
        let (dir, prefix) = (&self.dir, &self.prefix);
        let (number, current) = Current::create_behind(dir, prefix, self.number, &self.header, now)?;
        self.shelf.close(&self.current.path);
        self.shelf.add(&current.path);
        (self.number, self.current) = (number, current);
        self.kept.push_back(self.current.path.clone());
        self.trim()
    }

    /// Removes the oldest files beyond the limit.
    fn trim(&mut self) -> Result<(), CaptureError> {
        let Some(most) = self.rotation.files else { return Ok(()) };
        self.removed += self.shelf.trim((most as usize).max(1))?;
        let shelf = &self.shelf;
        // The oldest are removed first.
        while self.kept.front().is_some_and(|path| !shelf.holds(path)) {
            self.kept.pop_front();
        }
        Ok(())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.shelf.close(&self.current.path);
    }
}

impl Current {
    /// The next file behind number `last`, and its number. Another capture in the same directory takes numbers too.
    fn create_behind(
        dir: &Path,
        prefix: &str,
        last: u32,
        header: &[u8],
        now: Instant,
    ) -> Result<(u32, Current), CaptureError> {
        let mut number = last;
        for tries_left in (0..NUMBERS_MAX).rev() {
            number = number.checked_add(1).ok_or_else(|| CaptureError::File {
                path: dir.to_owned(),
                source: io::Error::other(format!("no number is left for a file {prefix}-NUMBER")),
            })?;
            match Current::create(dir, prefix, number, header, now) {
                Err(CaptureError::File { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists && tries_left > 0 => {}
                outcome => return outcome.map(|current| (number, current)),
            }
        }
        unreachable!("the last try returns")
    }

    fn create(
        dir: &Path,
        prefix: &str,
        number: u32,
        header: &[u8],
        now: Instant,
    ) -> Result<Current, CaptureError> {
        let path = dir.join(format!("{prefix}-{number:05}.{EXTENSION}"));
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.map_err(|source| CaptureError::File { path: path.clone(), source })?;
        let direct = net::fs::reopen_direct(file.as_fd(), true).ok();
        let mut current = Current { file, direct, path, len: 0, begun: now };
        if let Err(error) = current.write(header) {
            // A file without its header is none.
            let _ = fs::remove_file(&current.path);
            return Err(error);
        }
        Ok(current)
    }

    fn write(&mut self, blocks: &[u8]) -> Result<(), CaptureError> {
        let is_aligned = blocks.len().is_multiple_of(ALIGNMENT)
            && blocks.as_ptr().align_offset(ALIGNMENT) == 0
            && self.len.is_multiple_of(ALIGNMENT as u64);
        let direct = self.direct.as_ref().filter(|_| is_aligned);
        let mut outcome = direct.unwrap_or(&self.file).write_all_at(blocks, self.len);
        if direct.is_some()
            && outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput)
        {
            // A device with larger blocks.
            self.direct = None;
            outcome = self.file.write_all_at(blocks, self.len);
        }
        if let Err(source) = outcome {
            // Whatever happened to the disk, complete blocks stay complete.
            let _ = self.file.set_len(self.len);
            return Err(CaptureError::File { path: self.path.clone(), source });
        }
        self.len += blocks.len() as u64;
        Ok(())
    }
}

/// Highest number of a file of this prefix; 0 without one.
fn last_number(dir: &Path, prefix: &str) -> io::Result<u32> {
    let mut last = 0;
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| {
            let rest = name.strip_prefix(prefix)?.strip_prefix('-')?;
            rest.strip_suffix(EXTENSION)?.strip_suffix('.')?.parse::<u32>().ok()
        });
        last = last.max(number.unwrap_or(0));
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_as_long_and_as_many_as_they_may() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a-00004.pcapng"), "old").unwrap();
        fs::write(dir.path().join("a-b-00009.pcapng"), "another's").unwrap();
        let rotation = Rotation { bytes: Some(10), time: None, files: Some(2) };
        let mut files = Files::create(dir.path(), "a", b"HEAD".to_vec(), rotation, at(0)).unwrap();
        for blocks in ["12345", "6", "78901234567", "8", "9"] {
            files.write(blocks.as_bytes(), at(0)).unwrap();
        }
        let expected = ["a-00004.pcapng", "a-00006.pcapng", "a-00007.pcapng", "a-b-00009.pcapng"];
        assert_eq!((names(dir.path()), files.removed()), (expected.map(str::to_owned).to_vec(), 1));
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!((text(expected[1]), text(expected[2])), ("HEAD78901234567".into(), "HEAD89".into()));
        assert_eq!(text(expected[0]), "old");
        assert_eq!(files.paths().count(), 2);
    }

    #[test]
    fn two_captures_share_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let rotation = Rotation { bytes: Some(10), time: None, files: Some(2) };
        let new = || Files::create(dir.path(), "a", b"HEAD".to_vec(), rotation, at(0)).unwrap();
        let mut both = [new(), new()];
        for n in 0..4 {
            both.iter_mut().for_each(|files| files.write(b"123456", at(n)).unwrap());
        }
        let expected = [5, 6, 7, 8].map(|number| format!("a-{number:05}.pcapng"));
        assert_eq!(names(dir.path()), expected);
        fs::write(dir.path().join(format!("a-{}.pcapng", u32::MAX)), "the last number").unwrap();
        let error = Files::create(dir.path(), "a", Vec::new(), rotation, at(0)).unwrap_err().to_string();
        assert!(error.contains("no number is left"), "{error}");
    }

    #[test]
    fn a_file_that_is_old_ends_when_more_comes() {
        let dir = tempfile::tempdir().unwrap();
        let rotation = Rotation { time: Some(Duration::from_secs(10)), ..Rotation::default() };
        let mut files = Files::create(dir.path(), "a", b"HEAD".to_vec(), rotation, at(0)).unwrap();
        for (second, count) in [(50, 1), (55, 2), (60, 2), (65, 3)] {
            files.write(b"x", at(second)).unwrap();
            assert_eq!(files.paths().count(), count, "after {second} s");
        }
    }

    #[test]
    fn a_full_disk_leaves_a_whole_file() {
        // /dev/full is always full, but cannot be created: the file of a capture stands for it.
        let dir = tempfile::tempdir().unwrap();
        let mut files = Files::create(dir.path(), "a", b"HEAD".to_vec(), Rotation::default(), at(0)).unwrap();
        files.write(b"good", at(0)).unwrap();
        let good = std::mem::replace(
            &mut files.current.file,
            OpenOptions::new().write(true).open("/dev/full").unwrap(),
        );
        let error = files.write(b"lost", at(0)).unwrap_err().to_string();
        assert!(error.contains("a-00001.pcapng") && error.contains("No space left"), "{error}");
        files.current.file = good;
        files.write(b" again", at(0)).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("a-00001.pcapng")).unwrap(), "HEADgood again");
    }
}
