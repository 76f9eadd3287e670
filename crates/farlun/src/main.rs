//! The `farlun` binary: parses flags, runs one subcommand, turns its outcome into an exit code.
//!
//! One file per subcommand in `command/`; the libraries do the work.

#[macro_use]
mod say;

mod command;
mod command_line;
mod device;
mod exit;
mod near_end;
mod output;
#[cfg(feature = "pages")]
mod pages;
mod secrets;
mod session;
mod text_file;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    #[cfg(feature = "pages")]
    if let Some(folder) = pages::folder(std::env::args_os()) {
        return pages::run(&folder);
    }
    let cli = match command::Cli::try_parse() {
        Ok(cli) => cli,
        Err(help) => {
            // The message quotes the command line, which may hold a URL with a secret.
            let text = help.render();
            match help.use_stderr() {
                true if std::io::stderr().is_terminal() => note!("{}", text.ansi().to_string().trim_end()),
                true => note!("{}", text.to_string().trim_end()),
                false => drop(help.print()),
            }
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
