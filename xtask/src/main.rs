//! Project chores: `cargo xtask test` runs everything CI runs, `tidy` the house rules alone, `bench` the comparisons.
//!
//! Nothing here is part of the product. The three commands share `step` (sections, timings, skips).

mod bench;
mod docs;
mod guest;
mod package;
mod packages;
mod step;
mod suite;
mod tidy;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask COMMAND

  test [--part static|unit|loopback|path|guest|package]… [--long]
                   everything CI runs: static, unit, loopback and path unless parts are named;
                   installs missing Debian packages when root
  guest            the same as test --part guest: Linux's own kernel as a peer
  guest --image    makes the guest's image unless it is cached, and prints its folder
  docs             writes docs/reference/commands.md and its pages from the flags
  package          a static binary with manual pages, completions and a systemd unit,
                   as Debian package and tar archive, in target/package
  tidy             the house rules alone: sources, crate arrows, licences
  tidy --tighten   lowers the bounds in xtask/src/tidy/ratchet.txt that can fall; no bound rises
  tidy --list [RULE [CRATE]]
                   today's numbers as rows of that file, or the places behind one
  bench [--quick] [NAME…]
                   farlun beside what others wrote, in interleaved rounds; all of
                   stream tgt memory analysis analyze flood trace untraced capture
                   gaps page, or those named
  bench --against REV [--rounds N | --quick] NAME…
                   the working tree's build beside that of another revision, 15
                   rounds or more of 2 s, with a verdict for each figure; of
                   stream tgt memory analyze flood trace";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["test", selection @ ..] => suite::Selection::parse(selection).and_then(suite::run),
        ["guest"] => suite::Selection::parse(&["--part", "guest"]).and_then(suite::run),
        ["guest", "--image"] => guest::print_image(),
        ["docs"] => docs::run(),
        ["package"] => package::run(),
        ["tidy"] => tidy::run(),
        ["tidy", "--tighten"] => tidy::tighten(),
        ["tidy", "--list", filter @ ..] => tidy::list(filter),
        // The generator of `bench capture`, in a namespace of its own.
        ["bench-send", rate, seconds, address] => generate(rate, seconds, address),
        ["bench", words @ ..] => match bench::Request::parse(words) {
            Ok(request) => bench::run(&request),
            Err(sentence) => {
                eprintln!("xtask: {sentence}\n{USAGE}");
                return ExitCode::from(2);
            }
        },
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(true)
        }
        other => {
            eprintln!("xtask: unknown arguments {other:?}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn generate(rate: &str, seconds: &str, address: &str) -> anyhow::Result<bool> {
    bench::generate(rate.parse()?, seconds.parse()?, address)
}
