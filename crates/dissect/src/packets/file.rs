//! Decoder loop over a capture file, from its first byte to its last or to the first damaged one.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use wire::pcap::{Decoder, Error, Found, Packet};

/// Initial size of the read buffer, in bytes; a larger block makes it grow to the block's size.
const BUFFER_LEN: usize = 1 << 20;

/// Error of a file that yields no result at all.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file is not a capture.
    #[error(transparent)]
    Format(#[from] Error),
    /// The file is shorter than any capture header.
    #[error("has {found} bytes, too few for the header of a pcap or pcapng file")]
    Short {
        /// Length of the file in bytes.
        found: usize,
    },
}

/// End of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileEnd {
    /// Packets that the capturing host reports as lost.
    pub dropped: u64,
    /// Reason and place of a premature end.
    pub cut: Option<String>,
}

/// Reads the packets of a file one by one.
#[derive(Debug)]
pub struct PacketReader<R> {
    file: R,
    decoder: Decoder,
    buffer: Vec<u8>,
    /// Bytes read and not decoded yet.
    ahead: Range<usize>,
    /// Bytes decoded.
    offset: u64,
    cut: Option<String>,
    is_over: bool,
}

/// A packet of the file without its bytes, and the place of those in the buffer.
struct Located {
    packet: Packet<'static>,
    bytes: Range<usize>,
}

impl<R: Read> PacketReader<R> {
    /// Reader of a file from its first byte.
    pub fn new(file: R) -> Self {
        let (decoder, buffer) = (Decoder::new(), vec![0; BUFFER_LEN]);
        Self { file, decoder, buffer, ahead: 0..0, offset: 0, cut: None, is_over: false }
    }

    /// The next packet and the name of its interface; `None` at the end of the file. A damaged or truncated packet ends
    /// the file early, see [`FileEnd::cut`]; so does an error of a source that has yielded packets before.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read or is not a capture.
    pub fn next_packet(&mut self) -> Result<Option<(Packet<'_>, &str)>, FileError> {
        let Some(Located { packet, bytes }) = self.locate()? else { return Ok(None) };
        let packet = Packet { bytes: &self.buffer[bytes], ..packet };
        Ok(Some((packet, self.decoder.interface_name(packet.interface))))
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.offset + self.ahead.len() as u64
    }

    /// The end of the file, as far as it has been read.
    pub fn end(self) -> FileEnd {
        FileEnd { dropped: self.decoder.dropped(), cut: self.cut }
    }

    fn locate(&mut self) -> Result<Option<Located>, FileError> {
        while !self.is_over {
            match self.decoder.decode(&self.buffer[self.ahead.clone()]) {
                Ok(Found::Packet { len, packet }) => {
                    let at = packet.bytes.as_ptr().addr() - self.buffer.as_ptr().addr();
                    let bytes = at..at + packet.bytes.len();
                    let packet = Packet { bytes: &[], ..packet };
                    self.skip(len);
                    return Ok(Some(Located { packet, bytes }));
                }
                Ok(Found::Other(len)) => self.skip(len),
                Ok(Found::More(needed)) => self.read(needed)?,
                Err(error) if self.offset == 0 => return Err(error.into()),
                Err(error) => self.stop(format!("at byte {}: {error}", self.offset)),
            }
        }
        Ok(None)
    }

    fn skip(&mut self, len: usize) {
        self.ahead.start += len;
        self.offset += len as u64;
    }

    fn stop(&mut self, cut: String) {
        (self.cut, self.is_over) = (Some(cut), true);
    }

    /// Reads more bytes, until there is room for `needed`.
    fn read(&mut self, needed: usize) -> Result<(), FileError> {
        self.buffer.copy_within(self.ahead.clone(), 0);
        self.ahead = 0..self.ahead.len();
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        let read = match self.file.read(&mut self.buffer[self.ahead.end..]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            // The rest of a damaged archive, or of a disk that fails: all before it is good.
            Err(error) if self.offset > 0 => {
                self.stop(format!("at byte {}: {error}", self.position()));
                return Ok(());
            }
            read => read?,
        };
        self.ahead.end += read;
        if read == 0 {
            if self.offset == 0 {
                return Err(FileError::Short { found: self.ahead.len() });
            }
            self.is_over = true;
            if !self.ahead.is_empty() {
                let at = self.position();
                self.stop(format!("the file ends at byte {at} within a packet or block"));
            }
        }
        Ok(())
    }
}

/// Passes every packet of a file and the name of its interface to `each`, until that returns true. `progress` receives
/// the number of bytes read so far. The file may end early, see [`PacketReader::next_packet`].
///
/// # Errors
/// [`FileError`] if the file cannot be read or is not a capture.
pub fn read_packets(
    file: impl Read,
    mut each: impl FnMut(&Packet<'_>, &str) -> bool,
    mut progress: impl FnMut(u64),
) -> Result<FileEnd, FileError> {
    let mut reader = PacketReader::new(file);
    let mut shown = 0;
    while let Some((packet, interface)) = reader.next_packet()? {
        if each(&packet, interface) {
            break;
        }
        let position = reader.position();
        if position != shown {
            shown = position;
            progress(position);
        }
    }
    Ok(reader.end())
}
