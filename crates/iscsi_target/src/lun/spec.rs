//! Value of `--lun`: `KIND:WHERE[,OPTION]…`, such as `memory:4GiB` or `file:/srv/disk.img,ro,block=4096`.
//!
//! The first comma ends the place; a comma that belongs to a path is written twice, as QEMU has it. The
//! options are in `options.rs`. Only the text is read here; nothing is opened and no size is judged.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use block::{OptionError, nearest_of};
use event::{Bytes, ParseError};
use thiserror::Error;

use super::options::Options;
use super::source::{KINDS, Source};

/// Most LUNs of a target: the range of the peripheral device addressing method (SAM-5 4.7.7.2).
pub const LUNS_MAX: usize = 256;

/// A LUN that is to be served.
#[derive(Clone, PartialEq, Debug)]
pub struct LunSpec {
    /// Source of the bytes.
    pub source: Source,
    /// Options behind the place.
    pub options: Options,
}

/// Reason for which a LUN specification could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SpecError {
    /// The word before the colon is no kind of LUN, or there is none.
    #[error(
        "'{found}' is not a LUN; did you mean '{nearest}'? \
         expected memory:SIZE, null:SIZE, file:PATH or block:DEVICE, and options such as ,ro behind it"
    )]
    Kind {
        /// The whole text.
        found: String,
        /// The nearest that could have been meant.
        nearest: String,
    },
    /// The URL of a device on another host.
    #[error(
        "'{found}' is the URL of a device on another host, which cannot be served yet; \
         expected memory:SIZE, null:SIZE, file:PATH or block:DEVICE"
    )]
    Url {
        /// The whole text.
        found: String,
    },
    /// `memory:` without a readable size.
    #[error("in '{found}': {source}")]
    Size {
        /// The whole text.
        found: String,
        /// Cause: the size cannot be parsed.
        source: ParseError,
    },
    /// `file:` and nothing behind it.
    #[error("'{found}' names no {kind}; expected {kind}:PATH, and options such as ,ro behind it")]
    NoPath {
        /// The whole text.
        found: String,
        /// Kind of place expected.
        kind: &'static str,
    },
    /// An option cannot be read, or does not go with this kind of LUN.
    #[error("in '{found}': {source}")]
    Option {
        /// The whole text.
        found: String,
        /// Cause: the option is not valid.
        source: OptionError,
    },
}

impl FromStr for LunSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<LunSpec, SpecError> {
        let found = || text.to_owned();
        let Some((kind, rest)) = text.split_once(':').filter(|(kind, _)| KINDS.contains(kind)) else {
            // A suggestion would repeat a secret of the URL where nothing hides it.
            return Err(match text.contains("://") {
                true => SpecError::Url { found: found() },
                false => SpecError::Kind { found: found(), nearest: nearest(text) },
            });
        };
        let mut fields = fields(rest).into_iter();
        let place = fields.next().unwrap_or_default();
        let size = || place.parse().map_err(|source| SpecError::Size { found: found(), source });
        let path = |kind| match place.as_str() {
            "" => Err(SpecError::NoPath { found: found(), kind }),
            path => Ok(PathBuf::from(path)),
        };
        let source = match kind {
            "memory" => Source::Memory { len: size()? },
            "null" => Source::Null { len: size()? },
            "block" => Source::Block { path: path(KINDS[3])? },
            _ => Source::File { path: path(KINDS[2])? },
        };
        let mut options = Options::default();
        let read = fields.try_for_each(|field| {
            let (name, value) = field.split_once('=').map_or((&*field, None), |(n, v)| (n, Some(v)));
            options.set(name, value)
        });
        let fits = read.and_then(|()| options.fit(&source));
        fits.map_err(|source| SpecError::Option { found: found(), source })?;
        Ok(LunSpec { source, options })
    }
}

impl fmt::Display for LunSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.source.kind())?;
        match &self.source {
            // A size that its unit would round is written as bytes, so that the text can be read back.
            Source::Memory { len } | Source::Null { len } => match len.to_string().parse() == Ok(*len) {
                true => write!(f, "{len}")?,
                false => write!(f, "{}B", len.0)?,
            },
            Source::File { path } | Source::Block { path } => {
                f.write_str(&path.to_string_lossy().replace(',', ",,"))?;
            }
        }
        self.options.texts().into_iter().try_for_each(|text| write!(f, ",{}", text.replace(',', ",,")))
    }
}

/// Splits at single commas; a doubled one stands for itself.
fn fields(text: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ',' if chars.next_if_eq(&',').is_none() => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

/// The valid specification that is most like `text`.
fn nearest(text: &str) -> String {
    match text.split_once(':') {
        Some((word, rest)) if !word.contains('/') => {
            format!("{}:{rest}", nearest_of(word, &KINDS))
        }
        // Without a kind, something that reads as a size is memory and anything else a path.
        _ if text.parse::<Bytes>().is_ok() => format!("memory:{text}"),
        _ if text.is_empty() => "memory:1GiB".to_owned(),
        _ if text.starts_with("/dev/") => format!("block:{text}"),
        _ => format!("file:{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_ones_are_read_and_written_back() {
        let plain = |source| LunSpec { source, options: Options::default() };
        let memory = |bytes| plain(Source::Memory { len: Bytes(bytes) });
        let file = |path: &str, read_only| LunSpec {
            source: Source::File { path: path.into() },
            options: Options { read_only, ..Options::default() },
        };
        for (text, spec) in [
            ("memory:4GiB", memory(4 << 30)),
            ("memory:1000", memory(1000)),
            ("memory:1000B", memory(1000)),
            ("memory:1073742336", memory((1 << 30) + 512)),
            ("null:1TiB", plain(Source::Null { len: Bytes(1 << 40) })),
            ("file:/srv/disk.img", file("/srv/disk.img", false)),
            ("file:/srv/disk.img,ro", file("/srv/disk.img", true)),
            ("file:a,,b:c", file("a,b:c", false)),
            ("file:a,,,ro", file("a,", true)),
            ("block:/dev/sdb", plain(Source::Block { path: "/dev/sdb".into() })),
        ] {
            assert_eq!(text.parse(), Ok(spec.clone()), "{text}");
            assert_eq!(spec.to_string().parse(), Ok(spec), "{text}");
        }
        assert_eq!(memory(4 << 30).to_string(), "memory:4GiB");
        let text = "file:/a,,b,ro,block=4096,direct=on,reservations=/c,,d,serial=a,,b,naa=3a1b2c3d4e5f6071,delay=read:2ms..3ms,\
                    delay=write:8ms,rate=400mbit,fault=read:0.1%:lba=8-15:nth=1-3,fault=full,seed=7";
        assert_eq!(text.parse::<LunSpec>().unwrap().to_string(), text);
        let text = "memory:1GiB,block=4096,prealloc";
        assert_eq!(text.parse::<LunSpec>().unwrap().to_string(), text);
        let same: LunSpec = "file:/a,delay=1ms".parse().unwrap();
        assert_eq!(same.to_string(), "file:/a,delay=1ms");
    }

    #[test]
    fn bad_ones_name_what_is_near() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<LunSpec>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: '{expected}' is missing in: {error}");
        };
        check("mem:4GiB", "did you mean 'memory:4GiB'?");
        check("Memory:4GiB", "did you mean 'memory:4GiB'?");
        check("flie:/srv/disk", "did you mean 'file:/srv/disk'?");
        check("f:/srv/disk", "did you mean 'file:/srv/disk'?");
        check("/srv/disk", "did you mean 'file:/srv/disk'?");
        check("/srv/a:b", "did you mean 'file:/srv/a:b'?");
        check("/dev/sdb", "did you mean 'block:/dev/sdb'?");
        check("4GiB", "did you mean 'memory:4GiB'?");
        check("", "expected memory:SIZE, null:SIZE, file:PATH or block:DEVICE");
        check("iscsi://host/iqn.a/0", "is the URL of a device on another host");
        check("memory:", "in 'memory:': '' is not a size such as");
        check("memory:4 apples", "'4 apples' is not a size");
        check("file:", "names no file");
        check("block:,ro", "names no block");
        check("file:,ro", "names no file");
        check("file:/a,or", "did you mean 'ro'?");
        check("file:/a,b.img", "a comma in a path is written twice");
        check("file:/a,", "'' is no option");
        check("memory:1GiB,blocks=4096", "did you mean 'block'?");
        check("memory:1GiB,block=1000", "'1000' is no block size: expected 512 or 4096");
        check("memory:1GiB,direct", "'direct' is for files and block devices");
        check("null:1GiB,prealloc", "'prealloc' is for memory LUNs, not for null LUNs");
        check("memory:1GiB,prealloc=on", "'prealloc' takes no value, found 'on'");
        check("memory:1GiB,reservations=/x", "'reservations' is for files and block devices");
        check("null:1GiB,ro=1", "'ro' takes no value");
        check("null:1GiB,delay", "'delay' needs a value");
        check("null:1GiB,delay=2apples", "'2apples' is not a");
        check("null:1GiB,delay=3ms..2ms", "'3ms..2ms' ends before it begins");
        check("null:1GiB,delay=raed:2ms", "did you mean 'read'?");
        check("null:1GiB,delay=2h", "2h");
        check("null:1GiB,rate=fast", "'fast' is no rate");
        check("null:1GiB,fault=raed", "did you mean 'read'?");
        check("null:1GiB,fault=read:200%", "'200%' is no share");
        check("null:1GiB,fault=read:lab=3", "did you mean 'lba'?");
        check("null:1GiB,fault=read:nth=0", "'0' is no number from 1 on");
        check("null:1GiB,fault=read:lba=9-3", "'9-3' ends before it begins");
        check("null:1GiB,seed=x", "'x' is no number");
        check("memory:1GiB,serial=two words", "'two words' is no serial number: expected 1 to 64");
        check("memory:1GiB,naa=1234", "'1234' is no NAA designator: expected 16 hexadecimal digits");
        check("memory:1GiB,naa", "'naa' needs a value");
        check("memory:1GiB,serial=a,serial=b", "'serial' is there twice");
        check("memory:1GiB,ro,ro", "'ro' is there twice");
        check("memory:1GiB,block=512,block=4096", "'block' is there twice");
        check("null:1GiB,seed=0,seed=0", "'seed' is there twice");
        check("null:1GiB,delay=read:1ms,delay=2ms", "'delay' is there twice");
        check("file:/a,direct=off,direct", "'direct' is there twice");
        check(
            "memory:1GiB,fault=sync:nth=1",
            "'fault=sync:nth=1' would never strike: memory LUNs are not synced",
        );
    }
}
