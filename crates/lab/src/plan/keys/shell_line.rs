//! A foreign command of a plan: a line for a shell, with placeholders for values of the cell.
//!
//! `{host}` is a placeholder; `${HOME}` and `{ true; }` are the shell's. Values may be quoted already, so
//! placeholders must be outside of quotes. Nothing is run here.

use document::{Scalar, instead};

/// Longest line.
const MAX_BYTES: usize = 16 << 10;

/// A shell line with placeholders such as `{host}`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ShellLine(String);

impl ShellLine {
    /// Parses a line with these placeholders alone.
    pub(in crate::plan) fn read(value: &Scalar, known: &[&str]) -> Result<ShellLine, String> {
        let text = value.text()?.trim();
        if text.len() > MAX_BYTES {
            return Err(format!("a command has {MAX_BYTES} bytes at most, found {}", text.len()));
        }
        match places(text).find(|place| !known.contains(place)) {
            Some(place) => {
                let hint = instead(place, known.iter().copied());
                Err(format!("nothing is put in the place of {{{place}}}{hint}"))
            }
            None => match quoted_place(text) {
                Some(place) => Err(format!(
                    "{{{place}}} is within quotes, expected outside of them: what is put there is quoted where it has to be"
                )),
                None => Ok(ShellLine(text.to_owned())),
            },
        }
    }

    /// The line with the values of its placeholders.
    pub fn filled(&self, value: impl Fn(&str) -> String) -> String {
        let mut filled = String::with_capacity(self.0.len());
        let mut rest = self.0.as_str();
        while let Some((before, place, after)) = first_place(rest) {
            filled.push_str(before);
            filled.push_str(&value(place));
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    /// As it is written down.
    pub(in crate::plan) fn text(&self) -> &str {
        &self.0
    }
}

/// Names of all placeholders.
fn places(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, place, after) = first_place(rest)?;
        rest = after;
        Some(place)
    })
}

/// The first placeholder within quotes.
fn quoted_place(text: &str) -> Option<&str> {
    let mut rest = text;
    let mut quotes = Quotes::default();
    while let Some((before, place, after)) = first_place(rest) {
        before.chars().for_each(|c| quotes.pass(c));
        if quotes.open.is_some() {
            return Some(place);
        }
        // The place itself is part of a word.
        quotes.begins_word = false;
        rest = after;
    }
    None
}

/// State of a shell's lexer.
struct Quotes {
    open: Option<char>,
    is_escaped: bool,
    is_comment: bool,
    begins_word: bool,
}

impl Default for Quotes {
    fn default() -> Quotes {
        Quotes { open: None, is_escaped: false, is_comment: false, begins_word: true }
    }
}

impl Quotes {
    fn pass(&mut self, c: char) {
        if self.is_comment {
            self.is_comment = c != '\n';
        } else if std::mem::take(&mut self.is_escaped) {
        } else if c == '\\' && self.open != Some('\'') {
            self.is_escaped = true;
        } else if self.open == Some(c) {
            self.open = None;
        } else if self.open.is_none() && matches!(c, '\'' | '"') {
            self.open = Some(c);
        } else if self.open.is_none() && c == '#' && self.begins_word {
            self.is_comment = true;
        }
        self.begins_word = c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(');
    }
}

/// Text before the first placeholder, its name, and the text behind it.
fn first_place(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('{').find_map(|(at, _)| {
        let (name, after) = text[at + 1..].split_once('}')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        (is_name && !text[..at].ends_with('$')).then_some((&text[..at], name, after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ShellLine, String> {
        ShellLine::read(&Scalar::Text(text.to_owned()), &["host", "port"])
    }

    #[test]
    fn places_are_filled_and_the_shell_keeps_its_braces() {
        for (text, filled) in [
            ("serve {host}:{port}", "serve <host>:<port>"),
            ("{host}{host}", "<host><host>"),
            (" a ${host} $(b) { c; } {1..3} {} {host", "a ${host} $(b) { c; } {1..3} {} {host"),
            ("awk '{ print }' {port}\n", "awk '{ print }' <port>"),
        ] {
            assert_eq!(read(text).unwrap().filled(|place| format!("<{place}>")), filled);
        }
    }

    #[test]
    fn places_are_outside_of_quotes() {
        for text in [
            "a 'b' \"c\" {host}",
            "a \\' {host}",
            "# it's\nserve {host}",
            "a#b 'c' {host}#",
            "a '\\' {host}",
            "a \"it's\" {host}",
        ] {
            assert!(read(text).is_ok(), "{text}");
        }
        for text in ["\"{host}\"", "'{host}'", "a'{host}'", "a \"\\\" {host}\"", "{port} a#b '{host}"] {
            assert!(read(text).unwrap_err().contains("{host} is within quotes"), "{text}");
        }
    }

    #[test]
    fn what_is_no_line() {
        for (text, error) in [
            ("serve {hots}", "nothing is put in the place of {hots}; did you mean 'host'?"),
            ("serve {colour}", "nothing is put in the place of {colour}; known here: host, port"),
            ("", "the text is empty"),
            (
                "serve 'at {host}'",
                "{host} is within quotes, expected outside of them: what is put there is quoted where it has to be",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), error);
        }
    }
}
