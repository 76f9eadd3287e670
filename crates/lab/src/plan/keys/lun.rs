//! A `[[lun]]` of a plan: a store of the far hosts, with its options.
//!
//! It takes the words of `farlun target --lun`, read by the target's own parser; this file restricts those that a
//! plan may use.

use std::path::Path;

use document::{Problems, Scalar, Section};
use iscsi_target::lun::{LunSpec, Source};

/// Kinds of LUN, and the one key that each needs besides `kind`; a file may have a size instead.
const KINDS: &[(&str, &str)] = &[("memory", "size"), ("null", "size"), ("file", "path"), ("block", "path")];

/// Keys of every kind, and the names of their options for `--lun`.
const OPTIONS: &[(&str, &str)] = &[
    ("read_only", "ro"),
    ("block", "block"),
    ("prealloc", "prealloc"),
    ("direct", "direct"),
    ("delay", "delay"),
    ("rate", "rate"),
    ("fault", "fault"),
];

/// One LUN, numbered from 0 in the order of the plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Lun {
    spec: LunSpec,
    /// Size of the file that is made for the run, if there is one.
    made_bytes: Option<u64>,
}

impl Lun {
    /// The same LUN without preallocation.
    pub(in crate::plan) fn without_prealloc(mut self) -> Lun {
        self.spec.options.prealloc = false;
        self
    }

    pub(in crate::plan) fn read(section: &Section<'_>, problems: &mut Problems<'_>) -> Option<Lun> {
        let kinds: Vec<(&str, &(&str, &str))> = KINDS.iter().map(|kind| (kind.0, kind)).collect();
        let kind = section.required("kind", "\"memory\"", problems)?.read(problems, |v| v.word(&kinds))?;
        let (kind, key) = *kind;
        let is_made = kind == "file" && section.entry("size").is_some();
        let key = if is_made { "size" } else { key };
        let known = |name: &str| ["kind", key].contains(&name) || OPTIONS.iter().any(|(key, _)| *key == name);
        for entry in section.entries().iter().filter(|entry| !known(entry.key)) {
            let names = ["kind", key].into_iter().chain(OPTIONS.iter().map(|(key, _)| *key));
            section.unknown(entry, names, problems);
        }
        let example = if key == "size" { "\"1GiB\"" } else { "\"/srv/lun.img\"" };
        let place = section.required(key, example, problems)?;
        let made_bytes = if is_made { Some(place.read(problems, blocks)?) } else { None };
        let mut spec = match is_made {
            true => "file:made".parse().expect("a file"),
            false => place.read(problems, |value| source(kind, key, value))?,
        };
        for (key, option) in OPTIONS {
            let Some(entry) = section.entry(key) else { continue };
            for (value, span) in entry.one_or_more(problems) {
                if let Err(text) = set(&mut spec, option, &value) {
                    problems.at(&span, format!("{key}: {text}"));
                }
            }
        }
        match spec.options.fit(&spec.source) {
            Ok(()) => Some(Lun { spec, made_bytes }),
            Err(error) => {
                problems.at(&section.span, format!("[[lun]] of kind '{kind}': {error}"));
                None
            }
        }
    }

    /// A LUN of this specification.
    pub(crate) fn of(spec: LunSpec) -> Lun {
        Lun { spec, made_bytes: None }
    }

    /// Specification of the store.
    pub(crate) fn spec(&self) -> &LunSpec {
        &self.spec
    }

    /// Argument for `farlun target --lun`, with `made` for a file of the run; the seed sets its random decisions.
    pub fn argument(&self, seed: u64, made: &Path) -> String {
        let mut spec = self.spec.clone();
        if self.made_bytes.is_some() {
            spec.source = Source::File { path: made.to_owned() };
        }
        if self.has_chances() {
            spec.options.seed = Some(seed);
        }
        spec.to_string()
    }

    /// Text for `run.json`, without a seed.
    pub(in crate::plan) fn words(&self) -> String {
        match self.made_bytes {
            Some(bytes) => format!("{} of {}", self.spec, crate::exact::bytes(bytes)),
            None => self.spec.to_string(),
        }
    }

    /// Size of the file to make for a run.
    pub fn made_bytes(&self) -> Option<u64> {
        self.made_bytes
    }

    /// Size, if the plan has one.
    pub(in crate::plan) fn len_bytes(&self) -> Option<u64> {
        match &self.spec.source {
            Source::Memory { len } | Source::Null { len } => Some(len.0),
            Source::File { .. } | Source::Block { .. } => self.made_bytes,
        }
    }

    fn has_chances(&self) -> bool {
        let options = &self.spec.options;
        !options.faults.is_empty() || options.delays != block::Delays::default()
    }
}

fn blocks(value: &Scalar) -> Result<u64, String> {
    match value.bytes()? {
        bytes if bytes >= 512 && bytes % 512 == 0 => Ok(bytes),
        _ => Err(format!("a LUN is a multiple of 512 bytes, found '{}'", value.label())),
    }
}

fn source(kind: &str, key: &str, value: &Scalar) -> Result<LunSpec, String> {
    let place = match key {
        "path" => value.text()?.replace(',', ",,"),
        _ => format!("{}B", blocks(value)?),
    };
    format!("{kind}:{place}").parse().map_err(|error: iscsi_target::lun::SpecError| error.to_string())
}

/// Options that are a word alone are written as true or false.
fn set(spec: &mut LunSpec, option: &str, value: &Scalar) -> Result<(), String> {
    let label = value.label();
    let given = match option {
        "ro" | "prealloc" if !value.bool()? => return Ok(()),
        "ro" | "prealloc" => None,
        "direct" => Some(if value.bool()? { "on" } else { "off" }),
        _ => Some(label.as_str()),
    };
    spec.options.set(option, given).map_err(|error| error.to_string())
}
