//! Names of the files that are kept of a LUN: beside its store, or in the state folder of the target.

use std::path::{Path, PathBuf};

/// The state folder unless another is given.
pub const STATE_DIR: &str = "/var/lib/farlun";

/// Context in which LUNs are opened: the target and its state folder.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Name of the target.
    pub iqn: &'a str,
    /// State folder of the target.
    pub state: &'a Path,
    /// The LUNs are inspected and not served: nothing is written.
    pub is_look: bool,
}

impl<'a> Opening<'a> {
    /// To serve them; `state` is the folder, if one is given.
    pub fn of(iqn: &'a str, state: Option<&'a Path>) -> Opening<'a> {
        Opening { iqn, state: state.unwrap_or(Path::new(STATE_DIR)), is_look: false }
    }
}

/// The name of a file beside `path`.
pub(crate) fn with_suffix(path: PathBuf, suffix: &str) -> PathBuf {
    let mut name = path.into_os_string();
    name.push(suffix);
    name.into()
}

/// The name of a file in the state folder that belongs to `path`.
pub(crate) fn in_state(state: &Path, path: &Path, suffix: &str) -> PathBuf {
    let name = path.to_string_lossy().trim_start_matches('/').replace('/', "!");
    with_suffix(state.join(name), suffix)
}
