//! `--check`: every error that can be found before the first connection, without serving and without any change. The
//! standard output shows the service that a start would offer.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use control::Choice;
use engine::{CongestionControl, Pacing};
use net::tcp;
use serde_json::{Value, json};

use iscsi_target::lun::{
    Identity, Lun, LunError, LunSpec, Opening, Register, Source, check_identities, check_reservations,
};
use iscsi_target::{Compat, Config};

use proto::login::Algorithm;

use super::args::TargetArgs;
use super::settings::{Settings, SettingsError};
use crate::exit::{DONE, Exit, USAGE};

/// Reports the errors of the configuration, or the resulting service.
pub(super) fn run(args: &TargetArgs, found: Result<Settings, SettingsError>) -> anyhow::Result<u8> {
    let checked = found.and_then(|settings| {
        register(&settings.config)?;
        let luns = luns(&settings.config)?;
        let taken = listen(&settings.config)?;
        settings.config.trace.as_deref().map_or(Ok(()), trace)?;
        let warnings = settings.warnings.into_iter().chain(taken).collect();
        Ok((Settings { warnings, ..settings }, luns))
    });
    match (checked, args.json) {
        (Ok((settings, luns)), true) => say!("{}", document(&settings, &luns)),
        (Ok((settings, luns)), false) => {
            for warning in &settings.warnings {
                note!("farlun: {warning}");
            }
            say!("{}", words(&settings, &luns).trim_end());
        }
        (Err(error), true) => {
            say!("{}", json!({"check": true, "ok": false, "problems": problems(&error)}));
            return Ok(USAGE);
        }
        (Err(error), false) => return Err(Exit::usage(error)),
    }
    Ok(DONE)
}

/// One LUN as it would be served.
struct Checked {
    number: u16,
    spec: String,
    /// `None` if it is in use right now: by the target that this configuration is for, as a rule.
    found: Option<Found>,
}

/// Facts of a LUN that need it to be open.
struct Found {
    len_bytes: u64,
    identity: Identity,
}

/// Opens every LUN for a moment, and takes no memory for it: a target that runs may have most of it.
fn luns(config: &Config) -> Result<Vec<Checked>, String> {
    alone(config)?;
    let opening = Opening { is_look: true, ..config.opening() };
    check_reservations(config.luns.specs.iter(), opening.state).map_err(|error| error.to_string())?;
    let open = |(number, spec): (&u16, &LunSpec)| {
        let mut light = spec.clone();
        light.options.prealloc = false;
        let found = match Lun::open(&light, *number, opening) {
            Ok(lun) => Some(Found { len_bytes: lun.len_bytes(), identity: lun.identity().clone() }),
            Err(error) if is_in_use(&error) => None,
            Err(error) => return Err(error.to_string()),
        };
        Ok(Checked { number: *number, spec: spec.to_string(), found })
    };
    let checked = config.luns.specs.iter().map(open).collect::<Result<Vec<Checked>, String>>()?;
    let known = checked.iter().filter_map(|lun| {
        let found = lun.found.as_ref()?;
        Some((lun.number, &config.luns.specs[&lun.number], &found.identity))
    });
    check_identities(known).map_err(|error| error.to_string())?;
    Ok(checked)
}

/// Reads the register of sessions, if there is a state folder. It may be in use: the target runs now, as a rule.
fn register(config: &Config) -> Result<(), String> {
    let Some(state) = &config.luns.state else { return Ok(()) };
    Register::check(state, &config.iqn).map_err(|error| error.to_string())
}

/// Checks that no two LUNs share a store if one of them is writable. A store in use by another process is no error
/// here.
fn alone(config: &Config) -> Result<(), String> {
    let mut stores: BTreeMap<PathBuf, (u16, bool)> = BTreeMap::new();
    for (&number, LunSpec { source, options }) in &config.luns.specs {
        let (Source::File { path } | Source::Block { path }) = source else { continue };
        let Ok(path) = path.canonicalize() else { continue };
        let shown = path.display().to_string();
        if let Some((other, is_read_only)) = stores.insert(path, (number, options.read_only))
            && !(is_read_only && options.read_only)
        {
            return Err(format!(
                "LUNs {other} and {number} are both {shown}; only such that are read-only may share a store"
            ));
        }
    }
    Ok(())
}

pub(super) fn is_in_use(error: &LunError) -> bool {
    use block::OpenError::{InUse, Locked};

    matches!(error, LunError::File { source: Locked { .. } | InUse { .. }, .. })
}

/// Takes every address for a moment, as a start does. A port that is in use is a warning: the target that runs now may have
/// it.
fn listen(config: &Config) -> Result<Vec<String>, String> {
    let mut warnings = Vec::new();
    for (address, is_v6_only) in config.listening() {
        match tcp::bind(address, is_v6_only) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                warnings.push(format!("{address} is in use now: a start has to wait until it is free"));
            }
            Err(error) => return Err(format!("cannot listen on {address}: {error}")),
        }
    }
    Ok(warnings)
}

/// Checks that tables can be written to a directory.
pub(super) fn trace(dir: &Path) -> Result<(), String> {
    match dir.exists() && !dir.is_dir() {
        true => {
            Err(format!("trace: {} is a file; expected a directory, which is made if needed", dir.display()))
        }
        false => Ok(()),
    }
}

fn problems(error: &SettingsError) -> Vec<Value> {
    match error {
        SettingsError::File { problems, .. } => {
            let place = |p: &document::Problem| json!({"line": p.line, "column": p.column, "text": p.text});
            problems.iter().map(place).collect()
        }
        SettingsError::Other(text) => vec![json!({"line": null, "column": null, "text": text})],
    }
}

fn document(settings: &Settings, luns: &[Checked]) -> Value {
    let config = &settings.config;
    let luns: Vec<_> = luns
        .iter()
        .map(|lun| {
            let bytes = lun.found.as_ref().map(|found| found.len_bytes);
            json!({"lun": lun.number, "spec": lun.spec, "bytes": bytes})
        })
        .collect();
    let chap = config.chap.as_ref().map(|chap| {
        let users: Vec<_> = chap.user_names().collect();
        let algorithms: Vec<_> = chap.algorithms.iter().map(|algorithm| algorithm.name()).collect();
        json!({
            "users": users,
            "target": chap.target_name(),
            "algorithms": algorithms,
            "initiators": chap.initiators(),
        })
    });
    json!({
        "check": true,
        "ok": true,
        "iqn": config.iqn,
        "listen": config.listen.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "advertise": config.advertise.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "luns": luns,
        "chap": chap,
        "allow": config.initiators.allowed,
        "cold_reset": config.initiators.cold_reset,
        "digest": super::file::digest_name(settings.digest),
        "congestion": config.congestion.to_string(),
        "policy": config.policy.name(),
        "weight": config.weights,
        "pacing": pacing(config.pacing),
        "compat": config.compat.to_string(),
        "window": config.window,
        "state": config.luns.state.as_ref().map(|dir| dir.display().to_string()),
        "trace": config.trace.as_ref().map(|dir| dir.display().to_string()),
        "insecure": settings.insecure,
        "warnings": settings.warnings,
    })
}

fn pacing(pacing: Pacing) -> String {
    match pacing {
        Pacing::Follow => "follow".to_owned(),
        Pacing::AtMost(rate) => rate.to_string(),
        Pacing::Off => "off".to_owned(),
    }
}

fn words(settings: &Settings, luns: &[Checked]) -> String {
    let config = &settings.config;
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
    let mut text = format!("no problems; this would be served:\n  target      {}\n", config.iqn);
    text += &format!("  listens on  {}\n", list(&mut config.listen.iter().map(ToString::to_string)));
    if !config.advertise.is_empty() {
        text += &format!("  advertises  {}\n", list(&mut config.advertise.iter().map(ToString::to_string)));
    }
    for lun in luns {
        let size = match &lun.found {
            Some(found) => event::Bytes(found.len_bytes).to_string(),
            None => "in use now".to_owned(),
        };
        text += &format!("  LUN {:<7} {} ({size})\n", lun.number, lun.spec);
    }
    match &config.chap {
        Some(chap) => {
            text += &format!("  CHAP        {}", list(&mut chap.user_names().map(str::to_owned)));
            text += &chap.target_name().map_or("\n".to_owned(), |name| format!("; the target is {name}\n"));
            for (user, initiators) in chap.initiators() {
                text += &format!("  CHAP user   {user} as {}\n", initiators.join(", "));
            }
            if *chap.algorithms != *Algorithm::STRONGEST_FIRST {
                let mut names = chap.algorithms.iter().map(|algorithm| algorithm.name().to_owned());
                text += &format!("  algorithms  {}\n", list(&mut names));
            }
        }
        None => text += "  CHAP        none: nobody has to prove who they are\n",
    }
    let allowed = if config.initiators.allowed.is_empty() {
        "everybody".to_owned()
    } else {
        list(&mut config.initiators.allowed.iter().cloned())
    };
    text += &format!("  initiators  {allowed}\n");
    if !config.initiators.cold_reset.is_empty() {
        text += &format!("  cold reset  {}\n", list(&mut config.initiators.cold_reset.iter().cloned()));
    }
    text += &format!("  digests     {}\n", super::file::digest_name(settings.digest));
    if config.congestion != CongestionControl::default() {
        text += &format!("  congestion  {}\n", config.congestion);
    }
    if config.policy != Choice::default() {
        text += &format!("  policy      {}\n", config.policy);
    }
    for (iqn, weight) in &config.weights {
        text += &format!("  weight      {weight} for {iqn}\n");
    }
    if config.pacing != Pacing::default() {
        text += &format!("  pacing      {}\n", pacing(config.pacing));
    }
    if config.compat != Compat::default() {
        text += &format!("  compat      {}\n", config.compat);
    }
    if let Some(window) = config.window {
        text += &format!("  window      {window} commands\n");
    }
    if let Some(dir) = &config.luns.state {
        text += &format!("  state       {}\n", dir.display());
    }
    if let Some(dir) = &config.trace {
        text += &format!("  trace       {}\n", dir.display());
    }
    text
}
