//! A TCP sender and its receiver in virtual time over the stages of `link`, as Linux has them.
//!
//! Sequence numbers count packets of one MSS. [`sender::Sender`] has SACK recovery with PRR (RFC 6937), RACK and tail loss
//! probes (RFC 8985), retransmission timeouts (RFC 6298), undo by DSACK
//! and timestamps (RFC 3522), pacing, and CUBIC or BBRv1 as congestion control.
//! [`network::Network`] lets several of them share a line. Not modelled: the handshake, super-packets, the receive window, ECN
//! and FRTO.

mod bbr;
mod board;
mod congestion;
mod cubic;
pub mod network;
mod ranges;
mod rate;
mod receiver;
mod recovery;
pub mod sender;
pub mod steering;
#[cfg(test)]
mod tests;
mod timers;

pub use congestion::Kind;

/// Payload of a packet.
pub const MSS_BYTES: u32 = 1448;
/// Slow-start threshold of a new connection.
pub const NO_THRESHOLD: u32 = 0x7fff_ffff;
/// Initial window (RFC 6928).
pub const FIRST_CWND: u32 = 10;
