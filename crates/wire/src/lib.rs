//! Formats on the wire: iSCSI PDUs, SCSI commands and data, NBD messages, Internet headers, capture files.
//!
//! Bytes in, plain data out, and back. Nothing here reads a socket or a clock, keeps state or handles unexpected values
//! for a session: `proto`, `iscsi_target` and `initiator` do. Peer bytes never panic; every `parse` checks its input.
//! Reserved bits are ignored on receipt and zero on emission (RFC 7143 section 11.1 and SPC-5 section 3.3.11).

mod be;
mod codes;
#[cfg(test)]
mod hex;
pub mod inet;
pub mod iscsi;
pub mod nbd;
pub mod pcap;
pub mod scsi;
