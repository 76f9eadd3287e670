//! The two ends of a path.

/// An end of the path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// The end of COMMAND.
    Near,
    /// The end of the far commands.
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
