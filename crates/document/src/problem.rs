//! Problems of a document: every problem with its place, and the nearest valid name.
//!
//! The readers of the document decide what is valid.

use std::fmt;
use std::ops::Range;

/// A problem of a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Line of the document, from 1.
    pub line: usize,
    /// Character of the line, from 1.
    pub column: usize,
    /// Value found, expected values, and next step.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)
    }
}

/// Problems with the origin of their document in front of each: one a line, as compilers do.
pub fn lines(origin: &str, problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{origin}:{problem}")).collect::<Vec<_>>().join("\n")
}

/// Collects problems while a document is read, so that a user sees all of them at once.
#[derive(Debug)]
pub struct Problems<'t> {
    text: &'t str,
    found: Vec<Problem>,
}

impl<'t> Problems<'t> {
    /// None yet.
    pub fn of(text: &'t str) -> Problems<'t> {
        Problems { text, found: Vec::new() }
    }

    /// Notes a problem at a byte range of the document. The same problem at the same place counts once.
    pub fn at(&mut self, span: &Range<usize>, text: impl Into<String>) {
        let before = &self.text[..self.text.floor_char_boundary(span.start)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        let problem = Problem { line, column: before[line_start..].chars().count() + 1, text: text.into() };
        if !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }

    /// All problems in the order of their places; empty if the document is right.
    pub fn into_sorted(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| (problem.line, problem.column));
        self.found
    }

    /// True without problems so far.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

/// `; did you mean 'x'?` if a valid name is near, otherwise the list of valid names.
pub fn instead<'a>(found: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    let valid: Vec<&str> = valid.into_iter().collect();
    let found = found.to_lowercase();
    let nearest = valid
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&found, &name.to_lowercase()), name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, name)| *distance <= (name.chars().count() / 2).clamp(1, 3));
    match (nearest, valid.as_slice()) {
        (Some((_, name)), _) => format!("; did you mean '{name}'?"),
        (None, []) => String::new(),
        (None, _) => format!("; known here: {}", valid.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lines_and_characters() {
        let text = "a = 1\nü = \"é\" x\n";
        let at = |byte: usize| {
            let mut problems = Problems::of(text);
            problems.at(&(byte..byte), "wrong");
            problems.into_sorted()[0].to_string()
        };
        assert_eq!(at(0), "1:1: wrong");
        assert_eq!(at(4), "1:5: wrong");
        assert_eq!(at(text.find('x').unwrap()), "2:9: wrong");
        // The end of the text, the middle of a character, and beyond both.
        assert_eq!(at(text.len()), "3:1: wrong");
        assert_eq!(at(7), "2:1: wrong");
        assert_eq!(at(1000), "3:1: wrong");
    }

    #[test]
    fn problems_are_told_once_and_in_order() {
        let mut problems = Problems::of("a\nb\n");
        for (byte, text) in [(2, "second"), (0, "first"), (2, "second")] {
            problems.at(&(byte..byte), text);
        }
        assert_eq!(lines("file", &problems.into_sorted()), "file:1:1: first\nfile:2:1: second");
    }

    #[test]
    fn the_nearest_name() {
        assert_eq!(instead("listn", ["iqn", "listen"]), "; did you mean 'listen'?");
        assert_eq!(instead("colour", ["iqn", "listen"]), "; known here: iqn, listen");
        assert_eq!(instead("colour", []), "");
    }
}
