//! What users write after `--lun`: `memory:4GiB`, `file:PATH`, `file:PATH,ro`.
//!
//! Only the text is read here; nothing is opened and no size is judged.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use event::{Bytes, ParseError};
use thiserror::Error;

/// A LUN that is to be served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LunSpec {
    /// `memory:SIZE`: zeroes at first, gone with the process.
    Memory {
        /// Its size.
        len: Bytes,
    },
    /// `file:PATH[,ro]`: an existing file.
    File {
        /// The file. A comma is part of the name, unless the text ends in `,ro`.
        path: PathBuf,
        /// Serves it write-protected.
        read_only: bool,
    },
}

/// Why a LUN specification could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SpecError {
    /// The word before the colon is no kind of LUN, or there is none.
    #[error("'{found}' is not a LUN; did you mean '{nearest}'? expected memory:SIZE or file:PATH[,ro]")]
    Kind {
        /// The whole text.
        found: String,
        /// The nearest that could have been meant.
        nearest: String,
    },
    /// `memory:` without a readable size.
    #[error("in '{found}': {source}")]
    Size {
        /// The whole text.
        found: String,
        /// What is wrong with the size.
        source: ParseError,
    },
    /// `file:` and nothing behind it.
    #[error("'{found}' names no file; expected file:PATH[,ro]")]
    NoPath {
        /// The whole text.
        found: String,
    },
}

const KINDS: [&str; 2] = ["memory", "file"];
const READ_ONLY: &str = ",ro";

impl LunSpec {
    /// The word before the colon.
    pub fn kind(&self) -> &'static str {
        match self {
            LunSpec::Memory { .. } => KINDS[0],
            LunSpec::File { .. } => KINDS[1],
        }
    }
}

impl FromStr for LunSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<LunSpec, SpecError> {
        let found = || text.to_owned();
        match text.split_once(':') {
            Some(("memory", size)) => match size.parse() {
                Ok(len) => Ok(LunSpec::Memory { len }),
                Err(source) => Err(SpecError::Size { found: found(), source }),
            },
            Some(("file", rest)) => {
                let (path, read_only) = match rest.strip_suffix(READ_ONLY) {
                    Some(path) => (path, true),
                    None => (rest, false),
                };
                if path.is_empty() {
                    return Err(SpecError::NoPath { found: found() });
                }
                Ok(LunSpec::File { path: path.into(), read_only })
            }
            _ => Err(SpecError::Kind { found: found(), nearest: nearest(text) }),
        }
    }
}

impl fmt::Display for LunSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A size that its unit would round is written as bytes, so that the text can be read back.
            LunSpec::Memory { len } if len.to_string().parse() == Ok(*len) => write!(f, "memory:{len}"),
            LunSpec::Memory { len } => write!(f, "memory:{}B", len.0),
            LunSpec::File { path, read_only } => {
                write!(f, "file:{}{}", path.display(), if *read_only { READ_ONLY } else { "" })
            }
        }
    }
}

/// The valid specification that is most like `text`.
fn nearest(text: &str) -> String {
    match text.split_once(':') {
        Some((word, rest)) if !word.contains('/') => {
            let word = word.to_ascii_lowercase();
            let kind = KINDS.into_iter().min_by_key(|kind| distance(&word, kind)).unwrap_or(KINDS[0]);
            format!("{kind}:{rest}")
        }
        // Without a kind, something that reads as a size is memory and anything else a path.
        _ if text.parse::<Bytes>().is_ok() => format!("memory:{text}"),
        _ if text.is_empty() => "memory:1GiB".to_owned(),
        _ => format!("file:{text}"),
    }
}

/// Letters to insert, remove or replace to turn `a` into `b`; a beginning of `b` counts as next to it.
fn distance(a: &str, b: &str) -> usize {
    if !a.is_empty() && b.starts_with(a) {
        return 0;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_ones_are_read_and_written_back() {
        let memory = |bytes| LunSpec::Memory { len: Bytes(bytes) };
        let file = |path: &str, read_only| LunSpec::File { path: path.into(), read_only };
        for (text, spec) in [
            ("memory:4GiB", memory(4 << 30)),
            ("memory:1000", memory(1000)),
            ("memory:1000B", memory(1000)),
            ("memory:1073742336", memory((1 << 30) + 512)),
            ("file:/srv/disk.img", file("/srv/disk.img", false)),
            ("file:/srv/disk.img,ro", file("/srv/disk.img", true)),
            ("file:a,b:c", file("a,b:c", false)),
        ] {
            assert_eq!(text.parse(), Ok(spec.clone()), "{text}");
            assert_eq!(spec.to_string().parse(), Ok(spec), "{text}");
        }
        assert_eq!(memory(4 << 30).to_string(), "memory:4GiB");
    }

    #[test]
    fn bad_ones_name_what_is_near() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<LunSpec>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: '{expected}' is missing in: {error}");
        };
        check("mem:4GiB", "did you mean 'memory:4GiB'?");
        check("Memory:4GiB", "did you mean 'memory:4GiB'?");
        check("flie:/srv/disk", "did you mean 'file:/srv/disk'?");
        check("f:/srv/disk", "did you mean 'file:/srv/disk'?");
        check("/srv/disk", "did you mean 'file:/srv/disk'?");
        check("/srv/a:b", "did you mean 'file:/srv/a:b'?");
        check("4GiB", "did you mean 'memory:4GiB'?");
        check("", "expected memory:SIZE or file:PATH[,ro]");
        check("memory:", "in 'memory:': '' is not a size such as");
        check("memory:4 apples", "'4 apples' is not a size");
        check("file:", "names no file");
        check("file:,ro", "names no file");
    }
}
