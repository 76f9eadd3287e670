//! Diagnostic lines on standard error. A slow or stopped reader costs lines, which are dropped and counted: a loop serves
//! all connections and must not block on one pipe.

use std::fmt::{Arguments, Write as _};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use event::{Instant, LineRate};
use net::wait;

/// Longest write that a pipe takes atomically (PIPE_BUF).
const MOST_BYTES: usize = 4096;

/// Diagnostic lines of a command.
#[derive(Debug)]
pub struct Log {
    /// Name of the command, before each line.
    name: &'static str,
    /// Lines dropped since the last one that was written.
    left_out: AtomicU64,
}

impl Log {
    /// Lines that begin with the name of a command.
    pub const fn new(name: &'static str) -> Log {
        Log { name, left_out: AtomicU64::new(0) }
    }

    /// Writes a line to standard error. A missing or slow reader neither stops the process nor delays its loop.
    pub fn write(&self, text: Arguments<'_>) {
        self.say(io::stderr(), text);
    }

    /// Writes a line of a kind about a peer, unless too many of them have been written of late.
    pub fn write_some(
        &self,
        lines: &mut LineRate,
        (kind, peer): (&'static str, IpAddr),
        now: Instant,
        text: Arguments<'_>,
    ) {
        match lines.allow(kind, peer, now) {
            None => {}
            Some(0) => self.write(text),
            Some(left_out) => {
                self.write(format_args!("{text} (before it, {left_out} lines of this kind are left out)"));
            }
        }
    }

    fn say(&self, mut out: impl Write + AsFd, text: Arguments<'_>) {
        if !wait::takes(out.as_fd()).unwrap_or(false) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let name = self.name;
        let mut lines = match self.left_out.swap(0, Ordering::Relaxed) {
            0 => String::new(),
            left_out => format!("{name}: {left_out} lines are left out here, which nobody took\n"),
        };
        let _ = write!(lines, "{name}: {text}");
        let most = (0..MOST_BYTES).rev().find(|&end| lines.is_char_boundary(end)).unwrap_or_default();
        lines.truncate(most);
        lines.push('\n');
        let _ = out.write_all(lines.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// The reader sleeps: writers do not wait, and a later line reports the number of dropped lines.
    #[test]
    fn a_reader_that_does_not_read_holds_nobody_up() {
        let (mut reader, writer) = io::pipe().unwrap();
        let log = Log::new("farlun target");
        let long = "é".repeat(MOST_BYTES);
        for n in 0..5000 {
            log.say(&writer, format_args!("line {n}"));
            log.say(&writer, format_args!("{long}"));
        }
        let mut first = vec![0; 14 + 8 + MOST_BYTES];
        reader.read_exact(&mut first).unwrap();
        let said = "farlun target: line 0\nfarlun target: é";
        assert!(String::from_utf8_lossy(&first).starts_with(said), "{:?}", &first[..40]);
        let left_out = log.left_out.load(Ordering::Relaxed);
        assert!(left_out > 9000, "{left_out} of 10000");
        // There is room again.
        let mut room = vec![0; 16 << 10];
        reader.read_exact(&mut room).unwrap();
        log.say(&writer, format_args!("last"));
        drop(writer);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        let last = format!("\nfarlun target: {left_out} lines are left out here, which nobody took\n");
        assert!(String::from_utf8_lossy(&rest).ends_with(&(last + "farlun target: last\n")), "{rest:?}");
    }
}
