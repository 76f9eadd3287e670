//! Sessions to a target and the block I/O they carry.
