//! Errors of a capture file.

/// A file, or a place in it, that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first bytes are of something else.
    #[error("begins with {found:08x}, expected a pcap or pcapng file")]
    Magic {
        /// The first four bytes.
        found: u32,
    },
    /// A section of unknown byte order.
    #[error("a section begins with byte order {found:08x}, expected 1a2b3c4d or 4d3c2b1a")]
    ByteOrder {
        /// The four bytes.
        found: u32,
    },
    /// A length that no block can have.
    #[error("{what} of {found} bytes, expected {min} to {max}")]
    Length {
        /// Owner of the length.
        what: &'static str,
        /// The length.
        found: usize,
        /// The least it can be.
        min: usize,
        /// The most it may be.
        max: usize,
    },
    /// A packet of an interface that was not described.
    #[error("a packet of interface {found}, {described} are described")]
    Interface {
        /// The interface's number.
        found: usize,
        /// Interfaces that were described before.
        described: usize,
    },
}

/// Holds a length against its limits.
pub(super) fn within(what: &'static str, found: usize, min: usize, max: usize) -> Result<(), Error> {
    if (min..=max).contains(&found) { Ok(()) } else { Err(Error::Length { what, found, min, max }) }
}
