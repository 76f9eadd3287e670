//! Ratchets: rules that hold up to a bound for each crate, and bounds that fall with the code and never rise.
//!
//! The bounds are rows of `ratchet.txt`. More than a bound is a finding, and less is one too, so that the bound follows.

mod amount;
mod measure;
mod rule;
mod table;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::tree::Tree;
use amount::Amount;
use measure::{Measured, PAGES};
use rule::Rule;
use table::{PATH, Row};

pub(super) use measure::{Measurements, measure};
pub(super) use table::Table;

/// So many places are shown with a finding.
const PLACES_SHOWN: usize = 3;

/// Every bound that is broken, can fall, or belongs to no crate.
pub(super) fn findings(tree: &Tree, measurements: &Measurements, table: &Table) -> Vec<String> {
    let stray = table.rows().filter(|row| !is_known(tree, &row.owner)).map(|row| {
        let (rule, owner) = (row.rule.name(), &row.owner);
        format!(
            "{PATH}: a bound of `{rule}` for `{owner}`, which is no crate: \
             move it to the crate that has the code now, or delete it"
        )
    });
    let over = measurements.iter().filter_map(|((rule, owner), measured)| {
        let bound = table.bound(*rule, owner);
        measured.amount.is_over(bound).then(|| over(*rule, owner, measured, bound))
    });
    let under = table.rows().filter(|row| is_known(tree, &row.owner)).filter_map(|row| {
        let amount = amount_of(measurements, row.rule, &row.owner);
        let (found, allowed) = (row.rule.described(amount), row.rule.allowed(row.bound));
        amount.is_well_under(row.bound).then(|| {
            format!(
                "{}: {found}, {allowed}: the bound can fall: run `cargo xtask tidy --tighten`",
                named(&row.owner)
            )
        })
    });
    stray.chain(over).chain(under).collect()
}

/// Lowers the bounds of the table below `root` to the measurements; one line for each change. Bounds that are broken stay,
/// and so do those of crates that are gone: their numbers belong to another crate now.
pub(super) fn tighten(
    root: &Path,
    tree: &Tree,
    measurements: &Measurements,
    table: &Table,
) -> Result<Vec<String>> {
    let text = table
        .tightened(|row| is_known(tree, &row.owner).then(|| amount_of(measurements, row.rule, &row.owner)));
    let tightened = Table::parse(&text)?;
    let changed = table.rows().filter(|row| tightened.bound(row.rule, &row.owner) != row.bound);
    let changes: Vec<String> = changed
        .map(|row| {
            let now = tightened.bound(row.rule, &row.owner);
            let (rule, owner) = (row.rule.name(), &row.owner);
            format!(
                "`{rule}` of `{owner}`: {}, before: {}",
                row.rule.allowed(now),
                row.rule.allowed(row.bound)
            )
        })
        .collect();
    if !changes.is_empty() {
        fs::write(root.join(PATH), text).with_context(|| format!("cannot write {PATH}"))?;
    }
    Ok(changes)
}

/// Every measurement as a row of the table; or, for a rule and perhaps a crate, every place.
pub(super) fn list(measurements: &Measurements, filter: &[&str]) -> Result<Vec<String>> {
    let (wanted, owner) = match filter {
        [] => {
            let needed = measurements.iter().filter(|(_, measured)| !measured.amount.needs_no_row());
            let row = |((rule, owner), measured): (&(Rule, String), &Measured)| {
                Row { rule: *rule, owner: owner.clone(), bound: measured.amount }.written()
            };
            return Ok(needed.map(row).collect());
        }
        [rule] => (*rule, None),
        [rule, owner] => (*rule, Some(*owner)),
        _ => bail!("expected `--list [RULE [CRATE]]`, found {filter:?}"),
    };
    let Some(wanted) = Rule::from_name(wanted) else {
        let names = Rule::ALL.map(Rule::name).join(", ");
        bail!("no rule is called `{wanted}`: the rules are {names}");
    };
    let of_rule = measurements.iter().filter(|((rule, _), _)| *rule == wanted);
    let found = of_rule.filter(|((_, name), _)| owner.is_none_or(|owner| owner == name));
    Ok(found.flat_map(|(_, measured)| measured.places.iter().cloned()).collect())
}

/// True for the crates of the workspace and for its pages.
fn is_known(tree: &Tree, owner: &str) -> bool {
    owner == PAGES || tree.members.iter().any(|member| member.name == owner)
}

/// The owner of a bound in a message.
fn named(owner: &str) -> String {
    if owner == PAGES { "pages (`docs`)".to_owned() } else { format!("crate `{owner}`") }
}

fn amount_of(measurements: &Measurements, rule: Rule, owner: &str) -> Amount {
    measurements.get(&(rule, owner.to_owned())).map_or_else(|| rule.nothing(), |measured| measured.amount)
}

fn over(rule: Rule, owner: &str, measured: &Measured, bound: Amount) -> String {
    let Measured { amount, places } = measured;
    let (found, allowed, remedy) = (rule.described(*amount), rule.allowed(bound), rule.remedy());
    let shown = places[..places.len().min(PLACES_SHOWN)].join("; ");
    let mut text = format!("{}: {found}, {allowed}: {remedy}. {shown}", named(owner));
    if places.len() > PLACES_SHOWN {
        let _ = write!(text, "; all {}: `cargo xtask tidy --list {} {owner}`", places.len(), rule.name());
    }
    text
}

#[cfg(test)]
mod tests;
