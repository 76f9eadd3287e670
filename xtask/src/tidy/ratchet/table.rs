//! The table of bounds and exemptions: `xtask/src/tidy/ratchet.txt`, which says how its rows are written.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::amount::{Amount, in_tenths, tenths};
use super::rule::Rule;
use crate::tidy::exemptions::Exemptions;

/// Path of the table in the workspace.
pub(super) const PATH: &str = "xtask/src/tidy/ratchet.txt";

/// Bound of one rule in one crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) rule: Rule,
    pub(super) owner: String,
    pub(super) bound: Amount,
}

impl Row {
    /// The row as a line of the table.
    pub(super) fn written(&self) -> String {
        let (rule, owner, count) = (self.rule.name(), &self.owner, self.bound.count);
        let density = self.bound.density.map(|density| format!("  {:>5}", in_tenths(density)));
        format!("bound   {rule:<13}  {owner:<12}  {count:>4}{}", density.unwrap_or_default())
    }
}

/// The table, as it was read.
#[derive(Debug, Default)]
pub(in crate::tidy) struct Table {
    /// Every line, and the row in it.
    lines: Vec<(String, Option<Row>)>,
    pub(in crate::tidy) exemptions: Exemptions,
}

impl Table {
    /// Reads the table of the workspace at `root`.
    pub(in crate::tidy) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(PATH)).with_context(|| format!("cannot read {PATH}"))?;
        Self::parse(&text)
    }

    /// Reads a table from its text.
    pub(in crate::tidy) fn parse(text: &str) -> Result<Self> {
        let mut table = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let row = table.parse_line(line).with_context(|| format!("{PATH}:{number}: `{line}`"))?;
            if let Some(row) = &row {
                let is_new = table.rows().all(|other| (other.rule, &other.owner) != (row.rule, &row.owner));
                ensure!(is_new, "{PATH}:{number}: a second bound for `{}`: delete one", row.owner);
            }
            table.lines.push((line.to_owned(), row));
        }
        Ok(table)
    }

    fn parse_line(&mut self, line: &str) -> Result<Option<Row>> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => Ok(None),
            [comment, ..] if comment.starts_with('#') => Ok(None),
            ["bound", name, owner, numbers @ ..] => {
                let rule = Rule::from_name(name).context("no rule has this name")?;
                let bound = bound(rule, numbers)?;
                Ok(Some(Row { rule, owner: (*owner).to_owned(), bound }))
            }
            ["exempt", rule, place, reason @ ..] => {
                ensure!(!reason.is_empty(), "an exemption needs a reason behind its place");
                self.exemptions.add(rule, place);
                Ok(None)
            }
            _ => bail!(
                "expected `bound RULE CRATE COUNT [DENSITY]`, `exempt RULE PLACE REASON` or `# comment`"
            ),
        }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.lines.iter().filter_map(|(_, row)| row.as_ref())
    }

    /// The bound of a rule in a crate; 0 without a row.
    pub(super) fn bound(&self, rule: Rule, owner: &str) -> Amount {
        let row = self.rows().find(|row| row.rule == rule && row.owner == owner);
        row.map_or(Amount::default(), |row| row.bound)
    }

    /// The text of the table, each bound lowered to its measurement; a row without a measurement stays as it is. A row
    /// that bounds nothing any more is left out.
    pub(super) fn tightened(&self, measured: impl Fn(&Row) -> Option<Amount>) -> String {
        let mut text = String::new();
        for (line, row) in &self.lines {
            let kept = match row.as_ref().and_then(|row| Some((row, measured(row)?))) {
                None => Some(line.clone()),
                Some((row, amount)) => amount.lowered(row.bound).map(|bound| {
                    if bound == row.bound { line.clone() } else { Row { bound, ..row.clone() }.written() }
                }),
            };
            if let Some(line) = kept {
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }
}

fn bound(rule: Rule, numbers: &[&str]) -> Result<Amount> {
    let count = numbers.first().and_then(|count| count.parse().ok()).context("the bound is no number")?;
    match (rule, &numbers[1..]) {
        (Rule::WordDensity, [density]) => {
            let density = tenths(density).context("a density has one digit behind the point")?;
            Ok(Amount { count, density: Some(density) })
        }
        (Rule::WordDensity, _) => bail!("this rule has a count and a density"),
        (_, []) => Ok(Amount { count, density: None }),
        _ => bail!("this rule has a count alone"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Bounds.\n\nbound long-files   a  3\nbound   word-density   a   20 4.0\nbound cycles b 2\n\
                        exempt unsafe crates/net system calls live here\n";

    #[test]
    fn rows_are_read() {
        let table = Table::parse(TEXT).expect("well-formed");
        assert_eq!(table.bound(Rule::LongFiles, "a"), Amount::places(3));
        assert_eq!(table.bound(Rule::WordDensity, "a"), Amount::occurrences(20, 5_000));
        assert_eq!(table.bound(Rule::LongFiles, "b"), Amount::places(0), "without a row the bound is 0");
        assert!(table.exemptions.excuse("unsafe", "crates/net/src/a.rs"));
    }

    #[test]
    fn rows_that_say_nothing_are_refused() {
        for (line, expected) in [
            ("bound odd-rule a 3", "no rule"),
            ("bound long-files a", "no number"),
            ("bound long-files a -1", "no number"),
            ("bound long-files a 3 1.0", "a count alone"),
            ("bound word-density a 3", "a count and a density"),
            ("bound word-density a 3 4", "one digit"),
            ("exempt unsafe crates/net", "needs a reason"),
            ("long-files a 3", "expected"),
        ] {
            let refusal = format!("{:#}", Table::parse(line).expect_err(line));
            assert!(refusal.contains(expected) && refusal.contains(":1"), "{line}: {refusal}");
        }
        let twice = format!("{TEXT}bound cycles b 1\n");
        assert!(Table::parse(&twice).is_err(), "one bound for each rule and crate");
    }

    #[test]
    fn tightening_lowers_bounds_and_keeps_everything_else() {
        let table = Table::parse(TEXT).expect("well-formed");
        assert_eq!(table.tightened(|row| Some(row.bound)), TEXT);
        assert_eq!(table.tightened(|_| None), TEXT);
        let higher = table.tightened(|row| match row.rule {
            Rule::WordDensity => Some(Amount::occurrences(90, 1_000)),
            _ => Some(Amount::places(9)),
        });
        assert_eq!(higher, TEXT, "a bound never rises");
        let lower = table.tightened(|row| match row.rule {
            Rule::WordDensity => Some(Amount::occurrences(10, 4_000)),
            Rule::LongFiles => Some(Amount::places(1)),
            _ => Some(Amount::places(0)),
        });
        let expected = TEXT
            .replace("bound long-files   a  3", "bound   long-files     a                1")
            .replace("bound   word-density   a   20 4.0", "bound   word-density   a               10    2.5")
            .replace("bound cycles b 2\n", "");
        assert_eq!(lower, expected);
    }
}
