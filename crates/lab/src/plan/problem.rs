//! What is wrong with a plan: every problem with its line, and the nearest name that would be right.
//!
//! Does not decide what is right: the readers beside it do.

use std::fmt;
use std::ops::Range;

/// One thing wrong with a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Line of the plan, from 1.
    pub line: usize,
    /// What was found there, what was expected, what to do.
    pub text: String,
}

/// Why a plan cannot be used.
#[derive(thiserror::Error, Debug)]
pub enum PlanError {
    /// Neither a shipped plan nor a file.
    #[error("{0}")]
    Unknown(String),
    /// The file is there and cannot be read.
    #[error("plan {path}: {source}")]
    Unreadable {
        /// As given.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// It was read and does not make sense: all its problems, in the order of the lines.
    #[error("{}", lines(origin, problems))]
    Wrong {
        /// Path or name of the plan.
        origin: String,
        /// At least one.
        problems: Vec<Problem>,
    },
}

fn lines(origin: &str, problems: &[Problem]) -> String {
    problems.iter().map(|p| format!("{origin}:{}: {}", p.line, p.text)).collect::<Vec<_>>().join("\n")
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// Collects problems while a plan is read, so that a user sees all of them at once.
#[derive(Debug)]
pub(super) struct Problems {
    line_starts: Vec<usize>,
    found: Vec<Problem>,
}

impl Problems {
    pub(super) fn of(text: &str) -> Problems {
        let after_newlines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1);
        Problems { line_starts: [0].into_iter().chain(after_newlines).collect(), found: Vec::new() }
    }

    /// Notes a problem at a byte range of the plan. The same problem at the same place counts once.
    pub(super) fn at(&mut self, span: &Range<usize>, text: impl Into<String>) {
        let line = self.line_starts.partition_point(|start| *start <= span.start);
        let problem = Problem { line, text: text.into() };
        if !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }

    /// All problems in the order of the lines; empty if the plan is right.
    pub(super) fn into_sorted(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|p| p.line);
        self.found
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

/// `; did you mean 'x'?` if a valid name is near, otherwise the list of valid names.
pub(super) fn instead<'a>(found: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
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
