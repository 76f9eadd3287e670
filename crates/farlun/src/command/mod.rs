//! The subcommands: flags here, one file each beside this one.

mod analyze;
mod bench;
mod capture;
mod compare;
mod discard;
mod doctor;
mod inquiry;
mod lab;
mod ls;
mod read;
mod recorder;
mod replay;
mod report;
mod serve_nbd;
mod stream;
mod target;
mod top;
mod wan;
mod write;

use clap::{Parser, Subcommand};

/// Block storage over long fat networks, and the instruments that show what limits it.
#[derive(Parser, Debug)]
#[command(name = "farlun", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Lab(lab::LabArgs),
    Report(report::ReportArgs),
    Replay(replay::ReplayArgs),
    Analyze(analyze::AnalyzeArgs),
    Doctor(Box<doctor::DoctorArgs>),
    Compare(compare::CompareArgs),
    Target(Box<target::TargetArgs>),
    ServeNbd(serve_nbd::ServeNbdArgs),
    Ls(ls::LsArgs),
    Inquiry(inquiry::InquiryArgs),
    Read(read::ReadArgs),
    Write(write::WriteArgs),
    Discard(discard::DiscardArgs),
    Bench(bench::BenchArgs),
    Stream(stream::StreamArgs),
    Top(top::TopArgs),
    Wan(Box<wan::WanArgs>),
    Capture(Box<capture::CaptureArgs>),
    Recorder(recorder::RecorderArgs),
}

impl Cli {
    /// Runs the subcommand; the exit code, or an error that carries one.
    pub(crate) fn run(self) -> anyhow::Result<u8> {
        match self.command {
            Command::Lab(args) => lab::run(args),
            Command::Report(args) => report::run(args),
            Command::Analyze(args) => analyze::run(args),
            Command::Bench(args) => bench::run(args),
            Command::Discard(args) => discard::run(args),
            Command::Doctor(args) => doctor::run(*args),
            Command::Compare(args) => compare::run(args),
            Command::Inquiry(args) => inquiry::run(args),
            Command::Ls(args) => ls::run(args),
            Command::Read(args) => read::run(args),
            Command::Replay(args) => replay::run(args),
            Command::ServeNbd(args) => serve_nbd::run(args),
            Command::Stream(args) => stream::run(args),
            Command::Top(args) => top::run(args),
            Command::Write(args) => write::run(args),
            Command::Target(args) => target::run(*args),
            Command::Wan(args) => wan::run(*args),
            Command::Capture(args) => capture::run(*args),
            Command::Recorder(args) => recorder::run(args),
        }
    }
}
