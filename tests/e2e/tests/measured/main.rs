//! The release binary over emulated paths that measure time or rates: one path at a time, and each check says when the
//! machine was too busy to decide it.

mod analyze_both_ends;
mod analyze_gains;
mod analyze_verdict;
mod company;
mod doctor;
mod enter;
mod foreign;
mod foreign_layers;
mod judged;
mod kernel;
mod selftest;

mod turnaround;
mod weights;
