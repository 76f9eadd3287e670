//! A LUN in a regular file.
//!
//! The file keeps an advisory lock (`flock`) while it is served, so that two targets never write one file;
//! programs that ignore the lock can still do harm. Reads and writes are in `store.rs`; block
//! devices are in `device.rs`.

use std::fs::TryLockError;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::open::{OpenAs, OpenError};
use super::store::{FileStore, Shape};
use super::watched::Watched;

/// Bytes of a page of the cache, and of a block of most file systems.
const PAGE_BYTES: u32 = 4096;

impl FileStore {
    /// Opens and locks the file `path`: exclusively, or shared with other readers if it is only read.
    pub fn open_file(path: &Path, open_as: OpenAs, block_len_bytes: u32) -> Result<FileStore, OpenError> {
        let owned = || path.to_owned();
        let system = |action| move |source| OpenError::System { action, path: owned(), source };
        let read_only = open_as.read_only;

        // Looked at before it is opened, for the message.
        let kind = match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(OpenError::Missing { path: owned() });
            }
            other => other.map_err(system("examine"))?.file_type(),
        };
        if !kind.is_file() {
            let (found, expected) = match () {
                () if kind.is_block_device() => ("a block device", "a regular file; use block:DEVICE"),
                () if kind.is_dir() => ("a directory", "a regular file"),
                () => ("a device, pipe or socket", "a regular file"),
            };
            return Err(OpenError::NotAFile { path: owned(), found, expected });
        }
        let action =
            if read_only { "open for reading" } else { "open for writing (',ro' serves it read-only)" };
        let file = net::fs::open_regular(path, !read_only).map_err(system(action))?;

        let locked = if read_only { file.try_lock_shared() } else { file.try_lock() };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked { path: owned() }),
            Err(TryLockError::Error(source)) => return Err(system("lock")(source)),
        }
        // Measured only now, when no other target can be resizing it.
        let len_bytes = file.metadata().map_err(system("examine"))?.len();
        if len_bytes == 0 || !len_bytes.is_multiple_of(u64::from(block_len_bytes)) {
            return Err(OpenError::Size { path: owned(), len_bytes, block_len_bytes });
        }
        let direct = match open_as.direct.then(|| net::fs::reopen_direct(file.as_fd(), !read_only)) {
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(OpenError::NoDirect { path: owned() });
            }
            direct => direct.transpose().map_err(system("open past the page cache"))?,
        };
        // Behind the end there is nothing to lose.
        let punched = net::fs::punch_hole(file.as_fd(), len_bytes, PAGE_BYTES.into());
        let shape = Shape {
            makes_zeros: !punched.is_err_and(|error| error.kind() == io::ErrorKind::Unsupported),
            len_bytes,
            block_len_bytes,
            physical_block_bytes: 1,
            // Smaller writes read first, and leave no hole.
            granularity_bytes: PAGE_BYTES,
        };
        let watched = Watched::new(path, file.as_fd(), len_bytes).map_err(system("open once more"))?;
        FileStore::new(file, direct, shape, Some(watched)).map_err(system("open once more"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::io::ErrorKind;
    use std::os::fd::AsFd;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::thread;

    use net::aligned::Aligned;

    use super::*;
    use crate::error::{BlockError, ErrorKind as Kind};
    use crate::store::BlockingStore;

    const WRITABLE: OpenAs = OpenAs { read_only: false, direct: false };
    const READ_ONLY: OpenAs = OpenAs { read_only: true, direct: false };

    /// A directory that is removed with the value, and a file of `len_bytes` in it.
    fn disk(len_bytes: u64) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        File::create(&path).unwrap().set_len(len_bytes).unwrap();
        (dir, path)
    }

    #[test]
    fn what_was_just_written_is_read_without_waiting() {
        let (_dir, path) = disk(1 << 20);
        let store = FileStore::open_file(&path, WRITABLE, 512).unwrap();
        store.write_at(8192, &[7; 16_384]).unwrap();
        let mut into = vec![0; 16_384];
        let file = File::open(&path).unwrap();
        // Overlays cannot tell which pages are in memory, for one.
        let looked = net::fs::read_cached_at(file.as_fd(), &mut into, 8192);
        let can_tell = !looked.is_err_and(|error| error.kind() == ErrorKind::Unsupported);
        into.fill(0);
        assert_eq!(store.read_cached(8192, &mut into), can_tell);
        assert!(!can_tell || into == [7; 16_384]);
        assert!(!store.read_cached(8192, &mut [0; 16_385]), "what is long is a worker's");
        assert!(!store.read_cached((1 << 20) - 512, &mut [0; 1024]), "not all of it is there");
        // Of the next two one is let pass.
        assert!(!store.read_cached(8192, &mut into));
        assert_eq!(store.read_cached(8192, &mut into), can_tell);
    }

    #[test]
    fn keeps_what_several_threads_write() {
        let (_dir, path) = disk(1 << 20);
        let store = Arc::new(FileStore::open_file(&path, WRITABLE, 512).unwrap());
        thread::scope(|scope| {
            for n in 0..8u8 {
                let store = Arc::clone(&store);
                scope.spawn(move || store.write_at(u64::from(n) * 4096, &[n + 1; 4096]).unwrap());
            }
        });
        store.sync().unwrap();
        drop(store);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 1 << 20);
        for n in 0..8usize {
            assert!(bytes[n * 4096..(n + 1) * 4096].iter().all(|&b| usize::from(b) == n + 1), "{n}");
        }
        let again = FileStore::open_file(&path, READ_ONLY, 512).unwrap();
        let mut block = [0; 512];
        again.read_at(7 * 4096, &mut block).unwrap();
        assert_eq!(block, [8; 512]);
    }

    #[test]
    fn what_cannot_be_served_is_named() {
        let check = |path: &Path, expected: &[&str]| {
            let text = FileStore::open_file(path, WRITABLE, 512).unwrap_err().to_string();
            for part in expected {
                assert!(text.contains(part), "'{part}' is missing in: {text}");
            }
        };
        let (dir, _path) = disk(1000);
        check(&dir.path().join("disk"), &["1000 bytes", "block size of 512", "truncate -s %512"]);
        check(&dir.path().join("none"), &["does not exist", "truncate -s 10G"]);
        check(dir.path(), &["is a directory"]);
        check(Path::new("/dev/null"), &["is a device", "expected a regular file"]);
        check(&dir.path().join("disk/inner"), &["cannot examine"]);
        File::create(dir.path().join("empty")).unwrap();
        check(&dir.path().join("empty"), &["has 0 bytes", "an empty file needs a size"]);
    }

    #[test]
    fn one_writer_or_many_readers() {
        let (_dir, path) = disk(4096);
        let locked =
            |open_as| matches!(FileStore::open_file(&path, open_as, 512), Err(OpenError::Locked { .. }));
        let writer = FileStore::open_file(&path, WRITABLE, 512).unwrap();
        assert!(locked(WRITABLE) && locked(READ_ONLY), "nobody beside a writer");
        drop(writer);
        let _reader = FileStore::open_file(&path, READ_ONLY, 512).unwrap();
        assert!(!locked(READ_ONLY), "a second reader may");
        assert!(locked(WRITABLE), "no writer beside a reader");
    }

    #[test]
    fn a_read_only_store_refuses_writes() {
        let (_dir, path) = disk(4096);
        let store = FileStore::open_file(&path, READ_ONLY, 512).unwrap();
        assert!(matches!(store.write_at(0, &[1; 512]), Err(BlockError { kind: Kind::Medium, .. })));
        assert_eq!(fs::read(&path).unwrap(), vec![0; 4096]);
    }

    #[test]
    fn what_is_zeroed_is_given_back() {
        use std::os::unix::fs::MetadataExt;

        let (_dir, path) = disk(1 << 20);
        let store = FileStore::open_file(&path, WRITABLE, 512).unwrap();
        store.write_at(0, &[1; 1 << 20]).unwrap();
        store.sync().unwrap();
        let before = fs::metadata(&path).unwrap().blocks();
        store.zero_at(0, 1 << 19).unwrap();
        store.zero_at((1 << 20) - 512, 512).unwrap();
        store.zero_at(1 << 20, 0).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.iter().filter(|&&byte| byte == 1).count(), (1 << 19) - 512);
        assert!(bytes[..1 << 19].iter().all(|&byte| byte == 0) && bytes.len() == 1 << 20);
        assert!(fs::metadata(&path).unwrap().blocks() <= before);
    }

    #[test]
    fn a_file_that_was_cut_is_an_error() {
        let (_dir, path) = disk(8192);
        let store = FileStore::open_file(&path, WRITABLE, 512).unwrap();
        let set_len =
            |bytes| OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(bytes)).unwrap();
        set_len(4608);
        let mut buffer = [0; 4096];
        store.read_at(0, &mut buffer).unwrap();
        let failed = |result: Result<(), BlockError>| {
            let error = result.unwrap_err();
            let text = "cut to 4608 bytes, and had 8192";
            assert!(error.kind == Kind::Medium && error.text.contains(text), "{error}");
        };
        failed(store.read_at(4096, &mut buffer));
        // A later write does not make the file longer, and growth by others brings no data back.
        for grown_bytes in [4608, 8192] {
            set_len(grown_bytes);
            failed(store.write_at(7680, &[1; 512]));
            failed(store.write_through(4608, &[1; 512]));
            failed(store.zero_at(4096, 4096));
            failed(store.write_zeros_at(4096, 4096));
            failed(store.read_at(4096, &mut buffer));
            assert!(!store.read_cached(4096, &mut buffer));
            assert_eq!(fs::metadata(&path).unwrap().len(), grown_bytes);
        }
        store.write_at(4096, &[2; 512]).unwrap();
        store.read_at(4096, &mut buffer[..512]).unwrap();
        assert_eq!(buffer[..512], [2; 512]);
    }

    /// A write finds it.
    #[test]
    fn a_write_to_a_file_that_was_cut_does_not_make_zeros_of_what_is_lost() {
        let (_dir, path) = disk(8192);
        fs::write(&path, [7; 8192]).unwrap();
        let store = FileStore::open_file(&path, WRITABLE, 512).unwrap();
        OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(512)).unwrap();
        assert!(matches!(store.write_at(7680, &[1; 512]), Err(BlockError { kind: Kind::Medium, .. })));
        assert!(matches!(store.read_at(4096, &mut [0; 512]), Err(BlockError { kind: Kind::Medium, .. })));
    }

    #[test]
    fn a_failed_sync_stays_failed() {
        let (_dir, path) = disk(4096);
        let store = FileStore::open_file(&path, WRITABLE, 512).unwrap();
        let failure = BlockError::new(Kind::Medium, "lost");
        store.lose_writes(failure.clone());
        assert_eq!(store.sync(), Err(failure));
    }

    /// Aligned and not, through one descriptor or the other: always the same bytes.
    #[test]
    fn past_the_page_cache_it_is_the_same_file() {
        let (_dir, path) = disk(1 << 20);
        let direct = OpenAs { read_only: false, direct: true };
        let store = match FileStore::open_file(&path, direct, 512) {
            // Temporary files may be where there is no such thing.
            Err(OpenError::NoDirect { .. }) => return println!("no I/O past the page cache in {path:?}"),
            store => store.unwrap(),
        };
        let mut pages = Aligned::zeroed(16384);
        pages.fill(1);
        store.write_at(0, &pages).unwrap();
        store.write_at(512, &[2; 512]).unwrap();
        pages.fill(3);
        store.write_through(4096, &pages[..4096]).unwrap();
        store.write_through(8192 + 512, &pages[512..1536]).unwrap();
        store.read_at(0, &mut pages).unwrap();
        let expected = [(512, 1), (512, 2), (3072, 1), (4096, 3), (512, 1), (1024, 3), (6656, 1)];
        let expected: Vec<u8> = expected.iter().flat_map(|&(len, byte)| vec![byte; len]).collect();
        assert!(pages[..] == expected && fs::read(&path).unwrap()[..16384] == expected);
        let mut odd = [0; 1024];
        store.read_at(512, &mut odd).unwrap();
        assert_eq!(odd[..], expected[512..1536]);
        let error = store.write_at(1 << 20, &pages).and_then(|()| store.read_at(2 << 20, &mut pages));
        assert!(matches!(error, Err(BlockError { kind: Kind::Medium, .. })), "{error:?}");
    }
}
