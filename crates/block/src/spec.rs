//! Options of a device specification: errors of their values.

use event::ParseError;
use thiserror::Error;

/// Why an option cannot be taken.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OptionError {
    /// Unknown option or value.
    #[error("'{found}' is no {what}; did you mean '{nearest}'?{hint}")]
    Unknown {
        /// The word.
        found: String,
        /// Kind of word expected.
        what: &'static str,
        /// The nearest that could have been meant.
        nearest: &'static str,
        /// Further hint.
        hint: &'static str,
    },
    /// It needs a value and has none.
    #[error("'{name}' needs a value: {example}")]
    NoValue {
        /// The option.
        name: String,
        /// Example.
        example: &'static str,
    },
    /// It has a value and takes none.
    #[error("'{name}' takes no value, found '{found}'")]
    Value {
        /// The option.
        name: String,
        /// Its value.
        found: String,
    },
    /// A value that is none of those that are possible.
    #[error("'{found}' is no {what}: expected {expected}")]
    Not {
        /// The value.
        found: String,
        /// Kind of word expected.
        what: &'static str,
        /// Possible values.
        expected: &'static str,
    },
    /// A range the wrong way round.
    #[error("'{found}' ends before it begins")]
    Reversed {
        /// The range.
        found: String,
    },
    /// A time that cannot be read.
    #[error(transparent)]
    Time(#[from] ParseError),
    /// It has a value already.
    #[error("'{name}' is there twice; leave one out")]
    Twice {
        /// The option.
        name: String,
    },
    /// Nothing of the kind could ever fail.
    #[error(
        "'fault={rule}' would never strike: {kind} LUNs are not synced; it is for files and block devices"
    )]
    NeverSynced {
        /// The rule.
        rule: String,
        /// The kind of this LUN.
        kind: &'static str,
    },
    /// Right for other kinds of LUN.
    #[error("'{name}' is for {fits}, not for {kind} LUNs")]
    Unfit {
        /// The option.
        name: &'static str,
        /// The kinds it is for.
        fits: &'static str,
        /// The kind of this LUN.
        kind: &'static str,
    },
}

/// A value that is not possible.
pub fn not(found: &str, what: &'static str, expected: &'static str) -> OptionError {
    OptionError::Not { found: found.to_owned(), what, expected }
}

/// The one of `valid` that is most like `found`; a beginning of one counts as next to it.
pub fn nearest_of<'a>(found: &str, valid: &[&'a str]) -> &'a str {
    let found = found.to_lowercase();
    let distance = |name: &&&str| match !found.is_empty() && name.starts_with(&found) {
        true => 0,
        false => strsim::damerau_levenshtein(&found, name),
    };
    valid.iter().min_by_key(distance).copied().unwrap_or_default()
}
