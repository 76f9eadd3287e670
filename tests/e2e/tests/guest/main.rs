//! The release binary with Linux's own stacks as peers: open-iscsi as the initiator of our target, LIO as the target of our
//! initiator. Both run in a virtual machine without hardware help.
//!
//! `machine` boots it and runs scripts in it. `cargo xtask guest` makes its image and runs these tests; `docs/internals/guest.md` is
//! their manual.

mod bad_ends;
mod captures;
mod chap;
mod connections;
mod discards;
mod lio;
mod machine;
mod open_iscsi;
mod replacing;
mod resize;
