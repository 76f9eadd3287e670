//! The `farlun` binary: parses flags, runs one subcommand, turns its outcome into an exit code.
//!
//! One file per subcommand in `command/`; what they do lives in the libraries.

#[macro_use]
mod say;

mod command;
mod command_line;
mod exit;
mod output;
mod secrets;
mod session;
mod text_file;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match command::Cli::try_parse() {
        Ok(cli) => cli,
        Err(help) => {
            let _ = help.print();
            return ExitCode::from(if help.use_stderr() { exit::USAGE } else { exit::DONE });
        }
    };
    match cli.run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            note!("farlun: {}", exit::sentence(&error));
            ExitCode::from(exit::code_of(&error))
        }
    }
}
