//! Names of iSCSI nodes as they are compared (RFC 7143 section 4.2.7.2): in lower case.
//!
//! Deviation: RFC 3722 also normalises to NFKC and forbids some characters. ASCII names, the only ones that other
//! implementations make, need no normalisation; two spellings of one name beyond ASCII count as two names here.

/// The form of a name for comparison.
pub fn folded(name: &str) -> String {
    name.to_lowercase()
}

/// Returns true if both names are those of one node.
pub fn is_same(one: &str, other: &str) -> bool {
    one == other || folded(one) == folded(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_no_difference() {
        assert!(is_same("iqn.2026-11.org.Example:Store", "IQN.2026-11.org.example:store"));
        assert!(is_same("eui.02004567A425678D", "eui.02004567a425678d"));
        assert!(is_same("iqn.2026-11.org.example:Ä", "iqn.2026-11.org.example:ä"));
        assert!(!is_same("iqn.2026-11.org.example:a", "iqn.2026-11.org.example:b"));
    }
}
