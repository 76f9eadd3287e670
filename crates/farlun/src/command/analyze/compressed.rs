//! Compressed capture files, recognised by their first bytes: gzip, zstd, xz and lz4 are read; of others the command that
//! decompresses them is named.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::exit::Exit;

/// Bytes that tell formats apart.
const MAGIC_LEN: usize = 6;
/// Memory of an xz decoder in KiB. `xz -9` needs 65 MiB; zstd's windows are limited to 128 MiB by its decoder.
const XZ_MEMORY_KIB: u32 = 128 << 10;

/// First bytes of formats that are not read: name, and the command that decompresses to standard output.
const OTHERS: [(&[u8], &str, &str); 7] = [
    (b"BZh", "bzip2", "bzip2 -dc"),
    (&[0x1f, 0x9d], "compress", "gzip -dc"),
    (&[0x02, 0x21, 0x4c, 0x18], "lz4 in its legacy format", "lz4 -dc"),
    (b"PK\x03\x04", "zip", "unzip -p"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x -so"),
    (b"\xff\x06\x00\x00sN", "snappy", "snzip -dc"),
    (b"LZIP", "lzip", "lzip -dc"),
];

/// The bytes of a capture in `file`, decompressed.
pub(super) fn decompressed(path: &Path, file: impl Read + 'static) -> anyhow::Result<Box<dyn Read>> {
    let (magic, file) = peek(file)
        .map_err(|error| anyhow::Error::new(error).context(format!("cannot read {}", path.display())))?;
    let file = BufReader::new(file);
    if let Some((_, name, command)) = OTHERS.iter().find(|(bytes, ..)| magic.starts_with(bytes)) {
        let shown = path.display();
        return Err(Exit::usage(format!(
            "{shown} is compressed with {name}, expected a capture, plain or in gzip, zstd, xz or lz4: {command} {shown} | \
             farlun analyze -"
        )));
    }
    Ok(match magic[..] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(file)),
        // A frame, or one to be skipped, which parallel zstd begins with.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Box::new(Zstd::new(file)),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Box::new(XzReader::new_mem_limit(file, true, XZ_MEMORY_KIB)),
        [0x04, 0x22, 0x4d, 0x18, ..] => Box::new(Lz4(lz4_flex::frame::FrameDecoder::new(file))),
        _ => Box::new(file),
    })
}

/// The first bytes, and the whole again.
fn peek(mut file: impl Read) -> io::Result<(Vec<u8>, impl Read)> {
    let mut magic = Vec::with_capacity(MAGIC_LEN);
    file.by_ref().take(MAGIC_LEN as u64).read_to_end(&mut magic)?;
    Ok((magic.clone(), Cursor::new(magic).chain(file)))
}

/// All frames of a zstd file (RFC 8878 section 3.1): parallel and concatenated ones have several, and some to be skipped.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    /// A frame is being decoded.
    is_within: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), is_within: false }
    }

    /// Begins the next frame; false if it is one to be skipped.
    fn begin(&mut self) -> io::Result<bool> {
        match self.decoder.init(&mut self.source) {
            Ok(()) => Ok(true),
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                Ok(false)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.is_within {
                while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                    self.decoder
                        .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                        .map_err(io::Error::other)?;
                }
                let read = self.decoder.read(buffer)?;
                if read > 0 {
                    return Ok(read);
                }
            }
            if self.source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            self.is_within = self.begin()?;
        }
    }
}

/// All frames of an lz4 file; its decoder stops after each.
struct Lz4<R: Read>(lz4_flex::frame::FrameDecoder<R>);

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.0.read(buffer)?;
            if read > 0 || self.0.get_mut().fill_buf()?.is_empty() {
                return Ok(read);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line, compressed by gzip, zstd, xz and lz4 at their defaults.
    const LINE: &[u8] = b"farlun analyze\n";
    const COMPRESSED: [&str; 4] = [
        "1f8b08000000000000034b4b2cca29cd5348cc4bcca9ac4ae502007cf9337c0f000000",
        "28b52ffd240f7900006661726c756e20616e616c797a650a05186ecf",
        "fd377a585a000004e6d6b4460200210116000000742fe5a301000e6661726c756e20616e616c797a650a0000ece019bb081407f9\
         0001270fdf1afc6a1fb6f37d010000000004595a",
        "04224d186440a70f0000806661726c756e20616e616c797a650a0000000037f4da8e",
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).expect("hex")).collect()
    }

    #[test]
    fn plain_files_are_passed_through() {
        for plain in [&b""[..], b"abc", b"a longer one"] {
            let mut out = Vec::new();
            decompressed(Path::new("plain"), plain).expect("plain").read_to_end(&mut out).expect("bytes");
            assert_eq!(out, plain);
        }
    }

    #[test]
    fn other_formats_are_named_with_their_command() {
        for (magic, name, command) in OTHERS {
            let error = decompressed(Path::new("c.x"), magic).err().expect("not read").to_string();
            assert!(
                error.contains(name) && error.contains(&format!("{command} c.x | farlun analyze -")),
                "{error}"
            );
        }
    }

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let (mut out, file) = (Vec::new(), decompressed(Path::new("c"), Cursor::new(bytes)));
        file.expect("a known format").read_to_end(&mut out).map(|_| out)
    }

    #[test]
    fn each_format_is_read_with_all_of_its_parts() {
        for compressed in COMPRESSED.map(bytes) {
            assert_eq!(read(compressed.clone()).expect("one part"), LINE);
            assert_eq!(
                read([&compressed[..], &compressed].concat()).expect("two parts"),
                [LINE, LINE].concat()
            );
        }
        let skipped = bytes("502a4d1804000000aabbccdd");
        assert_eq!(read([skipped, bytes(COMPRESSED[1])].concat()).expect("a frame to be skipped"), LINE);
    }

    #[test]
    fn damage_is_an_error() {
        for compressed in COMPRESSED.map(bytes) {
            let mut damaged = compressed.clone();
            damaged[compressed.len() / 2] ^= 0x55;
            assert!(read(damaged).is_err() || read(compressed[..compressed.len() - 3].to_vec()).is_err());
            let cut = read(compressed[..compressed.len() / 2].to_vec());
            assert!(cut.is_err() || cut.is_ok_and(|out| out.len() < LINE.len()));
        }
    }
}
