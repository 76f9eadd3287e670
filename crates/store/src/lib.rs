//! The tables of a run, its manifest, and their Parquet files.
//!
//! [`tables`] writes and reads one Parquet file per table and process, [`manifest`] is what `run.json`
//! and `cell.json` say, and [`RunDir`] is the directory that holds both. `docs/tables.md` documents all
//! of it for people who read a run with other tools. Nothing is computed here (that is `analysis`), and
//! this is the only crate that knows Parquet.

pub mod manifest;
mod run;
pub mod tables;

pub use run::{CELL_FILE, CellDir, REPORT_FILE, RUN_FILE, RunDir, RunError};
