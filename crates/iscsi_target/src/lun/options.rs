//! Options of a LUN: the words behind the place in `--lun`, and their effects.
//!
//! | option | means |
//! |---|---|
//! | `ro` | writes are refused |
//! | `block=512` · `block=4096` | bytes per logical block; a block device has its own as default, others 512 |
//! | `prealloc` | all of its memory is taken at the start (memory LUNs) |
//! | `direct=on` · `direct=off` | past the page cache or through it (files and block devices) |
//! | `reservations=FILE` | where persistent reservations are kept (files and block devices) |
//! | `serial=TEXT` | unit serial number, if not the one that is generated |
//! | `naa=HEX` | NAA designator, if not the one that is generated |
//! | `delay=[read:\|write:]TIME[..TIME]` | commands wait that long before they begin, or something in between |
//! | `rate=BITRATE` | the store moves no more than that, one command after the other |
//! | `fault=KIND[:WHEN]…` | commands fail; see `block`, `wrap/fault.rs` |
//! | `seed=N` | begins the chances of `delay` and `fault`; the same seed gives the same run |
//!
//! A command is delayed first and fails afterwards, in whatever order the options are written.

use std::path::PathBuf;

use block::{Delay, Delays, FaultRule, OptionError, nearest_of, not};
use event::BitRate;

use super::identity::{Naa, Serial};
use super::source::Source;

/// Options of a LUN.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Options {
    /// Writes are refused.
    pub read_only: bool,
    /// Bytes per logical block, if not the default of its kind.
    pub block_len_bytes: Option<u32>,
    /// Allocates all memory of a memory LUN at the start.
    pub prealloc: bool,
    /// True for O_DIRECT; false or `None` for the page cache.
    pub direct: Option<bool>,
    /// The file that keeps persistent reservations, if not the default of its kind.
    pub reservations: Option<PathBuf>,
    /// Unit serial number, if it is set.
    pub serial: Option<Serial>,
    /// NAA designator, if it is set.
    pub naa: Option<Naa>,
    /// Artificial latency of commands.
    pub delays: Delays,
    /// Throughput limit of the store.
    pub rate: Option<BitRate>,
    /// Rules of fault injection.
    pub faults: Vec<FaultRule>,
    /// Seed of random delays and faults.
    pub seed: Option<u64>,
}

/// The names of all options.
pub const OPTIONS: [&str; 11] =
    ["ro", "block", "prealloc", "direct", "reservations", "serial", "naa", "delay", "rate", "fault", "seed"];

/// Block sizes that initiators support.
pub const BLOCK_LENS_BYTES: [u32; 2] = [512, 4096];

/// Slower, and a request of 16 MiB would take longer than initiators wait.
const RATE_MIN: BitRate = BitRate(1_000_000);

impl Options {
    /// Takes the option `name`, as if `name` or `name=value` had been written.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        let needed = |example| {
            let none = || OptionError::NoValue { name: name.to_owned(), example };
            value.filter(|value| !value.is_empty()).ok_or_else(none)
        };
        if self.has(name) {
            return Err(OptionError::Twice { name: name.to_owned() });
        }
        match (name, value) {
            ("ro", None) => self.read_only = true,
            ("prealloc", None) => self.prealloc = true,
            ("ro" | "prealloc", Some(found)) => {
                return Err(OptionError::Value { name: name.to_owned(), found: found.to_owned() });
            }
            ("block", _) => {
                let found = needed("block=4096")?;
                let len = found.parse().ok().filter(|len| BLOCK_LENS_BYTES.contains(len));
                self.block_len_bytes = Some(len.ok_or_else(|| not(found, "block size", "512 or 4096"))?);
            }
            ("direct", _) => {
                self.direct = Some(match value {
                    None | Some("on") => true,
                    Some("off") => false,
                    Some(found) => return Err(not(found, "switch", "direct=on or direct=off")),
                });
            }
            ("reservations", _) => {
                self.reservations = Some(needed("reservations=/var/lib/farlun/disk")?.into());
            }
            ("serial", _) => self.serial = Some(needed("serial=store1-disk7")?.parse()?),
            ("naa", _) => self.naa = Some(needed("naa=3a1b2c3d4e5f6071")?.parse()?),
            ("delay", _) => self.delay(needed("delay=2ms, or delay=read:1ms..2ms")?)?,
            ("rate", _) => {
                let found = needed("rate=400mbit")?;
                let rate = found.parse().ok().filter(|rate| *rate >= RATE_MIN);
                self.rate = Some(rate.ok_or_else(|| not(found, "rate", "at least 1mbit, such as 400mbit"))?);
            }
            ("fault", _) => self.faults.push(needed("fault=read:0.1%")?.parse()?),
            ("seed", _) => {
                let found = needed("seed=1")?;
                let seed = found.parse().map_err(|_| not(found, "number", "seed=1 or the like"))?;
                self.seed = Some(seed);
            }
            _ => {
                let nearest = nearest_of(name, &OPTIONS);
                let hint = " (a comma in a path is written twice)";
                return Err(OptionError::Unknown { found: name.to_owned(), what: "option", nearest, hint });
            }
        }
        Ok(())
    }

    /// Checks that all options suit this kind of LUN.
    pub fn fit(&self, source: &Source) -> Result<(), OptionError> {
        let kind = source.kind();
        let set = [("direct", self.direct.is_some()), ("reservations", self.reservations.is_some())];
        if let Some((name, _)) = set.into_iter().find(|(_, is_set)| source.is_volatile() && *is_set) {
            return Err(OptionError::Unfit { name, fits: "files and block devices", kind });
        }
        if self.prealloc && !matches!(source, Source::Memory { .. }) {
            return Err(OptionError::Unfit { name: "prealloc", fits: "memory LUNs", kind });
        }
        match self.faults.iter().find(|rule| source.is_volatile() && rule.is_of_sync()) {
            Some(rule) => Err(OptionError::NeverSynced { rule: rule.to_string(), kind }),
            None => Ok(()),
        }
    }

    /// Returns true if an option that may occur once is set already; `delay` checks its two directions itself.
    fn has(&self, name: &str) -> bool {
        match name {
            "ro" => self.read_only,
            "prealloc" => self.prealloc,
            "block" => self.block_len_bytes.is_some(),
            "direct" => self.direct.is_some(),
            "reservations" => self.reservations.is_some(),
            "serial" => self.serial.is_some(),
            "naa" => self.naa.is_some(),
            "rate" => self.rate.is_some(),
            "seed" => self.seed.is_some(),
            _ => false,
        }
    }

    fn delay(&mut self, text: &str) -> Result<(), OptionError> {
        let (side, times) = text.split_once(':').map_or(("", text), |(side, times)| (side, times));
        let delay: Delay = times.parse()?;
        let Delays { read, write } = &mut self.delays;
        let sides = match side {
            "" => vec![read, write],
            "read" => vec![read],
            "write" => vec![write],
            _ => {
                let nearest = nearest_of(side, &["read", "write"]);
                return Err(OptionError::Unknown {
                    found: side.to_owned(),
                    what: "kind of command",
                    nearest,
                    hint: "",
                });
            }
        };
        for side in sides {
            if !side.is_none() {
                return Err(OptionError::Twice { name: "delay".to_owned() });
            }
            *side = delay;
        }
        Ok(())
    }

    /// Every option as it is written.
    pub(super) fn texts(&self) -> Vec<String> {
        let mut texts = Vec::new();
        let mut push = |text: Option<String>| texts.extend(text);
        push(self.read_only.then(|| "ro".to_owned()));
        push(self.block_len_bytes.map(|len| format!("block={len}")));
        push(self.prealloc.then(|| "prealloc".to_owned()));
        push(self.direct.map(|direct| format!("direct={}", if direct { "on" } else { "off" })));
        push(self.reservations.as_ref().map(|path| format!("reservations={}", path.display())));
        push(self.serial.as_ref().map(|serial| format!("serial={serial}")));
        push(self.naa.map(|naa| format!("naa={naa}")));
        let Delays { read, write } = self.delays;
        if read == write {
            push((!read.is_none()).then(|| format!("delay={read}")));
        } else {
            push((!read.is_none()).then(|| format!("delay=read:{read}")));
            push((!write.is_none()).then(|| format!("delay=write:{write}")));
        }
        push(self.rate.map(|rate| format!("rate={rate}")));
        self.faults.iter().for_each(|rule| push(Some(format!("fault={rule}"))));
        push(self.seed.map(|seed| format!("seed={seed}")));
        texts
    }
}
