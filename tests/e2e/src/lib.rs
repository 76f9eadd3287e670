//! What the end-to-end tests share: the release binary, processes that die with their test, peers, images, the path.
//!
//! The tests know the product by its command line only (the contract in ARCHITECTURE.md), so this crate depends on no
//! other; tests that play a peer themselves speak through `wire` and log in through `proto`. A test that this machine
//! cannot run prints `skipped: NAME: REASON` and returns ([`need!`]); `cargo xtask test` counts those. Every wait is for
//! something to happen, with a limit of a minute at least; every port is picked by the kernel, or is one that it gives to
//! nobody (`port`).

pub mod binary;
pub mod conformance;
pub mod decide;
pub mod image;
pub mod ours;
pub mod path;
pub mod port;
pub mod process;
pub mod relay;
pub mod report;
pub mod skip;
pub mod tap;
pub mod tgtd;

pub use binary::{farlun, farlun_path};
pub use process::{Finished, Service, run, until};
