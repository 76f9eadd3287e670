//! A whole run: make the path, start the far command, run COMMAND, clean up, judge.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use net::child::{Signal, signal};
use net::namespace::members;
use net::{EndSignals, clock, wait};
use serde::Serialize;

use crate::emulator::Emulator;
use crate::guard::{Guard, kill_all};
use crate::host::Host;
use crate::pump::Cost;
use crate::registry::Registered;
use crate::roles::Running;
use crate::shown::PathShown;
use crate::validity::{Class, Validity, judge};
use crate::{Side, Spec, WanError};

/// How long the far command may take until it listens.
const READY: Duration = Duration::from_secs(10);
/// How soon to look whether it does, and how often at most: the kernel walks its whole table of sockets each time.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_LAST: Duration = Duration::from_millis(100);
/// How long commands have to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// How long the far command's shell has of it before it gets a SIGTERM of its own.
const SHELL_GRACE: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The path.
    pub spec: Spec,
    /// COMMAND and its arguments.
    pub near: Vec<OsString>,
    /// The far command, for a shell.
    pub far: Option<String>,
    /// Where the table `packets` goes; the directory is there.
    pub trace: Option<PathBuf>,
    /// Whether to keep the last line of JSON that each command prints.
    pub keep_output: bool,
    /// What the run is judged for.
    pub class: Class,
    /// This program, to start the guard with.
    pub program: Option<PathBuf>,
}

/// What a run gave, as `farlun wan --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The path.
    pub path: PathShown,
    /// Whether figures may be taken from it.
    pub validity: Validity,
    /// COMMAND.
    pub near: Role,
    /// The far command.
    pub far: Option<Role>,
    /// What the emulation cost.
    pub emulator: Cost,
    /// Kernel settings of both ends.
    pub sysctls: BTreeMap<String, String>,
}

/// A command that ran at one end.
#[derive(Clone, Debug, Serialize)]
pub struct Role {
    /// The command in words; the far one is a single word for a shell.
    pub command: Vec<String>,
    /// Its exit code; 128 and the signal's number if a signal ended it.
    pub exit_code: u8,
    /// The last line it printed, if that is JSON and was kept.
    pub output: Option<serde_json::Value>,
}

/// Runs COMMAND over a path. Call it while the process has one thread: it takes over SIGINT, SIGTERM and
/// SIGHUP, on which it ends both commands and cleans up.
pub fn run(settings: &Settings) -> Result<Outcome, WanError> {
    let failed = |source| WanError::System { what: "take over signals", source };
    let signals = EndSignals::take_over().map_err(failed)?;
    let spec = &settings.spec;
    spec.check()?;
    let near = Arc::new(Host::create(Side::Near, spec)?);
    let far = Arc::new(Host::create(Side::Far, spec)?);
    let bench = Bench::new(settings, near, far)?;
    let mut emulator = Emulator::start(spec, &bench.near, &bench.far, settings.trace.as_deref())?;
    let _registered = Registered::new(&bench.near, &bench.far)?;
    let keep = settings.keep_output;

    let mut far = match &settings.far {
        Some(line) => Some(bench.start_far(line, keep, &signals)?),
        None => None,
    };
    emulator.begin()?;
    let mut near = Running::near(&bench.near, &settings.near, keep)?;
    let Some(near_code) = bench.wait_for(&mut near, &signals, &emulator)? else {
        return Err(emulator.finish().expect_err("nobody has told it to end"));
    };
    emulator.end()?;
    let far_code = match &mut far {
        Some(far) => bench.stop(far, &signals, &emulator)?,
        None => None,
    };
    kill_all(&bench.inodes);
    let (traffic, device_drops, cost) = emulator.finish()?;

    let words = settings.near.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let near = Role { command: words, exit_code: near_code, output: near.output() };
    let far = far.zip(far_code).zip(settings.far.clone()).map(|((mut far, exit_code), line)| Role {
        command: vec![line],
        exit_code,
        output: far.output(),
    });
    let validity = judge(settings.class, spec, &traffic, device_drops);
    Ok(bench.outcome(spec, validity, (near, far), cost))
}

/// The two ends and what cleans them up. Dropped, it leaves no process in them.
struct Bench {
    near: Arc<Host>,
    far: Arc<Host>,
    inodes: [u64; 2],
    _guard: Option<Guard>,
}

impl Bench {
    fn new(settings: &Settings, near: Arc<Host>, far: Arc<Host>) -> Result<Bench, WanError> {
        let failed = |source| WanError::System { what: "start the guard that cleans up", source };
        let inodes = [near.namespace.inode().map_err(failed)?, far.namespace.inode().map_err(failed)?];
        let guard = settings.program.as_deref().map(|program| Guard::start(program, inodes));
        Ok(Bench { near, far, inodes, _guard: guard.transpose().map_err(failed)? })
    }

    /// Starts the far command and waits until something in far listens on TCP. A command that has put itself
    /// into the background has ended well and may still come to listen.
    fn start_far(&self, line: &str, keep: bool, signals: &EndSignals) -> Result<Running, WanError> {
        let mut far = Running::far(&self.far, line, keep)?;
        let give_up = clock::now() + READY;
        let mut pause = LOOK_FIRST;
        while !self.far.listens()? {
            if let Some(code) = far.ended()?
                && (code != 0 || members(&self.inodes[1..]).is_empty())
            {
                return Err(WanError::FarEnded { command: line.to_owned(), code });
            }
            if clock::now() >= give_up {
                return Err(WanError::FarSilent(line.to_owned()));
            }
            if wait_for([signals.as_fd()], Some(pause))?[0] && signals.came() {
                return Err(WanError::Interrupted);
            }
            pause = LOOK_LAST.min(pause * 2);
        }
        Ok(far)
    }

    /// Waits until a command has ended by itself; on a signal to us it is told to, and the run is over. `None` if the
    /// emulator ended before it.
    fn wait_for(
        &self,
        command: &mut Running,
        signals: &EndSignals,
        emulator: &Emulator,
    ) -> Result<Option<u8>, WanError> {
        loop {
            if let Some(code) = command.ended()? {
                return Ok(Some(code));
            }
            let [_, signalled, stopped] =
                wait_for([command.as_fd(), signals.as_fd(), emulator.as_fd()], None)?;
            if signalled && signals.came() {
                signal(command.pid(), Signal::Terminate);
                self.wait_at_most(command, GRACE)?;
                return Err(WanError::Interrupted);
            }
            if stopped {
                return Ok(None);
            }
        }
    }

    /// Ends the far command and everything it started: SIGTERM, five seconds later SIGKILL.
    ///
    /// What the shell started is asked first, so that the shell reports how it ended. A shell that then goes on
    /// with something else is asked a second later. What has left the shell may take its time too: a target
    /// writes its tables last.
    fn stop(
        &self,
        far: &mut Running,
        signals: &EndSignals,
        emulator: &Emulator,
    ) -> Result<Option<u8>, WanError> {
        let inside = &self.inodes[1..];
        let give_up = clock::now() + GRACE;
        let (shell, mut others) = (far.pid(), members(inside));
        others.retain(|pid| *pid != shell);
        others.iter().for_each(|pid| signal(*pid, Signal::Terminate));
        let patience = if others.is_empty() { Duration::ZERO } else { SHELL_GRACE };
        if self.wait_at_most(far, patience)?.is_none() {
            signal(shell, Signal::Terminate);
            self.wait_at_most(far, give_up.since(clock::now()))?;
        }
        while !members(inside).is_empty() && clock::now() < give_up {
            if wait_for([signals.as_fd()], Some(LOOK_FIRST))?[0] && signals.came() {
                return Err(WanError::Interrupted);
            }
        }
        kill_all(inside);
        self.wait_for(far, signals, emulator)
    }

    fn wait_at_most(&self, command: &mut Running, limit: Duration) -> Result<Option<u8>, WanError> {
        let give_up = clock::now() + limit;
        loop {
            let ended = command.ended()?;
            let left = give_up.since(clock::now());
            if ended.is_some() || left.is_zero() {
                return Ok(ended);
            }
            wait_for([command.as_fd()], Some(left))?;
        }
    }

    fn outcome(
        &self,
        spec: &Spec,
        validity: Validity,
        (near, far): (Role, Option<Role>),
        emulator: Cost,
    ) -> Outcome {
        let path = PathShown::of(spec);
        Outcome { path, validity, near, far, emulator, sysctls: self.near.sysctls.clone() }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        kill_all(&self.inodes);
    }
}

fn wait_for<const N: usize>(
    descriptors: [std::os::fd::BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> Result<[bool; N], WanError> {
    let failed = |source| WanError::System { what: "wait for the commands", source };
    wait::readable(descriptors, timeout).map_err(failed)
}
