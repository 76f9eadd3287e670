//! Real-time priorities (`chrt -f`) of victims and floods.

use std::process::Command;

use crate::bench::program::Build;

/// Start of the victim's load that is not counted.
pub(super) const WARMUP_SECONDS: u32 = 1;

/// Real-time priorities.
#[derive(Clone, Copy)]
pub(super) enum Priority {
    LoopOrVictim = 20,
    Flood = 5,
}

/// Returns true if real-time priorities can be given; says so if not.
pub(super) fn has_priorities() -> bool {
    let has = Command::new("chrt").args(["-f", "1", "true"]).status().is_ok_and(|status| status.success());
    if !has {
        println!("no right to real-time priorities: the scheduler's time slices are measured as well");
    }
    has
}

/// A command that starts a build, with a priority if it can have one.
pub(super) fn prioritised(build: &Build, has_priorities: bool, priority: Priority) -> Command {
    if !has_priorities {
        return build.command::<&str>([]);
    }
    let mut command = Command::new("chrt");
    command.args(["-f", &(priority as u32).to_string()]).arg(build.path());
    command
}
