//! `farlun doctor`: what limits a load, and what to change. On a target it runs a load itself.

mod live;
mod steps;
mod verdict;

use clap::Args;

use crate::exit::Exit;

/// Say what limits a load, prove it by changing that, and say what comes of it
///
/// Measures a load on a target, names what limits it, and says what to set and what will come of it. With --fix it
/// changes what the initiator can change, measures again, and goes on until the path is the limit.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  farlun doctor iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0
  farlun doctor iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0 --block 4KiB --depth 32 --random --fix --out runs/slow
  farlun doctor iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0 --op write --overwrite --json

Nothing is written to the LUN without --overwrite.")]
pub(crate) struct DoctorArgs {
    /// iscsi://HOST[:PORT]/IQN/LUN
    #[arg(value_name = "URL")]
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
        false => Err(Exit::usage(format!("'{}' is no URL such as iscsi://HOST/IQN/LUN", args.what))),
    }
}
