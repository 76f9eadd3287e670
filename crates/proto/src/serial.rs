//! Serial number arithmetic (RFC 1982, used by RFC 7143 section 4.2.2.1): sequence numbers wrap, so
//! "before" means "less than half the circle behind".

/// Returns true if `a` comes before `b`.
pub(crate) const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Distance by which `to` is ahead of `from`; zero if it is not ahead.
pub(crate) const fn ahead(from: u32, to: u32) -> u32 {
    if before(from, to) { to.wrapping_sub(from) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps() {
        assert!(before(u32::MAX, 0) && !before(0, u32::MAX));
        assert!(!before(7, 7));
        assert_eq!(ahead(u32::MAX - 1, 2), 4);
        assert_eq!(ahead(2, u32::MAX - 1), 0);
    }
}
