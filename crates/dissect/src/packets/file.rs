//! Decoder loop over a capture file, from its first byte to its last or to the first damaged one.

use std::io::{ErrorKind, Read};

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

/// Passes every packet of a file and the name of its interface to `each`, until that returns true. `progress` receives
/// the number of bytes read so far. A damaged or truncated packet ends the file early, see [`FileEnd::cut`].
///
/// # Errors
/// [`FileError`] if the file cannot be read or is not a capture.
pub fn read_packets(
    mut file: impl Read,
    mut each: impl FnMut(&Packet<'_>, &str) -> bool,
    mut progress: impl FnMut(u64),
) -> Result<FileEnd, FileError> {
    let mut decoder = Decoder::new();
    let mut buffer = vec![0; BUFFER_LEN];
    // Bytes read and not decoded yet are from `start` to `end`.
    let (mut start, mut end, mut offset) = (0, 0, 0_u64);
    let cut = loop {
        match decoder.decode(&buffer[start..end]) {
            Ok(Found::Packet { len, packet }) => {
                if each(&packet, decoder.interface_name(packet.interface)) {
                    break None;
                }
                (start, offset) = (start + len, offset + len as u64);
            }
            Ok(Found::Other(len)) => (start, offset) = (start + len, offset + len as u64),
            Ok(Found::More(needed)) => {
                buffer.copy_within(start..end, 0);
                (start, end) = (0, end - start);
                if buffer.len() < needed {
                    buffer.resize(needed, 0);
                }
                let read = match file.read(&mut buffer[end..]) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    read => read?,
                };
                end += read;
                if read > 0 {
                    progress(offset + end as u64);
                } else if offset == 0 {
                    return Err(FileError::Short { found: end });
                } else {
                    let at = offset + end as u64;
                    break (end > 0).then(|| format!("the file ends at byte {at} within a packet or block"));
                }
            }
            Err(error) if offset == 0 => return Err(error.into()),
            Err(error) => break Some(format!("at byte {offset}: {error}")),
        }
    };
    Ok(FileEnd { dropped: decoder.dropped(), cut })
}
