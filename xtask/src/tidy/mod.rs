//! The house rules, kept by a test: banned constructs, and their substitutes.
//!
//! `source` and `ratchet` read the Rust files, `documents` the pages about them, `arrows` and `licences` the output of
//! `cargo metadata`. A finding is one line that names the place, the value found, the bound and the way out. Bounds and
//! exemptions are rows of `ratchet.txt`.

mod arrows;
mod cycles;
mod documents;
mod exemptions;
mod facts;
mod lexer;
mod licences;
#[cfg(test)]
mod planted;
mod prose;
mod ratchet;
mod source;
mod structs;
mod tree;

use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use crate::workspace;
use ratchet::{Measurements, Table};
use tree::Tree;

pub(crate) use source::PURE;

/// Every rule broken in the workspace, one line each.
pub(crate) fn findings() -> Result<Vec<String>> {
    let metadata = workspace::metadata()?;
    let root = workspace::root();
    let (tree, table) = read(root, &metadata)?;
    let mut findings = in_sources(&tree, &table).0;
    findings.extend(documents::findings(root)?);
    findings.extend(arrows::findings(&metadata)?);
    findings.extend(licences::findings(&metadata)?);
    Ok(findings)
}

fn read(root: &Path, metadata: &Value) -> Result<(Tree, Table)> {
    Ok((Tree::read(root, tree::members(metadata)?)?, Table::read(root)?))
}

/// Every rule about sources that is broken, and the measurements of the ratchets.
fn in_sources(tree: &Tree, table: &Table) -> (Vec<String>, Measurements) {
    let facts = facts::from_files(&tree.sources);
    let refused = facts.iter().filter_map(|facts| {
        let message = facts.refused.as_ref()?;
        Some(format!("{}: is no Rust ({message}): repair it", facts.path))
    });
    let mut findings: Vec<String> = refused.collect();
    findings.extend(source::findings(tree, &table.exemptions));
    let measurements = ratchet::measure(tree, &facts, &table.exemptions);
    findings.extend(ratchet::findings(tree, &measurements, table));
    findings.extend(table.exemptions.unused());
    (findings, measurements)
}

/// `cargo xtask tidy`: prints the findings; true if there are none.
pub(crate) fn run() -> Result<bool> {
    let findings = findings()?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    Ok(findings.is_empty())
}

/// `cargo xtask tidy --tighten`: lowers the bounds that can fall, and prints the other findings; true if there are none.
pub(crate) fn tighten() -> Result<bool> {
    let root = workspace::root();
    let (tree, table) = read(root, &workspace::metadata()?)?;
    for change in ratchet::tighten(root, &tree, &in_sources(&tree, &table).1, &table)? {
        println!("{change}");
    }
    run()
}

/// `cargo xtask tidy --list [RULE [CRATE]]`: prints the measurements as rows of the table, or the places of a rule.
pub(crate) fn list(filter: &[&str]) -> Result<bool> {
    let (tree, table) = read(workspace::root(), &workspace::metadata()?)?;
    for line in ratchet::list(&in_sources(&tree, &table).1, filter)? {
        println!("{line}");
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_is_tidy() {
        let findings = super::findings().expect("cargo metadata runs here");
        assert!(findings.is_empty(), "house rules broken:\n{}", findings.join("\n"));
    }
}
