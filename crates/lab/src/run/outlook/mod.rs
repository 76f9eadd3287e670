//! The outlook of a run: load of the machine by other programs, prospects of valid figures, and remaining time.

mod forecast;
mod machine;
mod streak;

pub(crate) use forecast::Forecast;
pub use machine::{MachineUse, look};
pub(crate) use streak::Streak;

/// Last sentence of a run without figures: found, expected, next step.
pub(crate) fn what_to_do(found: &str, machine: Option<&MachineUse>) -> String {
    let busy = machine.and_then(MachineUse::trouble).map_or_else(String::new, |busy| format!("; {busy}"));
    let next = "run it again when the machine is quiet (--resume goes on with what was measured), or give --validity off \
                for figures that are marked as unvalidated";
    match busy.is_empty() {
        true => format!("{found}; {next}"),
        // That names the next step too.
        false => format!("{found}{busy}"),
    }
}
