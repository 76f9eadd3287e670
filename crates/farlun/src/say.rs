//! Standard output: where results go, one line or document at a time.
//!
//! Whoever reads it may have had enough (`| head`), which is no failure of ours: the rest is then said to nobody, and a
//! target goes on serving.

use std::fmt;
use std::io::{ErrorKind, Write, stdout};

/// Prints a line to standard output; see the module.
macro_rules! say {
    ($($what:tt)*) => { $crate::say::line(format_args!($($what)*)) };
}

/// Prints a line.
pub(crate) fn line(what: fmt::Arguments<'_>) {
    let mut out = stdout().lock();
    match writeln!(out, "{what}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("farlun: cannot write to standard output: {error}");
            std::process::exit(crate::exit::FAILED.into());
        }
        _ => {}
    }
}
