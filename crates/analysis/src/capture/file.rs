//! A capture file from its first byte to its last, or to where it is cut off.

use std::io::{ErrorKind, Read};

use wire::pcap::{Decoder, Error, Found};

use super::{Analyzer, Capture, Listener};

/// What is read at once; larger blocks make the buffer grow to their size.
const BUFFER_LEN: usize = 1 << 20;

/// A file that gives no result at all.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is no capture.
    #[error(transparent)]
    Format(#[from] Error),
    /// It ends before it begins.
    #[error("has {found} bytes, too few for the header of a pcap or pcapng file")]
    Short {
        /// Its length.
        found: usize,
    },
}

/// Reads all packets of a file; `progress` hears how many bytes have been read. What is damaged or cut off ends the
/// capture there, which its result says.
///
/// # Errors
/// [`FileError`] if the file cannot be read or is not a capture.
pub fn read(
    mut file: impl Read,
    listener: &mut dyn Listener,
    mut progress: impl FnMut(u64),
) -> Result<Capture, FileError> {
    let (mut decoder, mut analyzer) = (Decoder::new(), Analyzer::new());
    let mut buffer = vec![0; BUFFER_LEN];
    // What was read and not looked at is from `start` to `end`.
    let (mut start, mut end, mut offset) = (0, 0, 0_u64);
    loop {
        match decoder.decode(&buffer[start..end]) {
            Ok(Found::Packet { len, packet }) => {
                analyzer.packet(&packet, listener);
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
                if read == 0 {
                    if offset == 0 {
                        return Err(FileError::Short { found: end });
                    }
                    let cut = (end > 0).then(|| {
                        format!("the file ends at byte {} within a packet or block", offset + end as u64)
                    });
                    return Ok(analyzer.finish(decoder.dropped(), cut));
                }
                progress(offset + end as u64);
            }
            Err(error) if offset == 0 => return Err(error.into()),
            Err(error) => {
                let cut = format!("at byte {offset}: {error}");
                return Ok(analyzer.finish(decoder.dropped(), Some(cut)));
            }
        }
    }
}
