//! What the doctor did with a load, step by step: as lines and as JSON.

use std::io::stdout;
use std::path::Path;
use std::time::Duration;

use diagnosis::Performance;
use event::format_delay;
use lab::doctor::{Ending, Step, Treatment};
use report::terminal::Colour;
use serde_json::{Value, json};

/// Says the last of these steps: what was measured beside what was predicted, what limits, and what is done about it.
pub(super) fn say(steps: &[Step]) {
    let Some((step, before)) = steps.split_last() else { return };
    let title = match before.len() {
        0 => "as it is".to_owned(),
        fixes => format!("after fix {fixes}"),
    };
    if let Some(change) = before.last().and_then(|step| step.change.as_ref()) {
        let measured = shown(step.diagnosis.current);
        say!("Fix {}: predicted {}; measured {measured}\n", before.len(), shown(change.predicted));
    }
    say!("{}", report::doctor(&step.diagnosis, &title, Colour::on(&stdout())).trim_end());
    if let Some(change) = &step.change {
        say!("\nFix {}: {}\n", steps.len(), change.what);
    }
}

/// Why there is no further step, in a sentence.
pub(super) fn ending(ending: Ending) -> String {
    match ending {
        Ending::NotAsked => {
            "give --fix to have what limits changed, where the initiator can, and measured again".to_owned()
        }
        Ending::Path(limiter) => format!("the path is the limit: {}", limiter.label()),
        Ending::Elsewhere(limiter) => {
            format!("what limits now is not in the initiator's power: {}", limiter.label())
        }
        Ending::Again(limiter) => format!("still the same after its fix: {}", limiter.label()),
        Ending::Enough => "that were enough fixes for once".to_owned(),
    }
}

/// Everything, as one document.
pub(super) fn json(treatment: &Treatment, report: Option<&Path>) -> Value {
    let steps = treatment.steps.iter().enumerate().map(|(number, step)| {
        let measured = treatment.steps.get(number + 1).map(|after| after.diagnosis.current);
        let fix = step.change.as_ref().map(|change| {
            json!({
                "limiter": change.limiter,
                "what": change.what,
                "predicted": change.predicted,
                "measured": measured,
            })
        });
        json!({"diagnosis": step.diagnosis, "fix": fix})
    });
    let (word, limiter) = match treatment.ending {
        Ending::NotAsked => ("not-asked", None),
        Ending::Path(limiter) => ("path", Some(limiter)),
        Ending::Elsewhere(limiter) => ("elsewhere", Some(limiter)),
        Ending::Again(limiter) => ("again", Some(limiter)),
        Ending::Enough => ("enough", None),
    };
    json!({
        "steps": steps.collect::<Vec<_>>(),
        "ending": {"why": word, "limiter": limiter, "text": ending(treatment.ending)},
        "report": report,
    })
}

fn shown(performance: Performance) -> String {
    let latency = Duration::from_secs_f64(performance.latency_s.max(0.0));
    format!("{:.1} MB/s, {} a request", performance.bytes_per_s / 1e6, format_delay(rounded(latency)))
}

/// Three digits are enough to read.
fn rounded(time: Duration) -> Duration {
    let ns = time.as_nanos() as u64;
    let unit = 10u64.pow(ns.max(1).ilog10().saturating_sub(2));
    Duration::from_nanos(ns / unit * unit)
}
