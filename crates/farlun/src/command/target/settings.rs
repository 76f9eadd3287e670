//! Combination of the flags and the configuration file: one [`Config`].
//!
//! A flag wins over the same thing in the file; `--lun` adds to its LUNs. Read again for every reload, with the
//! same flags. Opens no LUN and no socket.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use document::{Problem, lines};
use engine::Pacing;
use iscsi_target::lun::{LunSpec, PORTAL_GROUP_TAG};
use iscsi_target::{Config, InitiatorRights};
use proto::discovery::TargetAddress;

use super::address::{ISCSI_PORT, addresses, clash, default_iqn, node_name};
use super::args::TargetArgs;
use super::file::{self, FromFile};
use crate::secrets::SecretFile;
use crate::session::DigestWish;
use crate::text_file;

/// Settings of the target.
pub(super) struct Settings {
    pub(super) config: Config,
    pub(super) digest: DigestWish,
    pub(super) insecure: bool,
    /// Warnings about settings that work but are unlikely to be intended.
    pub(super) warnings: Vec<String>,
}

/// Why nothing can be served.
#[derive(Debug)]
pub(super) enum SettingsError {
    /// The file is wrong, in at least one place.
    File { origin: String, problems: Vec<Problem> },
    /// Something else is.
    Other(String),
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::File { origin, problems } => f.write_str(&lines(origin, problems)),
            SettingsError::Other(text) => f.write_str(text),
        }
    }
}

impl From<String> for SettingsError {
    fn from(text: String) -> SettingsError {
        SettingsError::Other(text)
    }
}

impl Settings {
    /// Reads the file, if there is one, and puts the flags over it.
    pub(super) fn of(args: &TargetArgs) -> Result<Settings, SettingsError> {
        let mut specs = Vec::new();
        for text in &args.luns {
            let spec = text.parse::<LunSpec>();
            specs.push(spec.map_err(|error| format!("--lun {text}: {error}"))?);
        }
        let mut warnings = Vec::new();
        let file = match &args.config {
            Some(path) => from_file(path, args.insecure, &specs, &mut warnings)?,
            None => FromFile::default(),
        };
        let mut listen = Vec::new();
        for text in &args.listen {
            listen.extend(addresses(text, ISCSI_PORT).map_err(|error| format!("--listen {error}"))?);
        }
        if let Some(clash) = clash(&listen) {
            return Err(SettingsError::Other(format!("--listen: {clash}")));
        }
        if listen.is_empty() {
            let usual = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), ISCSI_PORT);
            listen = file.portals.listen.unwrap_or_else(|| vec![usual]);
        }
        let chap = match &args.chap_secret_file {
            Some(path) => {
                let (ours, short) = (args.chap_target_user.as_deref(), args.insecure || file.insecure);
                Some(SecretFile::read(path)?.chap_target(&args.chap_users, ours, short, node_name)?)
            }
            None => file.chap,
        };
        let chap = match &args.chap_algorithms[..] {
            [] => chap,
            algorithms => chap.map(|chap| chap.with_algorithms(algorithms)),
        };
        let insecure = args.insecure || file.insecure;
        let is_open = chap.is_none() && !insecure;
        if let Some(open) = listen.iter().find(|address| !address.ip().is_loopback() && is_open) {
            return Err(SettingsError::Other(format!(
                "--listen {open}: anybody who reaches this address could read and write the LUNs, because nobody \
                 is authenticated; configure --chap (in a file: [chap]), or give --insecure (insecure = true) if \
                 that is meant, or listen on 127.0.0.1"
            )));
        }
        let mut luns = file.luns;
        luns.specs.extend((0..).zip(specs));
        if luns.specs.is_empty() {
            return Err(SettingsError::Other(
                "there is nothing to serve: add a [[lun]] with number and spec, or give --lun".to_owned(),
            ));
        }
        luns.state = args.state.clone().or(luns.state).or_else(service_state);
        let iqn = match &args.iqn {
            Some(name) => node_name(name).map_err(|error| format!("--iqn {error}"))?,
            None => file.iqn.unwrap_or_else(default_iqn),
        };
        let names = |flag: &str, names: &[String]| {
            let names = names.iter().map(|name| node_name(name).map_err(|error| format!("{flag} {error}")));
            names.collect::<Result<Vec<_>, _>>()
        };
        let allowed = names("--allow", &args.allowed)?;
        let cold_reset = names("--cold-reset", &args.cold_reset)?;
        let congestion = args.congestion.clone().or(file.congestion).unwrap_or_default();
        if let Some(name) = congestion.name() {
            net::congestion::check_congestion(name).map_err(|error| error.to_string())?;
        }
        let digest = args.digest.or(file.digest).unwrap_or(DigestWish::None);
        let advertise =
            if args.advertise.is_empty() { file.portals.advertise } else { args.advertise.clone() };
        let tagged = |address| TargetAddress { portal_group_tag: Some(PORTAL_GROUP_TAG), ..address };
        let config = Config {
            listen,
            advertise: advertise.into_iter().map(tagged).collect(),
            iqn,
            luns,
            chap,
            initiators: InitiatorRights {
                allowed: or_in_file(allowed, file.initiators.allowed),
                cold_reset: or_in_file(cold_reset, file.initiators.cold_reset),
            },
            digests: digest.digests(),
            congestion,
            policy: args.policy.or(file.policy).unwrap_or_default(),
            weights: file.weights.into_iter().chain(args.weights.iter().cloned()).collect(),
            pacing: match args.pace {
                _ if args.no_pacing => Pacing::Off,
                Some(rate) => Pacing::AtMost(rate),
                None => file.pacing.unwrap_or_default(),
            },
            compat: args.compat.or(file.compat).unwrap_or_default(),
            window: args.window.or(file.window),
            trace: args.trace.clone().or(file.trace),
            sampling: args.sampling.sampling(),
        };
        Ok(Settings { config, digest, insecure, warnings })
    }
}

/// Names of flags win over those of the file.
fn or_in_file(names: Vec<String>, in_file: Option<Vec<String>>) -> Vec<String> {
    if names.is_empty() { in_file.unwrap_or_default() } else { names }
}

/// The state folder that a service manager has made (systemd.exec(5), StateDirectory=): the first, if there are several.
fn service_state() -> Option<PathBuf> {
    let folders = std::env::var_os("STATE_DIRECTORY")?;
    std::env::split_paths(&folders).next().filter(|folder| !folder.as_os_str().is_empty())
}

fn from_file(
    path: &Path,
    allow_short: bool,
    flags: &[LunSpec],
    warnings: &mut Vec<String>,
) -> Result<FromFile, SettingsError> {
    let origin = path.display().to_string();
    let failed = |error| format!("--config {origin}: {error}");
    let text = text_file::read(path).map_err(failed)?;
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode();
    let file = file::read(&text, allow_short, flags)
        .map_err(|problems| SettingsError::File { origin: origin.clone(), problems })?;
    if file.has_secrets && mode & 0o006 != 0 {
        let mode = mode & 0o777;
        warnings.push(format!(
            "{origin}: everybody on this host may read or write the CHAP secrets in it (mode {mode:03o}); \
             chmod 600 {origin}, or move them to a secret_file"
        ));
    }
    Ok(file)
}
