//! Capture files, packet by packet: pcap and pcapng in every byte order and resolution of time.
//!
//! [`Decoder`] looks at the beginning of what is left of a file and says what stands there; who owns the file and the
//! buffer hands on the next bytes; [`mod@write`] makes the blocks of a pcapng file. Packets are not looked into (`inet` does).
//! Read first: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.

mod classic;
mod error;
mod integers;
mod ng;
pub mod write;

pub use error::Error;

use classic::Classic;
use integers::Integers;
use ng::Ng;

/// Bytes that one block or packet of a file may have at most; a longer one is taken as damage.
pub const BLOCK_LEN_MAX: usize = 16 << 20;

/// One packet of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970, or since whatever the file counts from.
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

/// What stands at the beginning of the bytes that were shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// Too little to say: that many bytes are needed.
    More(usize),
    /// A packet; what follows begins behind `len` bytes.
    Packet {
        /// Bytes of the file it takes.
        len: usize,
        /// The packet.
        packet: Packet<'a>,
    },
    /// Something else of that many bytes: a header, an interface, statistics.
    Other(usize),
}

/// Reads one file from its beginning.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    format: Format,
}

#[derive(Clone, Debug, Default)]
enum Format {
    #[default]
    Unknown,
    Classic(Classic),
    Ng(Ng),
}

impl Decoder {
    /// Before the first byte of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at `bytes`, which begin where the last thing that was found has ended.
    ///
    /// # Errors
    /// [`Error`] if this is no capture file, or one that is damaged here; what was found before is good.
    pub fn decode<'a>(&mut self, bytes: &'a [u8]) -> Result<Found<'a>, Error> {
        match &mut self.format {
            Format::Classic(file) => file.decode(bytes),
            Format::Ng(file) => file.decode(bytes),
            Format::Unknown => {
                let Some(magic) = bytes.first_chunk::<4>() else { return Ok(Found::More(4)) };
                if *magic == ng::SECTION_HEADER.to_be_bytes() {
                    let mut file = Ng::default();
                    let found = file.decode(bytes)?;
                    self.format = Format::Ng(file);
                    return Ok(found);
                }
                let Some(header) = bytes.first_chunk::<{ classic::FILE_HEADER_LEN }>() else {
                    Classic::magic(*magic)?;
                    return Ok(Found::More(classic::FILE_HEADER_LEN));
                };
                self.format = Format::Classic(Classic::begin(header)?);
                Ok(Found::Other(classic::FILE_HEADER_LEN))
            }
        }
    }

    /// The name of an interface of the section that is being read; empty if nothing says it.
    pub fn interface_name(&self, number: u32) -> &str {
        match &self.format {
            Format::Ng(file) => file.interface_name(number),
            _ => "",
        }
    }

    /// Packets that the capturing host said it lost (pcapng's interface statistics); 0 where a file says nothing.
    pub fn dropped(&self) -> u64 {
        match &self.format {
            Format::Ng(file) => file.dropped(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
