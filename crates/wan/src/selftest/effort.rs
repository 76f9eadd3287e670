//! The length of the self-test.

/// Duration of the self-test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// A minute.
    Full,
    /// A quarter of a minute: fewer rates, shorter measurements.
    Quick,
}
