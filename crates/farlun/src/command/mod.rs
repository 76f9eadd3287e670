//! The subcommands: flags here, one file each beside this one.

mod lab;
mod report;
mod target;
mod wan;

use clap::{Parser, Subcommand};

/// Block storage over long fat networks, and the instruments that show what limits it.
#[derive(Parser, Debug)]
#[command(name = "farlun", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Lab(lab::LabArgs),
    Report(report::ReportArgs),
    Target(target::TargetArgs),
    Wan(wan::WanArgs),
}

impl Cli {
    /// Runs the subcommand; the exit code, or an error that carries one.
    pub(crate) fn run(self) -> anyhow::Result<u8> {
        match self.command {
            Command::Lab(args) => lab::run(args),
            Command::Report(args) => report::run(args),
            Command::Target(args) => target::run(args),
            Command::Wan(args) => wan::run(args),
        }
    }
}
