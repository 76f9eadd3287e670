//! Small text files that a person has written: configuration and secrets.
//!
//! Bounded, and never waited for: what is read again while a target serves must not hold it up.

use std::fs;
use std::io;
use std::path::Path;

/// More than any configuration needs.
const MOST_BYTES: u64 = 256 << 10;

/// Reads a regular file of at most 256 KiB.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::other("expected a regular file, found something else"));
    }
    if found.len() > MOST_BYTES {
        let text = format!("expected a text of at most {MOST_BYTES} bytes, found {}", found.len());
        return Err(io::Error::other(text));
    }
    let bytes = fs::read(path)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("expected text in UTF-8, found other bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_texts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let refused = |expected: &str| {
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        fs::write(&path, "x = 1").unwrap();
        assert_eq!(read(&path).unwrap(), "x = 1");
        fs::write(&path, [0xff]).unwrap();
        refused("UTF-8");
        fs::write(&path, vec![b' '; 1 << 20]).unwrap();
        refused("at most 262144 bytes");
        assert!(read(dir.path()).unwrap_err().to_string().contains("regular file"));
        assert!(read(Path::new("/dev/zero")).unwrap_err().to_string().contains("regular file"));
    }
}
