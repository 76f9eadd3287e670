//! Capture files, packet by packet: pcap and pcapng in every byte order and resolution of time.
//!
//! [`Decoder`] decodes the first item of the remaining bytes; the owner of the file and the buffer provides the next
//! bytes; [`mod@write`] makes the blocks of a pcapng file. `inet` decodes packets. Read first: draft-ietf-opsawg-pcap and
//! draft-ietf-opsawg-pcapng.

mod classic;
mod error;
mod integers;
mod ng;
mod packet;
pub mod write;

pub use error::Error;
pub use packet::{BLOCK_LEN_MAX, Found, Packet};

use classic::Classic;
use ng::Ng;

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

    /// Decodes the first item of `bytes`, which begin at the end of the previous one.
    ///
    /// # Errors
    /// [`Error`] if this is no capture file, or one that is damaged here; earlier items are valid.
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

    /// Name of an interface of the current section; empty if the file has none.
    pub fn interface_name(&self, number: u32) -> &str {
        match &self.format {
            Format::Ng(file) => file.interface_name(number),
            _ => "",
        }
    }

    /// Packets lost by the capturing host (pcapng's interface statistics); 0 without such statistics.
    pub fn dropped(&self) -> u64 {
        match &self.format {
            Format::Ng(file) => file.dropped(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
