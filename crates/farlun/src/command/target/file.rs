//! The configuration file: TOML in, settings out, or every error with its position. Format:
//! `docs/reference/target.md`.
//!
//! Secret files named in the configuration are read here; LUNs are not opened.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use control::Choice;
use document::{Document, Entry, Problem, Problems, Scalar, Section};
use engine::{CongestionControl, Pacing};
use iscsi_target::lun::{LUNS_MAX, LunSpec};
use iscsi_target::{Compat, LunSet};
use proto::discovery::TargetAddress;
use proto::login::{Algorithm, ChapTarget, Credentials, Secret};

use super::address::{ISCSI_PORT, addresses, clash, node_name};
use super::args::weight;
use crate::near_end::algorithm;
use crate::secrets::SecretFile;
use crate::session::DigestWish;

const TOP_KEYS: &[&str] = &[
    "iqn",
    "listen",
    "allow",
    "advertise",
    "cold_reset",
    "digest",
    "congestion",
    "policy",
    "weight",
    "pacing",
    "window",
    "state",
    "trace",
    "insecure",
    "chap",
    "compat",
    "lun",
];
const CHAP_KEYS: &[&str] = &["secret_file", "algorithms", "user", "target"];
const USER_KEYS: &[&str] = &["name", "secret", "secret_file", "initiators"];
const NAME_KEYS: &[&str] = &["name", "secret", "secret_file"];
const COMPAT_KEYS: &[&str] = &["nagle", "separate_status", "joined_send"];
const LUN_KEYS: &[&str] = &["number", "spec", "replace"];
const REPLACE: &[(&str, bool)] = &[("refuse", false), ("force", true)];
const DIGESTS: &[(&str, DigestWish)] =
    &[("none", DigestWish::None), ("prefer", DigestWish::Prefer), ("crc32c", DigestWish::Crc32c)];

/// The largest command window that there is (RFC 7143 section 4.2.2.1).
pub(super) const WINDOW_MAX: u32 = i32::MAX as u32;

/// Addresses in a file.
#[derive(Default, Debug)]
pub(super) struct Portals {
    pub(super) listen: Option<Vec<SocketAddr>>,
    pub(super) advertise: Vec<TargetAddress>,
}

/// Settings of a file; `None` for an absent key.
#[derive(Default, Debug)]
pub(super) struct FromFile {
    pub(super) iqn: Option<String>,
    pub(super) portals: Portals,
    pub(super) initiators: Initiators,
    pub(super) digest: Option<DigestWish>,
    pub(super) congestion: Option<CongestionControl>,
    pub(super) policy: Option<Choice>,
    pub(super) weights: Vec<(String, u32)>,
    pub(super) pacing: Option<Pacing>,
    pub(super) window: Option<u32>,
    pub(super) trace: Option<PathBuf>,
    pub(super) compat: Option<Compat>,
    pub(super) insecure: bool,
    pub(super) chap: Option<ChapTarget>,
    pub(super) luns: LunSet,
    /// Secrets are in the file itself.
    pub(super) has_secrets: bool,
}

/// Initiators by their names.
#[derive(Default, Debug)]
pub(super) struct Initiators {
    /// Initiators that may log in.
    pub(super) allowed: Option<Vec<String>>,
    /// Initiators that may reset the target for all.
    pub(super) cold_reset: Option<Vec<String>>,
}

/// Reads a configuration. With `allow_short`, or its own `insecure`, it may have short secrets; `taken` are the
/// LUNs of the command line, whose numbers are theirs.
pub(super) fn read(text: &str, allow_short: bool, taken: &[LunSpec]) -> Result<FromFile, Vec<Problem>> {
    let document = Document::parse(text)?;
    let top = document.top("the configuration");
    let mut problems = Problems::of(text);
    let mut file = FromFile::default();
    for entry in top.entries() {
        match entry.key {
            "iqn" => file.iqn = entry.read(&mut problems, |value| node_name(value.text()?)),
            "listen" => file.portals.listen = Some(listen(&entry, &mut problems)),
            "advertise" => file.portals.advertise = advertise(&entry, &mut problems),
            "allow" => file.initiators.allowed = Some(allowed(&entry, &mut problems)),
            "cold_reset" => file.initiators.cold_reset = Some(node_names(&entry, &mut problems)),
            "digest" => file.digest = entry.read(&mut problems, |value| value.word(DIGESTS)),
            "congestion" => file.congestion = entry.read(&mut problems, congestion),
            "policy" => file.policy = entry.read(&mut problems, |value| value.text()?.parse()),
            "weight" => file.weights = weights(&entry, &mut problems),
            "pacing" => file.pacing = entry.read(&mut problems, pacing),
            "window" => file.window = entry.read(&mut problems, |value| value.number(1, WINDOW_MAX)),
            "trace" => file.trace = entry.read(&mut problems, text_of).map(PathBuf::from),
            "insecure" => file.insecure = entry.read(&mut problems, Scalar::bool).unwrap_or_default(),
            "compat" => file.compat = compat(&entry, &mut problems),
            "state" => file.luns.state = entry.read(&mut problems, text_of).map(PathBuf::from),
            "lun" => luns(&entry, taken, &mut file.luns, &mut problems),
            "chap" => {}
            "target" => problems.at(
                &entry.key_span,
                "a file describes one target: its keys stand at the top, its LUNs are [[lun]]; start a second \
                 farlun target for another",
            ),
            _ => top.unknown(&entry, TOP_KEYS.iter().copied(), &mut problems),
        }
    }
    // Whether secrets may be short is known only now.
    if let Some(entry) = top.entry("chap")
        && let Some(section) = entry.section("[chap]", &mut problems)
    {
        let mut reader = ChapReader {
            allow_short: allow_short || file.insecure,
            common: None,
            has_secrets: false,
            problems: &mut problems,
        };
        file.chap = reader.chap(&section);
        file.has_secrets = reader.has_secrets;
    }
    match problems.is_empty() {
        true => Ok(file),
        false => Err(problems.into_sorted()),
    }
}

fn weights(entry: &Entry<'_>, problems: &mut Problems<'_>) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    for (value, span) in entry.list(problems) {
        match value.text().and_then(weight) {
            Ok(weight) => found.push(weight),
            Err(text) => problems.at(&span, format!("weight: {text}")),
        }
    }
    found
}

fn text_of(value: &Scalar) -> Result<String, String> {
    value.text().map(str::to_owned)
}

fn congestion(value: &Scalar) -> Result<CongestionControl, String> {
    value.text()?.parse().map_err(|error: Infallible| match error {})
}

fn listen(entry: &Entry<'_>, problems: &mut Problems<'_>) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for (value, span) in entry.list(problems) {
        match value.text().and_then(|text| addresses(text, ISCSI_PORT)) {
            Ok(addresses) => found.extend(addresses),
            Err(text) => problems.at(&span, format!("listen: {text}")),
        }
    }
    if found.is_empty() && problems.is_empty() {
        problems.at(&entry.span, "listen: no address; leave the key out to listen on 127.0.0.1:3260");
    }
    if let Some(clash) = clash(&found) {
        problems.at(&entry.span, format!("listen: {clash}"));
    }
    found
}

fn advertise(entry: &Entry<'_>, problems: &mut Problems<'_>) -> Vec<TargetAddress> {
    let mut found = Vec::new();
    for (value, span) in entry.list(problems) {
        match value.text().and_then(|text| text.parse::<TargetAddress>().map_err(|error| error.to_string())) {
            Ok(address) => found.push(address),
            Err(text) => problems.at(&span, format!("advertise: {text}")),
        }
    }
    found
}

fn allowed(entry: &Entry<'_>, problems: &mut Problems<'_>) -> Vec<String> {
    let found = node_names(entry, problems);
    if found.is_empty() && problems.is_empty() {
        let text = "allow: an empty list would admit nobody; leave the key out to admit everybody";
        problems.at(&entry.span, text);
    }
    found
}

/// A list of names of initiators.
fn node_names(entry: &Entry<'_>, problems: &mut Problems<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (value, span) in entry.list(problems) {
        match value.text().and_then(node_name) {
            Ok(name) => found.push(name),
            Err(text) => problems.at(&span, format!("{}: {text}", entry.key)),
        }
    }
    found
}

fn compat(entry: &Entry<'_>, problems: &mut Problems<'_>) -> Option<Compat> {
    let section = entry.section("[compat]", problems)?;
    unknown_keys(&section, COMPAT_KEYS, problems);
    let mut switch = |key| {
        let entry = section.entry(key)?;
        entry.read(problems, Scalar::bool)
    };
    let (nagle, separate_status, joined_send) =
        (switch("nagle"), switch("separate_status"), switch("joined_send"));
    let compat = Compat {
        nagle: nagle.unwrap_or_default(),
        separate_status: separate_status.unwrap_or_default(),
        joined_send: joined_send.unwrap_or_default(),
    };
    compat.checked().map_err(|text| problems.at(&section.span, text)).ok()
}

fn luns(entry: &Entry<'_>, taken: &[LunSpec], found: &mut LunSet, problems: &mut Problems<'_>) {
    for section in entry.sections("[[lun]]", problems) {
        unknown_keys(&section, LUN_KEYS, problems);
        let number = section.required("number", "0", problems);
        let spec = section.required("spec", "\"memory:1GiB\"", problems);
        let spec = spec.and_then(|entry| {
            entry.read(problems, |value| value.text()?.parse::<LunSpec>().map_err(|error| error.to_string()))
        });
        let replace = section.entry("replace");
        let replace = replace.and_then(|entry| entry.read(problems, |value| value.word(REPLACE)));
        let Some(number_entry) = number else { continue };
        let read = number_entry.read(problems, |value| value.number(0, LUNS_MAX as u32 - 1));
        let (Some(number), Some(spec)) = (read, spec) else { continue };
        if let Some(flag) = taken.get(number as usize) {
            let text =
                format!("number: {number} is taken by --lun {flag}; flags are numbered from 0 in order");
            problems.at(&number_entry.span, text);
        } else if let Some(other) = found.specs.get(&(number as u16)) {
            let text = format!("number: {number} is taken by '{other}'; every LUN needs its own");
            problems.at(&number_entry.span, text);
        } else {
            found.specs.insert(number as u16, spec);
            if replace == Some(true) {
                found.replaceable.insert(number as u16);
            }
        }
    }
}

fn unknown_keys(section: &Section<'_>, known: &[&str], problems: &mut Problems<'_>) {
    for entry in section.entries().iter().filter(|entry| !known.contains(&entry.key)) {
        section.unknown(entry, known.iter().copied(), problems);
    }
}

/// Reads `[chap]`. No text of a problem contains a secret.
struct ChapReader<'p, 't> {
    allow_short: bool,
    /// Secret file of users without one of their own.
    common: Option<SecretFile>,
    has_secrets: bool,
    problems: &'p mut Problems<'t>,
}

impl ChapReader<'_, '_> {
    fn chap(&mut self, section: &Section<'_>) -> Option<ChapTarget> {
        unknown_keys(section, CHAP_KEYS, self.problems);
        self.common = section.entry("secret_file").and_then(|entry| self.secret_file(&entry));
        let sections = match section.entry("user") {
            Some(entry) => entry.sections("[[chap.user]]", self.problems),
            None => Vec::new(),
        };
        if sections.is_empty() {
            let text = "[chap] names nobody who may log in: add [[chap.user]] with name and secret";
            self.problems.at(&section.span, text);
        }
        let mut users: Vec<Credentials> = Vec::new();
        let mut bound = BTreeMap::new();
        for user in &sections {
            let Some((credentials, initiators)) = self.credentials(user, USER_KEYS) else { continue };
            let initiators = match user.entry("initiators") {
                Some(entry) => Some(self.initiators(&entry)),
                None => initiators,
            };
            bound.extend(initiators.map(|names| (credentials.name().to_owned(), names)));
            if users.iter().any(|known| known.name() == credentials.name()) {
                let text = format!("the user '{}' is there twice", credentials.name());
                self.problems.at(&user.span, text);
            } else {
                users.push(credentials);
            }
        }
        let ours = match section.entry("target") {
            Some(entry) => {
                let section = entry.section("[chap.target]", self.problems)?;
                Some(self.credentials(&section, NAME_KEYS)?.0)
            }
            None => None,
        };
        let algorithms = section.entry("algorithms").map(|entry| self.algorithms(&entry));
        match ChapTarget::new(users, ours) {
            Ok(chap) => {
                let chap = chap.with_initiators(bound);
                Some(match algorithms {
                    Some(algorithms) => chap.with_algorithms(&algorithms),
                    None => chap,
                })
            }
            Err(error) => {
                self.problems.at(&section.span, error.to_string());
                None
            }
        }
    }

    fn initiators(&mut self, entry: &Entry<'_>) -> Vec<String> {
        let found = node_names(entry, self.problems);
        if found.is_empty() && self.problems.is_empty() {
            let text = "initiators: with an empty list the user could not log in; leave the key out to bind it to none";
            self.problems.at(&entry.span, text);
        }
        found
    }

    fn algorithms(&mut self, entry: &Entry<'_>) -> Vec<Algorithm> {
        let mut found = Vec::new();
        for (value, span) in entry.list(self.problems) {
            match value.text().and_then(algorithm) {
                Ok(algorithm) => found.push(algorithm),
                Err(text) => self.problems.at(&span, format!("algorithms: {text}")),
            }
        }
        if found.is_empty() && self.problems.is_empty() {
            let text = "algorithms: with an empty list nobody could log in; leave the key out to allow all";
            self.problems.at(&entry.span, text);
        }
        found
    }

    /// Name and secret, and the initiators that a file of secrets binds the name to.
    fn credentials(
        &mut self,
        section: &Section<'_>,
        keys: &[&str],
    ) -> Option<(Credentials, Option<Vec<String>>)> {
        unknown_keys(section, keys, self.problems);
        let name_entry = section.required("name", "\"alice\"", self.problems)?;
        let name = name_entry.read(self.problems, text_of)?;
        let mut initiators = Ok(None);
        let mut from = |file: &SecretFile| {
            initiators = file.initiators_of(&name, node_name);
            file.secret_of(&name)
        };
        let found = match (section.entry("secret"), section.entry("secret_file")) {
            (Some(entry), None) => {
                self.has_secrets = true;
                // Not through a reader whose errors quote the value.
                let text = entry.scalar(self.problems)?;
                match text {
                    Scalar::Text(text) => Ok(Secret::new(text.as_bytes())),
                    _ => Err((entry.span, "secret: expected a text in quotes".to_owned())),
                }
            }
            (None, Some(entry)) => {
                let file = self.secret_file(&entry)?;
                from(&file).map_err(|text| (entry.span, text))
            }
            (Some(_), Some(entry)) => {
                Err((entry.key_span, format!("'{name}' has a secret and a secret_file; leave one out")))
            }
            (None, None) => match &self.common {
                Some(file) => from(file).map_err(|text| (section.span.clone(), text)),
                None => {
                    let text =
                        format!("'{name}' has no secret: add secret = \"…\", or secret_file to [chap]");
                    Err((section.span.clone(), text))
                }
            },
        };
        let credentials = found.and_then(|secret| {
            Credentials::new(&name, secret, self.allow_short)
                .map_err(|error| (section.span.clone(), error.to_string()))
        });
        let initiators = initiators.map_err(|text| (section.span.clone(), text));
        let both = credentials.and_then(|credentials| Ok((credentials, initiators?)));
        both.map_err(|(span, text)| self.problems.at(&span, text)).ok()
    }

    fn secret_file(&mut self, entry: &Entry<'_>) -> Option<SecretFile> {
        entry.read(self.problems, |value| SecretFile::read(Path::new(value.text()?)))
    }
}

/// `pacing = false`, or the most that is sent: `pacing = "100mbit"`.
fn pacing(value: &Scalar) -> Result<Pacing, String> {
    match value {
        Scalar::Bool(true) => Ok(Pacing::Follow),
        Scalar::Bool(false) => Ok(Pacing::Off),
        other => other.rate().map(Pacing::AtMost),
    }
}

/// `digest` as the file and the flag have it.
pub(super) fn digest_name(wish: DigestWish) -> &'static str {
    DIGESTS.iter().find(|(_, known)| *known == wish).map_or("none", |(name, _)| name)
}

#[cfg(test)]
mod tests;
