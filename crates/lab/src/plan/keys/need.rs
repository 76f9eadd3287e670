//! The `[needs]` of a plan and the `needs` of a load: foreign programs that its commands call. Without one of the
//! plan's there is no run; without one of a load's that load is left out.
//!
//! Programs are looked up when the plan is run, not when it is read.

use document::{Problems, Section};
use net::namespace::user;

/// A program and where it is found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// Name on the search path: `tgtd`.
    pub program: String,
    /// Package that contains it.
    pub package: String,
}

impl Need {
    pub(in crate::plan) fn read(section: &Section<'_>, problems: &mut Problems<'_>) -> Vec<Need> {
        let need = |entry: &document::Entry<'_>, problems: &mut Problems<'_>| {
            let package = entry.read(problems, |value| value.text().map(str::to_owned))?;
            Some(Need { program: entry.key.to_owned(), package })
        };
        section.entries().iter().filter_map(|entry| need(entry, problems)).collect()
    }

    /// True if a shell would find it.
    pub fn is_met(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(&self.program).is_file())
    }
}

/// Requirements of one load.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LoadNeeds {
    /// Programs.
    pub programs: Vec<Need>,
    /// A program of it works for root alone.
    pub root: bool,
}

impl LoadNeeds {
    /// The first requirement that is not met, in words.
    pub fn missing(&self) -> Option<String> {
        let absent = self.programs.iter().find(|need| !need.is_met());
        let absent = absent.map(|need| format!("{} is not installed", need.package));
        absent.or_else(|| (self.root && !user::is_privileged()).then(|| "it needs root".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_by_its_package() {
        let need = |program: &str| Need { program: program.to_owned(), package: "a-package".to_owned() };
        let needs = |program: &str| LoadNeeds { programs: vec![need("sh"), need(program)], root: false };
        assert_eq!(needs("sh").missing(), None);
        let missing = needs("no-such-program-anywhere").missing();
        assert_eq!(missing.as_deref(), Some("a-package is not installed"));
    }
}
