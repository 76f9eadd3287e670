//! A capture file, standard input or another pipe, opened for one pass.

use std::cell::Cell;
use std::fs::File;
use std::io::{Chain, Cursor, IsTerminal, Read, stdin};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use dissect::{FileError, FirstPackets, PacketReader};

use super::compressed::decompressed;
use crate::exit::Exit;

/// Name of standard input.
const STDIN: &str = "-";

/// Bytes of a capture.
pub(super) type Bytes = Box<dyn Read>;

/// A source of packets with its first ones.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) first: FirstPackets,
    /// A pipe from its beginning, which cannot be opened again.
    pipe: Option<Opened>,
}

/// A source that is being read.
pub(super) struct Opened {
    pub(super) bytes: Bytes,
    /// Length in bytes, 0 if unknown, and the bytes read, of the file as it is.
    pub(super) len: u64,
    pub(super) read: Rc<Cell<u64>>,
}

impl Source {
    /// A source that is not looked at before it is read.
    pub(super) fn alone(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { path: path.to_owned(), first: FirstPackets::default(), pipe: Some(open(path)?) })
    }

    /// A source of several, by its first packets.
    pub(super) fn one_of_several(path: &Path) -> anyhow::Result<Self> {
        let Opened { bytes, len, read } = open(path)?;
        let mut first = FirstPackets::default();
        let mut kept = Kept { bytes, seen: Vec::new() };
        let mut reader = PacketReader::new(&mut kept);
        loop {
            match reader.next_packet() {
                Ok(Some((packet, interface))) if !first.packet(&packet, interface) => {}
                Ok(_) => break,
                Err(error) => return Err(explain(path, error)),
            }
        }
        drop(reader);
        let pipe = is_pipe(path).then(|| Opened { bytes: Box::new(kept.again()), len, read });
        Ok(Self { path: path.to_owned(), first, pipe })
    }

    /// Opens the source.
    pub(super) fn open(&mut self) -> anyhow::Result<Opened> {
        self.pipe.take().map_or_else(|| open(&self.path), Ok)
    }
}

/// True if a path is read once: standard input or another pipe.
pub(super) fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == STDIN || path.exists() && !path.is_file()
}

/// Name for sentences.
pub(super) fn name(path: &Path) -> String {
    if path.as_os_str() == STDIN { "standard input".to_owned() } else { path.display().to_string() }
}

pub(super) fn explain(path: &Path, error: FileError) -> anyhow::Error {
    let shown = name(path);
    match error {
        FileError::Io(error) => anyhow::Error::new(error).context(format!("cannot read {shown}")),
        no_capture => Exit::usage(format!("{shown} {no_capture}")),
    }
}

fn open(path: &Path) -> anyhow::Result<Opened> {
    let read = Rc::new(Cell::new(0));
    if path.as_os_str() == STDIN {
        if stdin().is_terminal() {
            return Err(Exit::usage(
                "standard input is a terminal, expected a capture: tcpdump -w - | farlun analyze -",
            ));
        }
        let bytes = decompressed(path, Counted { bytes: stdin(), read: Rc::clone(&read) })?;
        return Ok(Opened { bytes, len: 0, read });
    }
    let file = File::open(path).map_err(|error| Exit::usage(format!("{}: {error}", path.display())))?;
    let len = file.metadata().map_or(0, |about| about.len());
    let bytes = decompressed(path, Counted { bytes: file, read: Rc::clone(&read) })?;
    Ok(Opened { bytes, len, read })
}

/// Counts the bytes that are read.
struct Counted<R> {
    bytes: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}

/// Keeps the bytes that are read, so that they can be read again.
struct Kept {
    bytes: Bytes,
    seen: Vec<u8>,
}

impl Kept {
    fn again(self) -> Chain<Cursor<Vec<u8>>, Bytes> {
        Cursor::new(self.seen).chain(self.bytes)
    }
}

impl Read for Kept {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        self.seen.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}
