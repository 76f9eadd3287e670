//! Steps of the doctor with a load: as lines and as JSON.

use std::io::stdout;
use std::path::Path;
use std::time::Duration;

use diagnosis::steps::StepObservation;
use diagnosis::{Limiter, Performance};
use event::format_delay;
use lab::doctor::{Ending, Step, Treatment};
use report::terminal::Colour;
use serde_json::{Value, json};

/// Prints the last of these steps: figures measured and predicted, the limit, and the change made.
pub(super) fn say(steps: &[Step]) {
    let Some((step, before)) = steps.split_last() else { return };
    let title = match before.len() {
        0 => "as it is".to_owned(),
        fixes => format!("after fix {fixes}"),
    };
    if let Some(change) = before.last().and_then(|step| step.change.as_ref()) {
        let measured = shown(step.diagnosis.current);
        let predicted = change.predicted.map_or_else(|| "no figure".to_owned(), shown);
        say!("Fix {}: predicted {predicted}; measured {measured}\n", before.len());
    }
    let colour = Colour::on(&stdout());
    say!("{}", report::doctor(&step.diagnosis, &title, colour).trim_end());
    say!("\n{}", report::steps(&step.loads, colour).trim_end());
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
        Ending::Elsewhere(limiter) => match limiter {
            Limiter::QueueDepth => {
                format!("more requests outstanding than these gain nothing: {}", limiter.label())
            }
            _ => format!(
                "what limits now is at the target or on the path; its commands stand above: {}",
                limiter.label()
            ),
        },
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
        json!({"diagnosis": step.diagnosis, "loads": loads(&step.loads), "fix": fix})
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

/// The loads of one measurement.
fn loads(loads: &[StepObservation]) -> Vec<Value> {
    let load = |step: &StepObservation| {
        json!({
            "role": step.load.role,
            "sessions": step.load.sessions,
            "depth": step.load.depth,
            "request_bytes": step.load.request_bytes,
            "outstanding": step.facts.outstanding.called,
            "bytes_per_s": step.facts.current.bytes_per_s,
            "latency_s": step.latency_s(),
            "rtt_s": step.facts.path.rtt_s,
            "loaded_rtt_s": step.facts.path.loaded_rtt_s,
            "end": step.end,
            "facts": step.facts,
        })
    };
    loads.iter().map(load).collect()
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
