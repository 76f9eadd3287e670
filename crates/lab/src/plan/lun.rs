//! A `[[lun]]` of a plan: what the far host serves.

use document::Scalar;
use event::Bytes;

/// One LUN, numbered from 0 in the order of the plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lun {
    /// In memory.
    Memory {
        /// Its capacity.
        bytes: u64,
    },
    /// A file that exists.
    File {
        /// Its path, as on the command line.
        path: String,
    },
}

/// The kinds of LUN, and the one key each of them needs besides `kind`.
pub(super) const KINDS: &[(&str, &str)] = &[("memory", "size"), ("file", "path")];

impl Lun {
    /// A LUN of one of [`KINDS`] from the value of its key.
    pub(super) fn new(kind: &str, value: &Scalar) -> Result<Lun, String> {
        match kind {
            "file" => Ok(Lun::File { path: value.text()?.to_owned() }),
            _ => {
                let bytes = value.bytes()?;
                match bytes >= 512 && bytes % 512 == 0 {
                    true => Ok(Lun::Memory { bytes }),
                    false => Err(format!("a LUN is a multiple of 512 bytes, found '{}'", value.label())),
                }
            }
        }
    }

    /// As `farlun target --lun` takes it.
    pub fn argument(&self) -> String {
        match self {
            // A size that Bytes would round goes out as plain bytes, so that nothing is lost.
            Lun::Memory { bytes } => match Bytes(*bytes).to_string() {
                short if Bytes::parse(&short) == Ok(*bytes) => format!("memory:{short}"),
                _ => format!("memory:{bytes}"),
            },
            Lun::File { path } => format!("file:{path}"),
        }
    }
}
