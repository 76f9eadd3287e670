//! Standard output, where results go, one line or document at a time; and standard error, for what is said beside them.
//!
//! Whoever reads them may have had enough (`| head`) or be gone, which is no failure of ours: the rest is then said to
//! nobody, and a target goes on serving. Who would only go on saying asks whether somebody reads.

use std::fmt;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

/// Nobody reads standard output any more.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Prints a line to standard output; see the module.
macro_rules! say {
    ($($what:tt)*) => { $crate::say::line(format_args!($($what)*)) };
}

/// Prints a line to standard error, if anybody reads it.
macro_rules! note {
    ($($what:tt)*) => { $crate::say::beside(format_args!($($what)*)) };
}

/// Prints a line.
pub(crate) fn line(what: fmt::Arguments<'_>) {
    let mut out = stdout().lock();
    match writeln!(out, "{what}").and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => IS_CLOSED.store(true, Ordering::Relaxed),
        Err(error) => {
            note!("farlun: cannot write to standard output: {error}");
            std::process::exit(crate::exit::FAILED.into());
        }
    }
}

/// Whether somebody read the last line.
pub(crate) fn is_read() -> bool {
    !IS_CLOSED.load(Ordering::Relaxed)
}

/// Prints a line beside the results.
pub(crate) fn beside(what: fmt::Arguments<'_>) {
    let _ = writeln!(stderr().lock(), "{what}");
}
