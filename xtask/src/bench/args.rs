//! Command line of `cargo xtask bench`.

use super::length::Length;
use super::rounds::VALUES_MAX;
use super::section::Section;
use super::sections::SECTIONS;

/// Fewest rounds against another build, and the default number.
pub(super) const ROUNDS_MIN: usize = 15;

/// A parsed command line.
pub(crate) struct Request {
    pub(super) length: Length,
    pub(super) against: Option<Against>,
    /// Sections in the order in which they run.
    pub(super) sections: Vec<&'static Section>,
}

/// Another build to measure beside.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Against {
    /// A revision as git takes it.
    pub(super) revision: String,
    pub(super) rounds: usize,
}

impl Request {
    /// Parses the words behind `bench`; an error is a sentence.
    pub(crate) fn parse(words: &[&str]) -> Result<Request, String> {
        let (mut length, mut revision, mut rounds) = (Length::Full, None, None);
        let mut names = Vec::new();
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            match word {
                "--quick" => length = Length::Quick,
                "--against" => {
                    let value = words.next().filter(|value| !value.starts_with('-'));
                    revision =
                        Some(value.ok_or("--against is without a revision, expected one such as HEAD~1")?);
                }
                "--rounds" => rounds = Some(parse_rounds(words.next())?),
                flag if flag.starts_with('-') => {
                    return Err(format!("unknown option {flag}, expected --quick, --against or --rounds"));
                }
                name => names.push(name),
            }
        }
        let against =
            match (revision, rounds) {
                (None, None) => None,
                (None, Some(_)) => {
                    return Err("--rounds is without --against: other comparisons have rounds of their own"
                        .to_owned());
                }
                (Some(_), Some(_)) if length == Length::Quick => {
                    return Err("--rounds and --quick exclude each other: a quick comparison has two rounds"
                        .to_owned());
                }
                (Some(revision), rounds) => {
                    Some(Against { revision: revision.to_owned(), rounds: rounds.unwrap_or(ROUNDS_MIN) })
                }
            };
        let sections = sections(&names, against.is_some())?;
        Ok(Request { length, against, sections })
    }
}

fn parse_rounds(word: Option<&str>) -> Result<usize, String> {
    let rounds = word.and_then(|word| word.parse().ok());
    rounds.filter(|rounds| (ROUNDS_MIN..=VALUES_MAX).contains(rounds)).ok_or_else(|| {
        let found = word.unwrap_or("nothing");
        format!("--rounds is followed by {found}, expected a number from {ROUNDS_MIN} to {VALUES_MAX}")
    })
}

/// Sections of these names, or all without names; a comparison with another build needs names.
fn sections(names: &[&str], is_against: bool) -> Result<Vec<&'static Section>, String> {
    let possible: Vec<&'static Section> =
        SECTIONS.iter().filter(|section| !is_against || section.against.is_some()).collect();
    let list = || possible.iter().map(|section| section.name).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = names.iter().find(|name| !possible.iter().any(|section| section.name == **name)) {
        let what = if is_against { "section that compares builds" } else { "section" };
        return Err(format!("`{unknown}` is no {what}, expected one of {}", list()));
    }
    if is_against && names.is_empty() {
        return Err(format!("--against is without a section, expected one of {}", list()));
    }
    Ok(possible.into_iter().filter(|section| names.is_empty() || names.contains(&section.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        Request::parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    fn names(request: &Request) -> Vec<&str> {
        request.sections.iter().map(|section| section.name).collect()
    }

    #[test]
    fn options_stand_before_and_behind_names() -> Result<(), String> {
        for line in
            ["--against HEAD~1 --rounds 21 memory tgt", "tgt --rounds 21 memory --against HEAD~1 memory"]
        {
            let request = parse(line)?;
            assert_eq!(names(&request), ["tgt", "memory"], "{line}");
            assert!(request.length == Length::Full);
            let against = Against { revision: "HEAD~1".to_owned(), rounds: 21 };
            assert_eq!(request.against, Some(against), "{line}");
        }
        Ok(())
    }

    #[test]
    fn a_comparison_of_builds_has_fifteen_rounds() -> Result<(), String> {
        let request = parse("--quick --against main tgt")?;
        assert!(request.length == Length::Quick);
        assert_eq!(request.against, Some(Against { revision: "main".to_owned(), rounds: 15 }));
        Ok(())
    }

    #[test]
    fn without_names_all_sections_run_and_none_beside_another_build() -> Result<(), String> {
        assert_eq!(parse("--quick")?.sections.len(), SECTIONS.len());
        let said = parse("--against main").err().unwrap_or_default();
        assert!(said.starts_with("--against is without a section, expected one of"), "{said}");
        assert!(said.contains("tgt") && !said.contains("gaps"), "{said}");
        Ok(())
    }

    #[test]
    fn mistakes_are_sentences() {
        let check = |line: &str, words: &str| {
            let said = parse(line).err().unwrap_or_default();
            assert!(said.contains(words), "{line}: {said}");
        };
        check("tgt --against", "--against is without a revision");
        check("--against --quick tgt", "--against is without a revision");
        check("--rounds 20 tgt", "--rounds is without --against");
        check(
            "--against main tgt --rounds 14",
            "--rounds is followed by 14, expected a number from 15 to 1000",
        );
        check("--against main tgt --rounds", "--rounds is followed by nothing");
        check("--against main tgt --quick --rounds 15", "--rounds and --quick exclude each other");
        check("--fast tgt", "unknown option --fast");
        check("tgtd", "`tgtd` is no section, expected one of stream, tgt");
        check("--against main gaps", "`gaps` is no section that compares builds, expected one of");
    }
}
