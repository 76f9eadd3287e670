//! The smoke variant: every load of a plan once and briefly, to see that its commands work on this machine.
//!
//! It is derived from the quick variant, so that a plan says nothing about it. Windows of so few round trips carry no
//! meaning: no rule of validity applies, no cell is repeated, and the values of expectations decide nothing.

use std::time::Duration;

use super::load::{LoadKind, Validity};
use super::lun::Lun;
use super::time::PathTime;
use super::{Plan, read};

/// Time from the start of a load to its window: the login and the first requests.
const START: PathTime = PathTime { fixed: Duration::from_millis(200), round_trips: 4.0 };
/// Length of a window: some requests, also where each is a long one and waits for slow start.
const WINDOW: PathTime = PathTime { fixed: Duration::from_millis(600), round_trips: 8.0 };
/// Time for which some initiators of a `command` work alone. Shell arithmetic takes whole seconds.
const BEFORE: PathTime = PathTime { fixed: Duration::from_secs(1), round_trips: 0.0 };

/// Reduces the quick variant of a plan to one short cell a load, and a plan with cases to one case.
pub(super) fn reduce(mut plan: Plan) -> Plan {
    plan.repeats = 1;
    for axis in &mut plan.matrix {
        axis.values.truncate(1);
    }
    plan.luns = plan.luns.into_iter().map(Lun::without_prealloc).collect();
    plan.cases.truncate(1);
    for case in &mut plan.cases {
        case.rtts.truncate(1);
    }
    for load in &mut plan.loads {
        load.validity = Validity::Off;
        load.start = START;
        load.window = WINDOW;
        match &mut load.kind {
            LoadKind::Bench(bench) => {
                bench.warmup = bench.warmup.map(|_| START);
                bench.warm_bulk = bench.warm_bulk.map(|_| WINDOW);
            }
            LoadKind::Command(command) if command.before != PathTime::default() => command.before = BEFORE,
            LoadKind::Command(_) | LoadKind::Stream { .. } => {}
        }
    }
    read::keep_answerable(&mut plan);
    plan
}
