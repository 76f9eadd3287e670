//! The screen of `farlun top`: one picture after the other, and the keys.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write, stdout};

use analysis::live::Row;
use net::{Interest, Poll, terminal};
use report::terminal::{Colour, top};

use super::watch::Watch;
use super::{Sort, nothing, sort};

/// Action requested by a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    None,
    Redraw,
    Quit,
}

/// The terminal, with the state of the view.
pub(super) struct Screen {
    terminal: terminal::Screen,
    by: Sort,
    /// Rows shown while the view is paused.
    frozen: Option<Vec<Row>>,
    wants_pause: bool,
}

impl Screen {
    /// Takes the terminal; keys wake `poll` under `token`.
    pub(super) fn take(poll: &Poll, token: u64) -> anyhow::Result<Screen> {
        let terminal = terminal::Screen::take()?;
        if let Some(keyboard) = terminal.keyboard() {
            poll.add(keyboard, token, Interest::READ)?;
        }
        Ok(Screen { terminal, by: Sort::Rate, frozen: None, wants_pause: false })
    }

    /// Reads the keys that wait.
    pub(super) fn keys(&mut self) -> anyhow::Result<Wish> {
        let keys = match self.terminal.keys() {
            Ok(keys) => keys,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(Wish::None),
            // The terminal is gone.
            Err(_) => return Ok(Wish::Quit),
        };
        let mut wish = Wish::None;
        for key in keys {
            match key {
                b'q' | b'Q' => return Ok(Wish::Quit),
                b's' | b'S' => self.by = self.by.next(),
                b'p' | b'P' | b' ' => {
                    self.wants_pause = !self.wants_pause;
                    self.frozen = None;
                }
                _ => continue,
            }
            wish = Wish::Redraw;
        }
        Ok(wish)
    }

    /// Draws the current rows.
    pub(super) fn draw(&mut self, watch: &mut Watch) -> anyhow::Result<()> {
        let (width, height) = terminal::size();
        if self.wants_pause && self.frozen.is_none() {
            self.frozen = watch.rows().map(<[Row]>::to_vec);
        }
        let rows = self.frozen.as_deref().or(watch.rows()).map(<[Row]>::to_vec);
        let mut text = self.head(rows.as_deref(), watch);
        match rows {
            None => text.push_str("looking …\n"),
            Some(rows) if rows.is_empty() => {
                let _ = writeln!(text, "{}", nothing(watch)?);
            }
            Some(mut rows) => {
                sort(&mut rows, self.by);
                // A line for the head and one for the keys.
                text.push_str(&top(&rows, width, height.saturating_sub(3), Colour::on(&stdout())));
            }
        }
        let mut picture = String::from("\x1b[H");
        for line in text.lines().take(height.saturating_sub(1)) {
            let _ = write!(picture, "{line}\x1b[K\r\n");
        }
        let pause = if self.wants_pause { "go on" } else { "pause" };
        let _ = write!(picture, "\x1b[J\x1b[{height};1H\x1b[2mq quit · s sort · p {pause}\x1b[0m");
        let mut out = stdout().lock();
        match out.write_all(picture.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            other => Ok(other?),
        }
    }

    fn head(&self, rows: Option<&[Row]>, watch: &Watch) -> String {
        let mut head = format!("farlun top · {} connections", rows.map_or(0, <[Row]>::len));
        if watch.left_out() > 0 {
            let _ = write!(head, ", {} more are not watched", watch.left_out());
        }
        let _ = write!(head, " · by {}", self.by.name());
        if watch.closed_namespaces() > 0 {
            let _ = write!(head, " · {} namespaces are closed to you", watch.closed_namespaces());
        }
        head.push_str(if self.wants_pause { " · paused\n" } else { "\n" });
        head
    }
}
