//! `farlun capture` and `farlun recorder`: what they keep held against tshark, the devices' own counters and each other.

mod at_wan;
mod devices;
mod recorder;
mod room;
mod taken;
