//! A capture file from its first byte to its last, or to where it is cut off.

use std::io::{ErrorKind, Read};

use wire::pcap::{Decoder, Error, Found, Packet};

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

/// How a file ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ended {
    /// Packets that the capturing host said it lost.
    pub dropped: u64,
    /// Why it was not read to its end, if it was not.
    pub cut: Option<String>,
}

/// Reads all packets of a file; `progress` hears how many bytes have been read. What is damaged or cut off ends the
/// capture there, which its result says.
///
/// # Errors
/// [`FileError`] if the file cannot be read or is not a capture.
pub fn read(
    file: impl Read,
    listener: &mut dyn Listener,
    progress: impl FnMut(u64),
) -> Result<Capture, FileError> {
    let mut analyzer = Analyzer::new();
    let Ended { dropped, cut } = walk(
        file,
        |packet, interface| {
            analyzer.packet(packet, interface, listener);
            false
        },
        progress,
    )?;
    Ok(analyzer.finish(dropped, cut))
}

/// Hands every packet of a file and the name of its interface to `each`, until that says that it has enough.
///
/// # Errors
/// [`FileError`] if the file cannot be read or is not a capture.
pub fn walk(
    mut file: impl Read,
    mut each: impl FnMut(&Packet<'_>, &str) -> bool,
    mut progress: impl FnMut(u64),
) -> Result<Ended, FileError> {
    let mut decoder = Decoder::new();
    let mut buffer = vec![0; BUFFER_LEN];
    // What was read and not looked at is from `start` to `end`.
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
    Ok(Ended { dropped: decoder.dropped(), cut })
}
