//! The lab, an order for a run, and its outcome.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::SystemTime;

use analysis::Tour;
use net::EndSignals;
use tables::manifest::Run;

use super::attempt::Fingerprint;
use super::error::LabError;
use super::outlook::MachineUse;
use crate::plan::{Plan, Variant};

/// Runs plans with one program.
#[derive(Debug)]
pub struct Lab {
    pub(super) program: PathBuf,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) signals: Option<EndSignals>,
}

/// One run of a plan.
#[derive(Clone, Debug)]
pub struct Order {
    /// Plan to run.
    pub plan: Plan,
    /// Directory of the run: a missing or empty one, or with `resume` one that holds this run.
    pub out: PathBuf,
    /// Resumes the run that is there, if there is one.
    pub resume: bool,
    /// Seed of the order of cells within a repeat.
    pub seed: u64,
    /// Command line of the user, quoted for a shell; the report prints it.
    pub command_line: String,
    /// Version of farlun.
    pub version: String,
    /// Git commit that the program was built from; `None` outside of a checkout.
    pub commit: Option<String>,
    /// Load of the machine before the run, if it was measured.
    pub machine: Option<MachineUse>,
    /// Loads of the plan that are left out, and why, a sentence each.
    pub left_out: Vec<String>,
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// All its figures and checks.
    pub tour: Tour,
    /// Its page.
    pub report_path: PathBuf,
    /// Cells that have no valid repeat because the emulator did not keep its promises, in words.
    pub invalid: Vec<String>,
    /// Cells of which a command failed, in words.
    pub failed: Vec<String>,
    /// Reason if the rest of the plan was not run.
    pub stopped: Option<String>,
    /// Results of its cases as Markdown, if it has cases.
    pub cases: Option<String>,
    /// Size of the plan that was run; in a smoke run checks decide nothing.
    pub variant: Variant,
    /// Rules of validity were waived: no figure is validated, and no check uses one.
    pub is_waived: bool,
}

impl Order {
    /// A run of it that begins now.
    pub(crate) fn run(&self) -> Run {
        Run {
            unvalidated: self.plan.is_waived() || self.plan.variant == Variant::Smoke,
            busy: self.machine.as_ref().map(MachineUse::programs).unwrap_or_default(),
            left_out: self.left_out.clone(),
            plan_name: self.plan.name.clone(),
            plan: self.plan.to_json(),
            plan_text: self.plan.text.clone(),
            seed: self.seed,
            ..begun(self.command_line.clone(), self.version.clone(), self.commit.clone())
        }
    }
}

/// A run that begins now on this machine.
pub fn begun(command_line: String, version: String, commit: Option<String>) -> Run {
    Run {
        farlun: version,
        command_line,
        commit,
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        cpus: available_parallelism().map_or(1, |n| n.get() as u32),
        started_unix_s: SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64()),
        ..Run::default()
    }
}

impl Outcome {
    /// True if every load was run and yields figures, and every check holds. Checks of a smoke run do not count, nor do
    /// those of a run without rules of validity.
    pub fn good(&self) -> bool {
        let counts = self.variant != Variant::Smoke && !self.is_waived;
        let checks = !counts || self.tour.run.checks.iter().all(|check| check.ok);
        checks && self.invalid.is_empty() && self.failed.is_empty() && self.stopped.is_none()
    }
}

impl Lab {
    /// A lab whose cells run `program`, which speaks farlun's command line.
    pub fn new(program: PathBuf) -> Lab {
        Lab { fingerprint: Fingerprint::of(&program), program, signals: None }
    }

    /// Ends the run in good order when one of these signals comes.
    pub fn ended_by(self, signals: EndSignals) -> Lab {
        Lab { signals: Some(signals), ..self }
    }

    pub(super) fn not_started(&self, source: std::io::Error, trace_dir: &Path) -> LabError {
        match fs::metadata(trace_dir).is_ok() && !is_executable(&self.program) {
            true => LabError::Program { program: self.program.clone(), source },
            false => LabError::File { path: trace_dir.to_owned(), source },
        }
    }
}

fn is_executable(program: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(program).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
