//! Exemptions: places in which a rule does not hold, each with its reason. They are rows of the table (see `ratchet`),
//! never conditions in the code of a rule.

use std::cell::Cell;

use super::tree::lies_in;

/// One row.
#[derive(Debug)]
struct Exemption {
    rule: String,
    /// A file, or a folder with everything below it.
    place: String,
    is_used: Cell<bool>,
}

/// All rows. They note which of them excused something.
#[derive(Debug, Default)]
pub(super) struct Exemptions(Vec<Exemption>);

impl Exemptions {
    /// Adds a row.
    pub(super) fn add(&mut self, rule: &str, place: &str) {
        let is_used = Cell::new(false);
        self.0.push(Exemption { rule: rule.to_owned(), place: place.to_owned(), is_used });
    }

    /// True if a breach of `rule` at `path` is excused. Asks only where there is a breach: the row counts as used.
    pub(super) fn excuse(&self, rule: &str, path: &str) -> bool {
        let found = self.0.iter().filter(|row| row.rule == rule && lies_in(path, &row.place));
        found.map(|row| row.is_used.set(true)).count() > 0
    }

    /// Rows that excused nothing so far.
    pub(super) fn unused(&self) -> impl Iterator<Item = String> {
        let unused = self.0.iter().filter(|row| !row.is_used.get());
        unused.map(|row| {
            let (rule, place) = (&row.rule, &row.place);
            format!("xtask/src/tidy/ratchet.txt: the exemption of `{place}` from `{rule}` excuses nothing: delete it")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Exemptions;

    #[test]
    fn a_row_holds_in_its_place_and_for_its_rule() {
        let mut rows = Exemptions::default();
        rows.add("unsafe", "crates/net");
        rows.add("cycles", "crates/a/src/b.rs");
        assert_eq!(rows.unused().count(), 2);
        assert!(rows.excuse("unsafe", "crates/net/src/device/tun.rs"));
        assert!(!rows.excuse("unsafe", "crates/network/src/tun.rs"));
        assert!(!rows.excuse("libc::", "crates/net/src/device/tun.rs"));
        assert!(!rows.excuse("cycles", "crates/a/src/c.rs"));
        let unused: Vec<_> = rows.unused().collect();
        assert!(unused.len() == 1 && unused[0].contains("crates/a/src/b.rs"), "{unused:?}");
    }
}
