//! `farlun doctor`: the limit of a load and the remedy: for a recorded run, or on a target, with a load of its own.

mod live;
mod measure;
mod pace;
mod recorded;
mod steps;
mod temporary;

use std::path::Path;

use clap::Args;

use crate::exit::Exit;

/// A load is to be measured as it is, so nothing is opened while it is.
const CONNECTIONS: &str = "Connections of each session, 1 to 64, as far as the target offers as many; auto is one, until --fix says more";

/// Say what limits a load, what shows it, what to change and what that would gain
///
/// Looks at the tables of a run and at nothing else; or, given a URL, runs short loads there first: one request alone, the
/// load as described, then steps that ask what limits it. It says before for how long. A step above the load ends when
/// requests take four times as long as one alone, or when the target has no room; --gentle leaves these steps out. With
/// --fix it changes what the initiator can change, measures again, and goes on until the path is the limit.
#[derive(Args, Debug)]
#[command(mut_arg("trace", |arg| arg.hide(true)), mut_arg("connections", |arg| arg.help(CONNECTIONS)))]
#[command(after_help = "\
Examples:
  farlun doctor runs/tour
  farlun doctor runs/tour/cells/*-random-delay-8ms/r1
  farlun doctor iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0
  farlun doctor iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0 --block 4KiB --depth 32 --random --fix --out runs/slow
  farlun doctor iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0 --depth 8 --gentle
  farlun doctor iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0 --op write --overwrite --json

Nothing is written to the LUN without --overwrite. On a target that others use, begin with --gentle.")]
pub(crate) struct DoctorArgs {
    /// iscsi://HOST[:PORT]/IQN/LUN; or a run directory, one of its cells, or a directory that --trace wrote to
    #[arg(value_name = "URL|RUN")]
    what: String,
    #[command(flatten)]
    live: live::LiveArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: DoctorArgs) -> anyhow::Result<u8> {
    match args.what.starts_with("iscsi://") {
        true => live::run(&args.what, args.live, args.json),
        false => {
            expect_no_load(&args.what)?;
            recorded::run(Path::new(&args.what), args.json)
        }
    }
}

/// Returns an error for flags of a load: a recorded run is not loaded again, so they would have no effect.
fn expect_no_load(what: &str) -> anyhow::Result<()> {
    let words = std::env::args_os().skip(2).map(|word| word.to_string_lossy().into_owned());
    match words.filter(|word| word.starts_with('-')).find(|word| word != "--json" && word != "--") {
        // The value of the flag may be a secret and is left out.
        Some(flag) => Err(Exit::usage(format!(
            "{} is for a load on a target, iscsi://…; '{what}' is taken for a run",
            flag.split('=').next().unwrap_or_default()
        ))),
        None => Ok(()),
    }
}
