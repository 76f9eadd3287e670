//! `cargo xtask test`: every check CI makes, in parts, the cheapest mistakes first.
//!
//! Debug builds carry the overflow checks that the unit tests want; the end-to-end tests run the release binary, built
//! once and handed to them in `FARLUN_BIN`. The parts of a run that names none take at most 20 minutes.

mod binaries;
mod part;
mod probe;
mod statics;
mod tally;

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail};

use crate::docs;
use crate::guest;
use crate::package;
use crate::packages;
use crate::step::{Outcome, Steps};
use crate::workspace;
use binaries::{Binary, Side};
use part::Part;
pub(crate) use part::Selection;
use probe::Probe;
use tally::{Note, Tally};

/// The crate of the end-to-end tests.
const E2E: &str = "e2e";
/// Tests against peers on loopback.
const LOOPBACK: &str = "e2e/loopback";
/// Tests over emulated paths that carry data or count packets: several paths at a time.
const PATH: &str = "e2e/path";
/// Tests over emulated paths that measure time or rates: one path at a time.
const MEASURED: &str = "e2e/measured";
/// Tests with Linux in a virtual machine as the peer.
const GUEST: &str = "e2e/guest";

const USUAL_ENDS: &[&str] = &[LOOPBACK, PATH, MEASURED];
/// Step that builds those.
const ENDS_BUILD: &str = "end-to-end tests: build";

/// The binary is copied to storage hosts: more than this needs a reason.
const BINARY_BYTES_MAX: u64 = 25_000_000;
/// Most of the checks that may stay undecided on a quiet machine.
const UNDECIDED_MAX: f64 = 0.05;
/// Number of tests in the list of the slowest.
const SLOWEST: usize = 20;

/// A run of the tests.
struct Suite {
    selection: Selection,
    steps: Steps,
    tally: Tally,
    probe: Probe,
    /// Folder with a Python package that reads Parquet.
    python: PathBuf,
    /// The release binary, once it was built.
    binary: Option<PathBuf>,
    /// Folder of the guest's image, once it was made.
    image: Option<PathBuf>,
    /// Test binaries of the end-to-end tests, once they were built.
    ends: Vec<Binary>,
    /// The first step of tests that failed. Others run all the same: their findings are worth the time.
    failure: Option<anyhow::Error>,
}

/// Runs the selected parts; false if a step failed. The totals are the last lines.
pub(crate) fn run(selection: Selection) -> Result<bool> {
    let mut suite = Suite {
        python: workspace::target_dir()?.join("python"),
        selection,
        steps: Steps::default(),
        tally: Tally::default(),
        probe: Probe::default(),
        binary: None,
        image: None,
        ends: Vec::new(),
        failure: None,
    };
    let outcome = suite.all();
    suite.print_totals(&outcome);
    Ok(outcome.is_ok())
}

impl Suite {
    fn all(&mut self) -> Result<()> {
        // The guest brings its own peers.
        if self.selection.parts.iter().any(|part| *part != Part::Guest) {
            self.steps.run("packages", || packages::ensure(packages::TESTS))?;
        }
        for part in self.selection.parts.clone() {
            match part {
                Part::Static => statics::run(&mut self.steps)?,
                Part::Unit => self.unit()?,
                Part::Loopback => self.loopback()?,
                Part::Path => self.path()?,
                Part::Guest => self.guest()?,
                Part::Package => self.package()?,
            }
        }
        match self.failure.take() {
            Some(error) => Err(error),
            None => self.undecided(),
        }
    }

    fn unit(&mut self) -> Result<()> {
        let Suite { steps, tally, python, .. } = self;
        steps.run("a reader of Parquet", || packages::ensure_parquet_reader(python))?;
        let mut built = Vec::new();
        steps.run("unit tests: build", || {
            let beside_code = binaries::build(&["--lib", "--bins"])?;
            // Simulations take longest: they begin first.
            built = binaries::build(&["--exclude", E2E, "--tests"])?;
            built.retain(Binary::is_integration);
            built.extend(beside_code);
            Ok(Outcome::Passed)
        })?;
        let side =
            Side { binaries: processors(), tests: processors(), environment: &[("PYTHONPATH", python)] };
        let outcome =
            steps.run("unit tests", || binaries::run(&built, side, tally).map(|()| Outcome::Passed));
        keep(&mut self.failure, outcome);
        Ok(())
    }

    /// Builds the release binary, once.
    fn release(&mut self) -> Result<PathBuf> {
        if let Some(binary) = &self.binary {
            return Ok(binary.clone());
        }
        let Suite { steps, binary, .. } = self;
        steps.run("release build", || {
            let built = workspace::release_binary()?;
            let bytes = std::fs::metadata(&built).context("the release build left no binary")?.len();
            println!("{}: {:.1} MB", built.display(), bytes as f64 / 1e6);
            if bytes > BINARY_BYTES_MAX {
                bail!("the release binary has {bytes} bytes, {BINARY_BYTES_MAX} at most: look at what was added last");
            }
            *binary = Some(built);
            Ok(Outcome::Passed)
        })?;
        binary.clone().context("the release build named no binary")
    }

    /// Builds the binaries of these end-to-end tests, and the release binary that they run.
    fn build_ends(&mut self, step: &'static str, names: &[&str]) -> Result<()> {
        self.release()?;
        let Suite { steps, ends, .. } = self;
        if names.iter().all(|name| ends.iter().any(|end| end.name == *name)) {
            return Ok(());
        }
        steps.run(step, || {
            let targets = names.iter().map(|name| name.trim_start_matches("e2e/"));
            ends.extend(binaries::build(&targets.flat_map(|target| ["--test", target]).collect::<Vec<_>>())?);
            Ok(Outcome::Passed)
        })
    }

    /// Runs the end-to-end tests of these binaries, side by side.
    fn ends(&mut self, step: &'static str, tests: usize, names: &[&str]) -> Result<()> {
        let binary = self.release()?;
        let Suite { steps, tally, ends, selection, image, .. } = self;
        let meant: Vec<Binary> =
            ends.iter().filter(|end| names.contains(&end.name.as_str())).cloned().collect();
        let mut environment: Vec<(&str, &Path)> = vec![("FARLUN_BIN", &binary)];
        if let Some(image) = image {
            environment.push(("FARLUN_GUEST", image));
        }
        if selection.is_long {
            environment.push(("FARLUN_LONG", Path::new("1")));
        }
        let side = Side { binaries: names.len(), tests, environment: &environment };
        keep(
            &mut self.failure,
            steps.run(step, || binaries::run(&meant, side, tally).map(|()| Outcome::Passed)),
        );
        Ok(())
    }

    fn loopback(&mut self) -> Result<()> {
        let binary = self.release()?;
        let outcome = self.steps.run("pages of commands", || docs::check(&binary));
        keep(&mut self.failure, outcome);
        self.build_ends(ENDS_BUILD, USUAL_ENDS)?;
        // Most of these wait for a peer, a timeout or a process to end.
        if self.selection.parts.contains(&Part::Path) {
            self.ends("loopback and path tests", 2 * processors(), &[LOOPBACK, PATH])
        } else {
            self.ends("loopback tests", 3 * processors(), &[LOOPBACK])
        }
    }

    fn path(&mut self) -> Result<()> {
        self.build_ends(ENDS_BUILD, USUAL_ENDS)?;
        if !self.selection.parts.contains(&Part::Loopback) {
            self.ends("path tests", 2 * processors(), &[PATH])?;
        }
        self.probe.read();
        self.ends("measured path tests", 1, &[MEASURED])?;
        self.probe.read();
        let ran = self.tally.passed_in(PATH) + self.tally.passed_in(MEASURED);
        if ran == 0 && std::env::var_os("CI").is_some_and(|value| value == "true") {
            bail!("every test of the emulated path was skipped, and CI must run at least one");
        }
        Ok(())
    }

    fn guest(&mut self) -> Result<()> {
        let Suite { steps, image, .. } = self;
        steps.run("packages of the guest", || packages::ensure(packages::GUEST))?;
        steps.run("guest image", || guest::ensure_image(image))?;
        if image.is_none() {
            return Ok(());
        }
        self.build_ends("guest tests: build", &[GUEST])?;
        // A guest keeps one processor busy.
        self.ends("guest tests", processors(), &[GUEST])
    }

    /// Packages are made, installed, run and removed; nothing of it is left on this machine but the files in the build folder.
    fn package(&mut self) -> Result<()> {
        let Suite { steps, .. } = self;
        steps.run("farlun on musl", statics::musl)?;
        let mut made = None;
        steps.run("packages: build", || {
            if let Some(missing) = workspace::without(&package::static_target())? {
                return Ok(missing);
            }
            made = Some(package::make()?);
            Ok(Outcome::Passed)
        })?;
        match &made {
            Some(made) => steps.run("packages: install, run, remove", || package::trial(made)),
            None => Ok(()),
        }
    }

    /// On a quiet machine nearly every check decides.
    fn undecided(&self) -> Result<()> {
        let undecided = self.tally.undecided().len() as f64;
        let checks = undecided + self.tally.decided() as f64;
        if self.probe.is_quiet() && undecided > UNDECIDED_MAX * checks {
            bail!(
                "{undecided} of {checks} checks were not decided, though {}; at most {} % may be: see the list above",
                self.probe.text(),
                UNDECIDED_MAX * 100.0
            );
        }
        Ok(())
    }

    fn print_totals(&self, outcome: &Result<()>) {
        let tally = &self.tally;
        println!("\n== slowest tests");
        for test in tally.slowest(SLOWEST) {
            println!("{:>8.1} s  {} {}", test.seconds, test.suite, test.name);
        }
        println!("\n== totals\n{}", self.steps);
        if let Err(error) = outcome {
            println!("\n{error:#}");
        }
        let skips = tally.skips();
        print_notes("failed", &tally.failures());
        if skips.len() + self.steps.skips().count() > 0 {
            println!("\nskipped on this machine:");
        }
        for (name, reason) in self.steps.skips() {
            println!("  {name}: {reason}");
        }
        print_lines(&skips);
        let undecided = tally.undecided();
        print_notes("not decided, because the machine was busy", &undecided);
        if !undecided.is_empty() || !self.probe.is_quiet() {
            println!("\n{}", self.probe.text());
        }
        // A failing test makes its step fail too: it is counted once, as the test.
        let failed = if tally.failed() > 0 { tally.failed() } else { self.steps.failed() as usize };
        let skipped = skips.len() + self.steps.skips().count();
        let checks = tally.decided() as usize + undecided.len();
        println!(
            "\n{} passed, {failed} failed, {skipped} skipped; {} of {checks} checks that need a quiet machine undecided",
            self.steps.passed() as usize + tally.passed(),
            undecided.len()
        );
    }
}

fn keep(first: &mut Option<anyhow::Error>, outcome: Result<()>) {
    if let Err(error) = outcome {
        first.get_or_insert(error);
    }
}

fn print_notes(heading: &str, notes: &[Note]) {
    if !notes.is_empty() {
        println!("\n{heading}:");
    }
    print_lines(notes);
}

fn print_lines(notes: &[Note]) {
    for Note { suite, name, reason } in notes {
        println!("  {suite} {name}: {reason}");
    }
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}
