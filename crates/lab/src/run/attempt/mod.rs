//! One attempt at a cell: its child process, the build of the program, and the verdict on the tables that it left.

mod child;
mod program;
mod single;
mod verdict;

pub(super) use program::{Fingerprint, sha256};
pub(super) use single::written;
pub(super) use verdict::{Attempt, Verdict, missing};
