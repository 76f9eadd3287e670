//! TOML written by people: every value with its place, and every problem with its line, its column and the nearest
//! valid name.
//!
//! Knows TOML and the units of `event`, not the meaning of a document: `lab` reads plans, `farlun` configurations of
//! targets. Reads no file.

mod problem;
mod scalar;
mod table;

pub use problem::{Problem, Problems, instead, lines};
pub use scalar::Scalar;
pub use table::{Document, Entry, Section};
