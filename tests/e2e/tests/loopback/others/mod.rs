//! Both ends of ours against what others wrote.

mod conformance;
mod connections;
mod libiscsi;
mod qemu;
mod tgt;
