//! A remedy: the commands of one stack.

use serde::Serialize;

/// Commands of one stack, as a block to copy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Remedy {
    /// Stack with this setting: `farlun`, `LIO`, `tgt`, `open-iscsi`, `Windows`, `ESXi`, `Linux`.
    pub stack: &'static str,
    /// Commands to run, or lines to write.
    pub commands: String,
}

/// Warning in front of commands that end a session.
pub(super) const UNMOUNT: &str = "# unmount first: this takes the target's disks away";

pub(super) fn remedy(stack: &'static str, commands: impl Into<String>) -> Remedy {
    Remedy { stack, commands: commands.into() }
}
