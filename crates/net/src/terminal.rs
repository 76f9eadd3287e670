//! The terminal of a program that draws on all of it: keys one by one, its size, and everything as it was in the end.
#![allow(unsafe_code)]

use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::syscall::check;

/// The other screen of the terminal, without a cursor; and back.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// The terminal is ours until this is dropped, by a panic too.
pub struct Screen {
    stdin: io::Stdin,
    /// How the keyboard was, if there is one.
    before: Option<libc::termios>,
}

impl Screen {
    /// Takes it: standard output is a terminal. Without a terminal at standard input there are no keys.
    pub fn take() -> io::Result<Screen> {
        let stdin = io::stdin();
        let before = if stdin.is_terminal() { Some(keys_one_by_one(&stdin)?) } else { None };
        let screen = Screen { stdin, before };
        let mut out = io::stdout();
        out.write_all(ENTER)?;
        out.flush()?;
        Ok(screen)
    }

    /// What is readable when there are keys.
    pub fn keyboard(&self) -> Option<BorrowedFd<'_>> {
        self.before.as_ref().map(|_| self.stdin.as_fd())
    }

    /// The keys that wait, a byte or several each; an error at the end of the terminal.
    pub fn keys(&self) -> io::Result<Vec<u8>> {
        // All that it has taken: what stays in its buffer would not make the terminal readable again.
        let mut stdin = self.stdin.lock();
        let bytes = stdin.fill_buf()?.to_vec();
        stdin.consume(bytes.len());
        if bytes.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = io::stdout();
        let _ = out.write_all(LEAVE).and_then(|()| out.flush());
        if let Some(before) = &self.before {
            // SAFETY: `before` is what the kernel gave us of this terminal.
            let _ = check(unsafe { libc::tcsetattr(self.stdin.as_raw_fd(), libc::TCSAFLUSH, before) });
        }
    }
}

/// Columns and lines of the terminal at standard output; as many as terminals used to have if it does not say.
pub fn size() -> (usize, usize) {
    // SAFETY: all zeroes are a size.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: `size` is a place for the kernel to fill.
    let asked = check(unsafe { libc::ioctl(io::stdout().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) });
    match asked {
        Ok(_) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}

/// Keys come as they are pressed and are not echoed. Those that would stop the program or end it with the terminal as
/// it is have no such meaning; Ctrl-C keeps its own, which is a signal. How it was before.
fn keys_one_by_one(stdin: &io::Stdin) -> io::Result<libc::termios> {
    // SAFETY: all zeroes are a place for the kernel to fill.
    let mut before: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: `before` lives as long as the call.
    check(unsafe { libc::tcgetattr(stdin.as_raw_fd(), &raw mut before) })?;
    let mut raw = before;
    raw.c_lflag &= !(libc::ICANON | libc::ECHO);
    for key in [libc::VSUSP, libc::VQUIT] {
        raw.c_cc[key] = libc::_POSIX_VDISABLE;
    }
    (raw.c_cc[libc::VMIN], raw.c_cc[libc::VTIME]) = (1, 0);
    // SAFETY: `raw` is what the kernel gave us but for the flags above.
    check(unsafe { libc::tcsetattr(stdin.as_raw_fd(), libc::TCSANOW, &raw const raw) })?;
    Ok(before)
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("has_keys", &self.before.is_some()).finish()
    }
}
