//! `farlun wan selftest`: accuracy and capacity of the emulator on this machine.

use clap::Args;
use wan::WanError;
use wan::selftest::{Effort, SelfTest, selftest};

use crate::exit;

/// Measure what the emulator reaches on this machine: delay, rate, loss, capacity
///
/// Runs paths of its own and compares what comes out with what the model wanted. Needs an otherwise idle machine: a
/// figure that other work has touched is invalid. Exit code 0 if every figure is within its bound, 1 if not, 4 if one is
/// invalid.
#[derive(Args, Debug)]
#[command(after_help = "Example: farlun wan selftest --quick --json | jq .checks")]
pub(super) struct SelftestArgs {
    /// A quarter of a minute instead of a whole one
    #[arg(long)]
    quick: bool,
    /// Print one JSON document when all is over
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(super) fn run(args: &SelftestArgs) -> anyhow::Result<u8> {
    super::own_namespaces()?;
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let found: Result<SelfTest, WanError> = selftest(effort, &mut |what| note!("measuring {what}"));
    let found = found?;
    if args.json {
        say!("{}", serde_json::to_string(&found)?);
    } else {
        show(&found);
    }
    for reason in &found.reasons {
        note!("farlun: {reason}");
    }
    Ok(match (found.valid, found.ok()) {
        (false, _) => exit::INVALID,
        (true, false) => exit::FAILED,
        (true, true) => exit::DONE,
    })
}

fn show(found: &SelfTest) {
    let mut path = "";
    for check in &found.checks {
        if check.path != path {
            path = &check.path;
            say!("{path}");
        }
        let value = check.value.map_or("invalid".to_owned(), |value| format!("{value:.3}"));
        let verdict = if check.ok { "ok" } else { "NOT OK" };
        say!("  {:<36} {value:>10} {:<10} {} {:<6} {verdict}", check.name, check.unit, check.op, check.bound);
    }
    let priority = if found.realtime { "with" } else { "without" };
    say!("bounds of the added delay: those of an emulator {priority} real-time priority");
    say!(
        "others kept {:.2} of {} processors busy in the worst of these measurements; up to {} is tolerated",
        found.others_busy,
        found.cpus,
        found.others_busy_max
    );
}
