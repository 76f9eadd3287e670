//! Exit codes, the same for every subcommand, and how an error carries one.

use std::fmt;

use tables::SchemaVersionError;

/// Done.
pub(crate) const DONE: u8 = 0;
/// The operation failed.
pub(crate) const FAILED: u8 = 1;
/// Bad usage.
pub(crate) const USAGE: u8 = 2;
/// The peer refused: login or authorisation.
pub(crate) const REFUSED: u8 = 3;
/// The run is invalid: emulator late, machine starved.
pub(crate) const INVALID: u8 = 4;

/// Marks an error with the exit code it ends the process with; errors without it end with [`FAILED`].
#[derive(Debug)]
pub(crate) struct Exit {
    code: u8,
    text: String,
}

impl Exit {
    /// An error that ends the process with `code`.
    pub(crate) fn error(code: u8, text: impl fmt::Display) -> anyhow::Error {
        anyhow::Error::new(Exit { code, text: text.to_string() })
    }

    /// A usage error: exit code 2.
    pub(crate) fn usage(text: impl fmt::Display) -> anyhow::Error {
        Exit::error(USAGE, text)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Exit {}

/// An error and its causes as one sentence; a cause that the error already quotes is not repeated.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            let joint = if text.is_empty() { "" } else { ": " };
            text.push_str(joint);
            text.push_str(&cause);
        }
    }
    text
}

/// The exit code an error stands for.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    // A run of another schema version is refused like a path that is no run, in every command.
    if error.chain().any(|cause| cause.downcast_ref::<SchemaVersionError>().is_some()) {
        return USAGE;
    }
    error.downcast_ref::<Exit>().map_or(FAILED, |exit| exit.code)
}
