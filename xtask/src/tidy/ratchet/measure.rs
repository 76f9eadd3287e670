//! Measurements: for each rule and crate, today's amount and the places that make it.

use std::collections::BTreeMap;

use super::amount::Amount;
use super::rule::{FIELDS_MAX, FOLDER_FILES_MAX, LINES_MAX, Rule};
use crate::tidy::cycles;
use crate::tidy::exemptions::Exemptions;
use crate::tidy::facts::Facts;
use crate::tidy::prose::{Prose, WORDS};
use crate::tidy::tree::{Member, Tree, parent};

/// Owner of the pages in the table, beside the crates.
pub(super) const PAGES: &str = "docs";

/// Amount of one rule in one crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::tidy) struct Measured {
    pub(super) amount: Amount,
    /// One line each, the worst or the first one first.
    pub(in crate::tidy) places: Vec<String>,
}

/// Measurements by rule and crate. Absent are those of which there is no place.
pub(in crate::tidy) type Measurements = BTreeMap<(Rule, String), Measured>;

/// Measures every rule in every crate.
pub(in crate::tidy) fn measure(tree: &Tree, facts: &[Facts<'_>], exemptions: &Exemptions) -> Measurements {
    let mut all = Measurements::new();
    for member in &tree.members {
        let is_owner = |path: &str| tree.member_of(path).is_some_and(|owner| owner.name == member.name);
        let own: Vec<&Facts<'_>> = facts.iter().filter(|facts| is_owner(facts.path)).collect();
        let mut add = |rule: Rule, measured: Measured| {
            if !measured.places.is_empty() {
                all.insert((rule, member.name.clone()), measured);
            }
        };
        add(Rule::LongFiles, long_files(&own, exemptions));
        add(Rule::LargeFolders, large_folders(&own, exemptions));
        add(Rule::WideStructs, wide_structs(&own, exemptions));
        add(Rule::Cycles, in_cycles(member, &own));
        add(Rule::DocOpenings, doc_openings(&own));
        add(Rule::WordDensity, word_density(own.iter().map(|facts| (facts.path, &facts.prose))));
    }
    let pages: Vec<(&str, Prose)> =
        tree.pages.iter().map(|page| (page.path.as_str(), Prose::from_page(&page.text))).collect();
    let measured = word_density(pages.iter().map(|(path, prose)| (*path, prose)));
    if !measured.places.is_empty() {
        all.insert((Rule::WordDensity, PAGES.to_owned()), measured);
    }
    all
}

fn counted(places: Vec<String>) -> Measured {
    Measured { amount: Amount::places(places.len()), places }
}

fn long_files(files: &[&Facts<'_>], exemptions: &Exemptions) -> Measured {
    let long = files.iter().filter(|file| file.lines > LINES_MAX);
    let bound = long.filter(|file| !exemptions.excuse(Rule::LongFiles.name(), file.path));
    counted(bound.map(|file| format!("{} ({} lines)", file.path, file.lines)).collect())
}

fn large_folders(files: &[&Facts<'_>], exemptions: &Exemptions) -> Measured {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files {
        *folders.entry(parent(file.path)).or_default() += 1;
    }
    let large = folders.into_iter().filter(|(_, count)| *count > FOLDER_FILES_MAX);
    let bound = large.filter(|(folder, _)| !exemptions.excuse(Rule::LargeFolders.name(), folder));
    counted(bound.map(|(folder, count)| format!("{folder} ({count} files)")).collect())
}

fn wide_structs(files: &[&Facts<'_>], exemptions: &Exemptions) -> Measured {
    let structs = files.iter().flat_map(|file| file.structs.iter().map(|found| (file.path, found)));
    let wide = structs.filter(|(_, found)| found.fields > FIELDS_MAX);
    let bound = wide.filter(|(path, _)| !exemptions.excuse(Rule::WideStructs.name(), path));
    counted(
        bound.map(|(path, found)| format!("{path}: `{}` ({} fields)", found.name, found.fields)).collect(),
    )
}

fn in_cycles(member: &Member, files: &[&Facts<'_>]) -> Measured {
    let names = files.iter().map(|file| (file.path, &file.names)).collect();
    let found = cycles::in_crate(&member.roots, &names);
    let amount = Amount::places(found.iter().map(|cycle| cycle.files.len()).sum());
    let ways = found.iter().map(|cycle| format!("{} files: {}", cycle.files.len(), described(&cycle.way)));
    let others = found.iter().flat_map(|cycle| {
        let others = cycle.files.iter().filter(|file| cycle.way.iter().all(|(passed, _)| passed != *file));
        let first = cycle.way.first().and_then(|(file, _)| file.rsplit('/').next()).unwrap_or_default();
        others.map(move |file| format!("{file} (in the cycle of {first})"))
    });
    Measured { amount, places: ways.chain(others).collect() }
}

/// `a.rs → b.rs (Name) → a.rs (other::Name)`.
fn described(way: &[(String, String)]) -> String {
    let Some((first, _)) = way.first() else { return String::new() };
    let next = way.iter().map(|(file, _)| file).skip(1).chain([first]);
    let steps = way.iter().zip(next).map(|((_, name), file)| format!(" \u{2192} {file} (`{name}`)"));
    format!("{first}{}", steps.collect::<String>())
}

fn doc_openings(files: &[&Facts<'_>]) -> Measured {
    let openings = files.iter().flat_map(|file| file.prose.openings.iter().map(|found| (file.path, found)));
    counted(openings.map(|(path, (line, word))| format!("{path}:{line}: `{word}`")).collect())
}

fn word_density<'a>(files: impl Iterator<Item = (&'a str, &'a Prose)>) -> Measured {
    let (mut count, mut words) = (0, 0);
    let mut places = Vec::new();
    for (path, prose) in files {
        count += prose.occurrences();
        words += prose.words;
        let hits = WORDS.iter().zip(prose.hits).filter(|(_, hits)| *hits > 0);
        let hits: Vec<String> = hits.map(|(word, hits)| format!("{word} {hits}")).collect();
        if !hits.is_empty() {
            places.push((prose.occurrences(), format!("{path} ({})", hits.join(", "))));
        }
    }
    places.sort_by(|a, b| b.cmp(a));
    let places = places.into_iter().map(|(_, place)| place).collect();
    Measured { amount: Amount::occurrences(count, words), places }
}
