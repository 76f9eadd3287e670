//! Items of a capture file as a decoder returns them.

/// Bytes that one block or packet of a file may have at most; a longer one is taken as damage.
pub const BLOCK_LEN_MAX: usize = 16 << 20;

/// One packet of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970, or since the file's own epoch.
    pub t_ns: u64,
    /// Its link layer, as LINKTYPE_ numbers of tcpdump.org: 1 is Ethernet.
    pub link: u32,
    /// Number of its interface in the section; 0 in a pcap file, which has one.
    pub interface: u32,
    /// Bytes it had on the wire.
    pub len: usize,
    /// The first of them, as many as were kept.
    pub bytes: &'a [u8],
}

/// First item of the given bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// Too few bytes: so many are needed.
    More(usize),
    /// A packet; the next item begins behind `len` bytes.
    Packet {
        /// Bytes of the file it takes.
        len: usize,
        /// The packet.
        packet: Packet<'a>,
    },
    /// Another item of so many bytes: a header, an interface, statistics.
    Other(usize),
}
