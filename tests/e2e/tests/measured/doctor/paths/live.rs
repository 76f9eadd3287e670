//! One path, live: the doctor's first verdict on the load, and the load again with each thing taken away.

use std::time::{Duration, Instant};

use e2e::path::{self, FAR};
use e2e::{farlun, farlun_path, run, tgtd};
use serde_json::Value;

use super::cell::{Cell, Server};

const LIMIT: Duration = Duration::from_secs(240);
const IQN: &str = "iqn.2026-11.io.farlun:doctor";
/// Gain from which on taking something away has changed something.
const GAINS: f64 = 1.1;
/// Gain of another limiter up to which a full line is full: one flow does not fill a line with a short queue to the last.
const GAINS_NOT: f64 = 1.2;
/// Gain from which on a figure is expected.
const EXPECTS_FIGURE: f64 = 1.25;
/// Predicted ÷ measured.
const PREDICTED: std::ops::RangeInclusive<f64> = 0.8..=1.25;

/// Verdict of the doctor on a path, and gains of interventions.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) name: &'static str,
    pub(super) is_full_line: bool,
    pub(super) said: String,
    pub(super) certainty: String,
    /// Predicted ÷ present rate; `None` without a figure.
    pub(super) predicted: Option<f64>,
    pub(super) bytes_per_s: f64,
    /// Gains of interventions, by the limiters that they take away.
    pub(super) gains: Vec<(&'static [&'static str], f64)>,
    /// Time that the doctor took.
    pub(super) seconds: f64,
    pub(super) validity: Result<(), String>,
}

impl Judged {
    /// Gain of taking the named limiter away; 1 if the path has none of that name.
    pub(super) fn gain(&self) -> f64 {
        let of = |names: &[&str]| names.contains(&self.said.as_str());
        self.gains.iter().find(|(names, _)| of(names)).map_or(1.0, |(_, gain)| *gain)
    }

    /// Best gain of all but the line's.
    pub(super) fn best(&self) -> f64 {
        let others = self.gains.iter().filter(|(names, _)| !names.contains(&"link-rate"));
        others.map(|(_, gain)| *gain).fold(1.0, f64::max)
    }

    /// Right by intervention: the load gains without the named limiter; a full line only if nothing else gains.
    pub(super) fn is_right(&self) -> bool {
        match self.said.as_str() {
            "link-rate" => self.gain() >= GAINS && self.best() < GAINS_NOT,
            _ => self.gain() >= GAINS,
        }
    }

    /// True if a figure is expected: the named limiter is no end of the search, and gains a quarter.
    pub(super) fn has_gain(&self) -> bool {
        self.said != "link-rate" && self.gain() >= EXPECTS_FIGURE
    }

    /// True if the figure agrees with the intervention; `None` without a figure, and without a gain.
    pub(super) fn is_exact(&self) -> Option<bool> {
        let predicted = self.predicted.filter(|_| self.has_gain())?;
        Some(PREDICTED.contains(&(predicted / self.gain())))
    }
}

/// Runs the doctor on a path, and the load again with each thing taken away.
pub(super) fn judge(cell: &Cell, seed: u64) -> Judged {
    let drawn = cell.drawn(seed);
    let overwrite = if drawn.is_write { " --overwrite" } else { "" };
    let began = Instant::now();
    let (document, mut validity) =
        over(&drawn, seed, &format!("doctor URL --json {}{overwrite}", drawn.load_flags()));
    let seconds = began.elapsed().as_secs_f64();
    let diagnosis = &document["near"]["output"]["steps"][0]["diagnosis"];
    let first = &diagnosis["verdicts"][0];
    let now = diagnosis["current"]["bytes_per_s"].as_f64().expect("a rate");
    println!("{}: {}", cell.name, brief(&document["near"]["output"]["steps"][0]));
    let mut gains = Vec::new();
    for (names, relieved) in drawn.relieved() {
        let warmup = Duration::from_millis(500) + Duration::from_secs_f64(relieved.rtt_ms / 1e3 * 20.0);
        let time = warmup + Duration::from_secs(3);
        let bench = format!(
            "bench URL --json {}{overwrite} --connections 1 --time {}ms --warmup {}ms",
            relieved.load_flags(),
            time.as_millis(),
            warmup.as_millis()
        );
        let (document, valid) = over(&relieved, seed, &bench);
        // A line that is four times as fast may be more than this machine carries: that it gains is all that counts.
        if !names.contains(&"link-rate") {
            validity = validity.and(valid);
        }
        let rate = document["near"]["output"]["bytes_per_s"].as_f64().expect("a rate");
        gains.push((names, rate / now));
    }
    let predicted = first["predicted"]["bytes_per_s"].as_f64();
    Judged {
        name: cell.name,
        is_full_line: cell.is_full_line(),
        said: first["limiter"].as_str().expect("a verdict").to_owned(),
        certainty: first["certainty"].as_str().unwrap_or("").to_owned(),
        predicted: predicted.map(|rate| rate / now),
        bytes_per_s: now,
        gains,
        seconds,
        validity,
    }
}

/// Steps and verdicts, on one line each.
fn brief(step: &Value) -> String {
    let mb = |value: &Value| value.as_f64().unwrap_or(0.0) / 1e6;
    let ms = |value: &Value| value.as_f64().unwrap_or(0.0) * 1e3;
    let load = |load: &Value| {
        format!(
            "\n    {} {}×{:.1} × {}: {:.2} MB/s {:.2} ms, round trip {:.2} of {:.2} ms {}",
            load["role"],
            load["sessions"],
            load["outstanding"].as_f64().unwrap_or(0.0),
            load["request_bytes"],
            mb(&load["bytes_per_s"]),
            ms(&load["latency_s"]),
            ms(&load["loaded_rtt_s"]),
            ms(&load["rtt_s"]),
            load["end"],
        )
    };
    let verdict = |verdict: &Value| {
        format!(
            "\n    → {} {} {:.2} MB/s",
            verdict["limiter"],
            verdict["certainty"],
            mb(&verdict["predicted"]["bytes_per_s"])
        )
    };
    let list = |key: &Value| key.as_array().cloned().unwrap_or_default();
    let loads: String = list(&step["loads"]).iter().map(load).collect();
    let verdicts: String = list(&step["diagnosis"]["verdicts"]).iter().map(verdict).collect();
    loads + &verdicts
}

/// Runs a farlun command, whose URL is `URL`, near the target of a path; the document and the validity of the run.
fn over(cell: &Cell, seed: u64, command: &str) -> (Value, Result<(), String>) {
    let folder = tempfile::Builder::new().prefix("farlun-path-").tempdir().expect("a folder");
    let [disk, ready, far, near] =
        ["disk", "ready", "far.sh", "near.sh"].map(|name| folder.path().join(name));
    let program = farlun_path().display();
    let (serve, url) = match cell.server {
        Server::Ours(flags) => (
            format!(
                "touch {}\nexec {program} target --json --lun {} --listen {FAR}:3260 --insecure --iqn {IQN} {flags}",
                ready.display(),
                cell.lun()
            ),
            format!("iscsi://{FAR}/{IQN}/0"),
        ),
        Server::Tgt(parameters) => {
            let file = std::fs::File::create(&disk).expect("a disk");
            file.set_len(64 << 20).expect("a disk");
            let serve = tgtd::script_with(&format!("{FAR}:3260"), &disk, &ready, parameters);
            (serve, format!("iscsi://{FAR}/{}/1", tgtd::IQN))
        }
    };
    let wait = format!("until [ -e {} ]; do sleep 0.05; done", ready.display());
    std::fs::write(&far, format!("set -eu\n{serve}\n")).expect("a script");
    std::fs::write(&near, format!("set -eu\n{wait}\nexec {program} {}\n", command.replace("URL", &url)))
        .expect("a script");
    let mut wan = farlun(["wan", "--json", "--validity", "throughput"]);
    wan.args(cell.path_flags(seed)).arg("--far").arg(format!("exec sh {}", far.display()));
    let finished = run(wan.args(["--", "sh"]).arg(&near), LIMIT);
    assert!(matches!(finished.code, 0 | 4), "{finished:#?}");
    let document = finished.json();
    assert_eq!(document["near"]["exit_code"], 0, "{finished:#?}");
    let validity = path::validity(&document);
    (document, validity)
}
