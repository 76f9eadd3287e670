//! The `[needs]` of a plan: programs that its commands call and that are not ours.
//!
//! Whether a program is there is asked when the plan is run, not when it is read.

use document::{Problems, Section};

/// A program and where it is found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// As the shell finds it: `tgtd`.
    pub program: String,
    /// The package that has it.
    pub package: String,
}

impl Need {
    pub(super) fn read(section: &Section<'_>, problems: &mut Problems<'_>) -> Vec<Need> {
        let need = |entry: &document::Entry<'_>, problems: &mut Problems<'_>| {
            let package = entry.read(problems, |value| value.text().map(str::to_owned))?;
            Some(Need { program: entry.key.to_owned(), package })
        };
        section.entries().iter().filter_map(|entry| need(entry, problems)).collect()
    }

    /// Whether a shell would find it.
    pub fn is_met(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(&self.program).is_file())
    }
}
