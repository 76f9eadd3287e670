//! Bytes of a basic header segment: RFC 7143 section 11.2.1.

/// Bytes of a basic header segment.
pub const BHS_LEN: usize = 48;

/// The bytes of a basic header segment.
pub(super) type Header = [u8; BHS_LEN];
