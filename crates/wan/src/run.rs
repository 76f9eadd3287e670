//! A whole run: make the hosts and the path, start the far commands, run COMMAND and its companions, clean up, judge.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use net::{EndSignals, clock};
use serde::Serialize;

use crate::commands::{self, HostCommand, Role, Site};
use crate::emulator::Emulator;
use crate::forwarding::{Cost, Taps};
use crate::recording::{KernelTrace, KernelTraced};
use crate::registry::Registered;
use crate::spec::PathShown;
use crate::validity::{Class, Validity, judge};
use crate::{Spec, WanError};

/// Time for the other near commands to end by themselves after COMMAND: those with the same work over the same line
/// end at about the same time.
const COMPANION_GRACE: Duration = Duration::from_secs(5);
/// Lifetime of a path to this machine beyond a round trip, so that connections over it are closed at both ends.
const LINGER: Duration = Duration::from_millis(50);

/// Configuration of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The path.
    pub spec: Spec,
    /// COMMAND and its arguments.
    pub near: Vec<OsString>,
    /// The commands of near2, near3, … for a shell; as many as there are such hosts.
    pub others: Vec<String>,
    /// The commands of far, far2, … for a shell; none, or as many as there are far hosts.
    pub far: Vec<String>,
    /// Directory for the table `packets`; it exists.
    pub trace: Option<PathBuf>,
    /// Records the table `kernel` there too, which needs root.
    pub trace_kernel: bool,
    /// Keeps the last line of JSON that each command prints.
    pub keep_output: bool,
    /// Class of figures for which the run is judged.
    pub class: Class,
    /// This program, to start the guard with.
    pub program: Option<PathBuf>,
}

/// Result of a run, as `farlun wan --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The path.
    pub path: PathShown,
    /// Validity of figures of the run.
    pub validity: Validity,
    /// COMMAND.
    pub near: Role,
    /// The command of far.
    pub far: Option<Role>,
    /// The commands of the other hosts: near2, near3, …, far2, far3, …
    pub others: Vec<Role>,
    /// CPU time of the emulation.
    pub emulator: Cost,
    /// Extent of the recording of the kernel.
    pub kernel: Option<KernelTraced>,
    /// Kernel settings of near; all namespaces have the same.
    pub sysctls: BTreeMap<String, String>,
    /// Kernel settings of this machine, if it is the far end: none is changed.
    pub far_sysctls: Option<BTreeMap<String, String>>,
}

/// Runs COMMAND over a path. Call it while the process has one thread: it takes over SIGINT, SIGTERM and
/// SIGHUP, on which it ends all commands and cleans up. `taps` see every packet and are gone when the path is.
pub fn run(settings: &Settings, taps: Option<Taps>) -> Result<Outcome, WanError> {
    let failed = |source| WanError::System { what: "take over signals", source };
    let signals = EndSignals::take_over().map_err(failed)?;
    let (spec, keep) = (&settings.spec, settings.keep_output);
    spec.check()?;
    let site = Site::new(spec, settings.program.as_deref())?;
    let kernel = match &settings.trace {
        Some(dir) if settings.trace_kernel => Some(KernelTrace::start(spec, dir)?),
        _ => None,
    };
    let connections = kernel.as_ref().map(KernelTrace::connections);
    let mut emulator =
        Emulator::start(spec, &site.near, &site.far, settings.trace.as_deref(), connections, taps)?;
    let _registered = Registered::new(spec, &site)?;

    let mut far = Vec::new();
    for (host, line) in site.far.iter().zip(&settings.far) {
        far.push(HostCommand::shell(&site, spec, host, line, keep)?);
    }
    for command in &mut far {
        if !command.wait_until_it_listens(&signals, emulator.as_fd())? {
            return Err(emulator.finish().expect_err("only the run ends it"));
        }
    }
    emulator.begin()?;
    let mut near = HostCommand::command(&site, spec, &site.near[0], &settings.near, keep)?;
    let others = site.near[1..].iter().zip(&settings.others);
    let mut others = others
        .map(|(host, line)| HostCommand::shell(&site, spec, host, line, keep))
        .collect::<Result<Vec<_>, _>>()?;
    if near.wait(&signals, emulator.as_fd())?.is_none() {
        return Err(emulator.finish().expect_err("only the run ends it"));
    }
    HostCommand::wait_for_all(&mut others, clock::now() + COMPANION_GRACE, &signals)?;
    emulator.end()?;
    HostCommand::stop_all(&mut others, &signals)?;
    if spec.far_is_here {
        // Programs of this machine continue: the last packets of the near ones are still under way to them.
        commands::rest(spec.base_rtt() + LINGER, &signals)?;
    }
    HostCommand::stop_all(&mut far, &signals)?;
    site.clear();
    let emulated = emulator.finish()?;
    let kernel = kernel.map(KernelTrace::finish).transpose()?;

    let mut far: Vec<Role> = far.into_iter().map(HostCommand::into_role).collect();
    let farther = if far.is_empty() { Vec::new() } else { far.split_off(1) };
    Ok(Outcome {
        path: PathShown::of(spec, site.near[0].device.name()),
        validity: judge(settings.class, spec, &emulated),
        near: near.into_role(),
        far: far.pop(),
        others: others.into_iter().map(HostCommand::into_role).chain(farther).collect(),
        emulator: emulated.cost,
        kernel,
        sysctls: site.near[0].sysctls.clone(),
        far_sysctls: spec.far_is_here.then(|| site.far[0].sysctls.clone()),
    })
}
