//! `farlun target`: serves LUNs, said in flags, in a file, or both.
//!
//! `args` are the flags, `file` is the configuration in TOML, `settings` joins the two, `check` is `--check`,
//! `reload` is SIGHUP,
//! `address` reads addresses and names.

mod address;
mod args;
mod check;
mod file;
mod reload;
mod settings;

use std::io;
use std::sync::Arc;

use anyhow::Context;
use serde_json::json;

use iscsi_target::{ServeError, Target};

use crate::exit::{DONE, Exit};
use settings::Settings;

pub(crate) use address::addresses;
pub(crate) use args::TargetArgs;

pub(crate) fn run(args: TargetArgs) -> anyhow::Result<u8> {
    let settings = Settings::of(&args);
    if args.check {
        return check::run(&args, settings);
    }
    let Settings { config, warnings, .. } = settings.map_err(Exit::usage)?;
    for warning in &warnings {
        note!("farlun: {warning}");
    }
    if let Some(dir) = &config.trace {
        check::trace(dir).map_err(Exit::usage)?;
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let mut target = Target::start(&config).map_err(unserved)?;
    let is_json = args.json;
    if args.config.is_some() {
        target.reload_with(Arc::new(args))?;
    }
    let addresses: Vec<String> = target.addresses()?.iter().map(ToString::to_string).collect();
    if is_json {
        let luns: Vec<_> = target
            .luns()
            .iter()
            .map(|lun| json!({"lun": lun.number(), "bytes": lun.len_bytes(), "kind": lun.kind()}))
            .collect();
        say!("{}", json!({"ready": true, "addresses": addresses, "iqn": config.iqn, "luns": luns}));
    } else {
        for address in &addresses {
            for lun in target.luns().iter() {
                let (number, size) = (lun.number(), event::Bytes(lun.len_bytes()));
                say!("ready: iscsi://{address}/{}/{number} ({size}, {})", config.iqn, lun.kind());
            }
        }
    }
    let stats = target.serve()?;
    if is_json {
        let totals = json!({
            "sessions": stats.sessions,
            "commands": stats.commands,
            "received_bytes": stats.received_bytes,
            "sent_bytes": stats.sent_bytes,
            "cpu_ns": net::clock::process_cpu_ns(),
            "trace": stats.trace,
        });
        say!("{totals}");
    }
    Ok(DONE)
}

/// Error of a target that cannot serve; one that can never succeed is a usage error, as with `--check`. A LUN in use
/// may be free later.
fn unserved(error: ServeError) -> anyhow::Error {
    let is_usage = match &error {
        ServeError::Lun(error) => !check::is_in_use(error),
        ServeError::Listen { source, .. } => source.kind() == io::ErrorKind::AddrNotAvailable,
        ServeError::Register(_) | ServeError::Unfinished(_) | ServeError::Trace(_) | ServeError::Io(_) => {
            false
        }
    };
    if is_usage { Exit::usage(error) } else { error.into() }
}
