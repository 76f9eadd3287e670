//! Small text files that a person has written: configuration and secrets.
//!
//! Bounded and without waiting: a reload must not hold up a target that serves.

use std::io::{self, Read};
use std::path::Path;

/// More than any configuration needs.
const MOST_BYTES: u64 = 256 << 10;

/// Reads a regular file of at most 256 KiB.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let file = net::fs::open_regular(path, false)?;
    let len_bytes = file.metadata()?.len();
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    let found_bytes = len_bytes.max(bytes.len() as u64);
    if found_bytes > MOST_BYTES {
        let text = format!("expected a text of at most {MOST_BYTES} bytes, found {found_bytes}");
        return Err(io::Error::other(text));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("expected text in UTF-8, found other bytes"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

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
        let fifo = dir.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(read(&fifo).unwrap_err().to_string().contains("regular file"));
        assert!(read(Path::new("/dev/zero")).unwrap_err().to_string().contains("regular file"));
    }
}
