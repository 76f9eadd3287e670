//! The two ends of a path.

/// An end of the path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// Where COMMAND runs.
    Near,
    /// Where the far commands run.
    Far,
}

impl Side {
    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Near => "near",
            Side::Far => "far",
        }
    }
}
