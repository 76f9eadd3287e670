//! Rules that the code does not keep everywhere yet: each crate has a bound, which falls with its count and never rises.

use super::amount::{Amount, in_tenths};

/// A file longer than this is two files. Beyond 600 lines no bound helps (see `source`).
pub(super) const LINES_MAX: usize = 500;

/// A folder with more source files than this is two folders.
pub(super) const FOLDER_FILES_MAX: usize = 14;

/// A struct with more fields than this has more than one owner.
pub(super) const FIELDS_MAX: usize = 15;

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tidy) enum Rule {
    LongFiles,
    LargeFolders,
    WideStructs,
    Cycles,
    DocOpenings,
    WordDensity,
}

impl Rule {
    pub(super) const ALL: [Self; 6] = [
        Self::LongFiles,
        Self::LargeFolders,
        Self::WideStructs,
        Self::Cycles,
        Self::DocOpenings,
        Self::WordDensity,
    ];

    /// Name in the table and on the command line.
    pub(in crate::tidy) fn name(self) -> &'static str {
        match self {
            Self::LongFiles => "long-files",
            Self::LargeFolders => "large-folders",
            Self::WideStructs => "wide-structs",
            Self::Cycles => "cycles",
            Self::DocOpenings => "doc-openings",
            Self::WordDensity => "word-density",
        }
    }

    /// The rule of that name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// Amount in words: "7 files of more than 500 lines".
    pub(super) fn described(self, amount: Amount) -> String {
        let counted =
            |noun: &str| format!("{} {noun}{}", amount.count, if amount.count == 1 { "" } else { "s" });
        match self {
            Self::LongFiles => format!("{} of more than {LINES_MAX} lines", counted("file")),
            Self::LargeFolders => {
                format!("{} of more than {FOLDER_FILES_MAX} source files", counted("folder"))
            }
            Self::WideStructs => format!("{} of more than {FIELDS_MAX} fields", counted("struct")),
            Self::Cycles => format!("{} in import cycles", counted("file")),
            Self::DocOpenings => format!("{} opening with a relative clause", counted("doc comment")),
            Self::WordDensity => {
                let density = in_tenths(amount.density.unwrap_or(0));
                format!("{} (what, who, told, asked), {density} in 1 000 words", counted("vague word"))
            }
        }
    }

    /// Bound in words: "6 allowed".
    pub(super) fn allowed(self, bound: Amount) -> String {
        match self {
            Self::WordDensity => {
                format!("{} in all or {} in 1 000 words allowed", bound.count, in_tenths(bound.limit()))
            }
            _ => format!("{} allowed", bound.count),
        }
    }

    /// Amount of a crate in which nothing was found.
    pub(super) fn nothing(self) -> Amount {
        match self {
            Self::WordDensity => Amount::occurrences(0, 0),
            _ => Amount::places(0),
        }
    }

    /// The way out.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::LongFiles => "split by noun",
            Self::LargeFolders => "group the files that change together into a folder",
            Self::WideStructs => "split by the writer of the fields",
            Self::Cycles => "move the items that both files need into a file that needs neither",
            Self::DocOpenings => {
                "open with the noun (\"Bytes in flight.\") or with a verb (\"Returns \u{2026}\")"
            }
            Self::WordDensity => "name the thing or the actor: \"what was asked for\" is \"the request\"",
        }
    }
}
