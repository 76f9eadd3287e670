//! Standard output for results, one line or document at a time; and standard error for messages beside them.
//!
//! A reader may stop early (`| head`) or be gone, which is not an error of this program: the rest is then discarded,
//! and a target goes on serving. A command whose only purpose is output polls `is_read`.
//!
//! Secrets in URLs are hidden here, in text and in JSON, in any message: an error of the flags, a notice, a result.

use std::fmt;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use net::wait;

/// Standard output has no reader any more.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Prints a line to standard output; see the module.
macro_rules! say {
    ($($what:tt)*) => { $crate::say::line(format_args!($($what)*)) };
}

/// Prints a line to standard error, if it has a reader.
macro_rules! note {
    ($($what:tt)*) => { $crate::say::beside(format_args!($($what)*)) };
}

/// Prints a line.
pub(crate) fn line(what: fmt::Arguments<'_>) {
    if let Err(error) = try_line(what) {
        note!("farlun: cannot write to standard output: {error}");
        std::process::exit(crate::exit::FAILED.into());
    }
}

/// Prints a line without waiting for the reader, for a process that serves meanwhile: an error if the line cannot be
/// written now (the rest of a line longer than 4096 bytes is waited for).
pub(crate) fn line_at_once(what: fmt::Arguments<'_>) -> io::Result<()> {
    if !wait::takes(stdout().as_fd())? {
        return Err(io::Error::new(ErrorKind::WouldBlock, "nobody reads it"));
    }
    try_line(what)
}

fn try_line(what: fmt::Arguments<'_>) -> io::Result<()> {
    let mut out = stdout().lock();
    match writeln!(out, "{}", without_secrets(&what.to_string())).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            IS_CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        written => written,
    }
}

/// Returns true if the last line could be written, so that a reader exists.
pub(crate) fn is_read() -> bool {
    !IS_CLOSED.load(Ordering::Relaxed)
}

/// Prints a line beside the results.
pub(crate) fn beside(what: fmt::Arguments<'_>) {
    let _ = writeln!(stderr().lock(), "{}", without_secrets(&what.to_string()));
}

/// A line of text, or a JSON document, as it may be shown. Text may begin like a document: with an IPv6 address.
fn without_secrets(text: &str) -> String {
    let is_document =
        text.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if is_document { event::shown_json(text) } else { event::shown_text(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_begins_like_a_document_is_text() {
        for (said, shown) in [
            ("[::1]:3260: no iscsi://me%hunter2@h/x", "[::1]:3260: no iscsi://me%...@h/x"),
            ("{\"a\": 1} iscsi://me%hunter2@h/x", "{\"a\": 1} iscsi://me%...@h/x"),
            (
                r#"{"url": "iscsi://me%hunter2@h/x", "b": "c@d"}"#,
                r#"{"url": "iscsi://me%...@h/x", "b": "c@d"}"#,
            ),
            ("[]", "[]"),
            // Two documents are none: a quotation mark within a secret is no end of it.
            (
                "{\"a\": \"iscsi://me%hun\\\"ter2@h/x\"}\n{\"b\": \"iscsi://me%hun\\\"ter2@h/x\"}",
                "{\"a\": \"iscsi://me%...@h/x\"}\n{\"b\": \"iscsi://me%...@h/x\"}",
            ),
        ] {
            assert_eq!(without_secrets(said), shown);
        }
    }
}
