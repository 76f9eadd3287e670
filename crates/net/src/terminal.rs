//! A full-screen terminal: single key presses, the size, and restoration of the previous state at the end.
#![allow(unsafe_code)]

use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::syscall::check;

/// Escape sequences to enter and leave the alternate screen without a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// Full-screen mode of the terminal, which ends on drop, also after a panic.
pub struct Screen {
    stdin: io::Stdin,
    /// Previous settings of the keyboard, if there is one.
    before: Option<libc::termios>,
}

impl Screen {
    /// Enters full-screen mode on standard output, which must be a terminal. Standard input without a terminal has no
    /// keys.
    pub fn take() -> io::Result<Screen> {
        let stdin = io::stdin();
        let before = if stdin.is_terminal() { Some(keys_one_by_one(&stdin)?) } else { None };
        let screen = Screen { stdin, before };
        let mut out = io::stdout();
        out.write_all(ENTER)?;
        out.flush()?;
        Ok(screen)
    }

    /// Descriptor that is readable when keys were pressed.
    pub fn keyboard(&self) -> Option<BorrowedFd<'_>> {
        self.before.as_ref().map(|_| self.stdin.as_fd())
    }

    /// Pending key presses, a byte or several each; an error after a hang-up of the terminal.
    pub fn keys(&self) -> io::Result<Vec<u8>> {
        // Read everything: bytes in the buffer of `stdin` would not make the terminal readable again.
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
            // SAFETY: `before` holds the settings that the kernel returned for this terminal.
            let _ = check(unsafe { libc::tcsetattr(self.stdin.as_raw_fd(), libc::TCSAFLUSH, before) });
        }
    }
}

/// Columns and lines of the terminal at standard output, or a traditional default.
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

/// Disables line buffering and echo, and the keys that suspend or quit the program with the terminal in this state.
/// Ctrl-C still sends SIGINT. Returns the previous settings.
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
    // SAFETY: `raw` holds the settings that the kernel returned, except for the flags above.
    check(unsafe { libc::tcsetattr(stdin.as_raw_fd(), libc::TCSANOW, &raw const raw) })?;
    Ok(before)
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("has_keys", &self.before.is_some()).finish()
    }
}
