//! The release binary on loopback: against initiators, targets and tools that others wrote, against peers of our own that
//! break the rules, and on its own.
//!
//! `others` has the peers of others, `target`, `initiator` and `nbd` what each end of ours holds against, `tools` the rest of
//! the command line. `peers` plays initiators and targets down to the byte.

mod initiator;
mod nbd;
mod others;
mod peers;
mod target;
mod tools;
