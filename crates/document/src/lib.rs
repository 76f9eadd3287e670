//! TOML that people write: every value with its place, and every problem with its line, its column and the
//! nearest name that would be right.
//!
//! Knows TOML and the units of `event`, not what a document means: plans are read in `lab`, configurations of
//! targets in `farlun`. Reads no file.

mod problem;
mod scalar;
mod table;

pub use problem::{Problem, Problems, instead, lines};
pub use scalar::Scalar;
pub use table::{Document, Entry, Section};
