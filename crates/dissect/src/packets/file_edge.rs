//! Time between two files of a capture that follow each other.

use super::window::LATE_MAX_NS;

/// Time between two files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileEdge {
    /// Last segment of the file before, in ns.
    pub(crate) from_ns: u64,
    /// First segment of the file behind, in ns.
    pub(crate) to_ns: u64,
    /// Bytes of a connection are in neither of them: a file is missing.
    pub(crate) lacks_bytes: bool,
}

impl FileEdge {
    /// True if nobody watched between the files, for all that is known. Files of a ring follow each other at once, and the
    /// thread that drains the rings of a capture does so at least once a second: a longer silence is none of the network.
    pub(crate) fn is_unwatched(&self) -> bool {
        self.lacks_bytes || self.to_ns.saturating_sub(self.from_ns) > LATE_MAX_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_silence_or_missing_bytes_are_a_hole() {
        let edge = |to_ns, lacks_bytes| FileEdge { from_ns: 1_000, to_ns, lacks_bytes };
        assert!(!edge(2_000, false).is_unwatched() && !edge(1_000 + LATE_MAX_NS, false).is_unwatched());
        assert!(edge(2_000, true).is_unwatched() && edge(1_001 + LATE_MAX_NS, false).is_unwatched());
        assert!(!edge(0, false).is_unwatched(), "the clock was set back");
    }
}
