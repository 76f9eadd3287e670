//! All hosts of a run and the commands on them: started and ended together, without leftovers.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use event::Instant;
use net::child::{Signal, signal};
use net::namespace::members;
use net::namespace::pid::Nursery;
use net::{EndSignals, Namespace, clock, wait};

use super::role::{Role, Running};
use crate::namespaces::Host;
use crate::namespaces::guard::{Guard, kill_all};
use crate::{Side, Spec, WanError};

/// Timeout until a far command listens.
const READY: Duration = Duration::from_secs(10);
/// First and longest interval between checks for a listener: the kernel scans its whole socket table each time.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_LAST: Duration = Duration::from_millis(100);
/// Time from SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// Time for the children of a shell before the shell gets a SIGTERM of its own.
const SHELL_GRACE: Duration = Duration::from_secs(1);

/// The hosts, and the guard and parent process that clean them up. Dropped, it leaves no process in them.
pub(crate) struct Site {
    pub(crate) near: Vec<Arc<Host>>,
    pub(crate) far: Vec<Arc<Host>>,
    /// Inodes of the namespaces that were made for the run.
    inodes: Vec<u64>,
    guard: Option<Guard>,
    /// The parent of all commands.
    nursery: Nursery,
}

/// A command on its host.
pub(crate) struct HostCommand {
    host: Arc<Host>,
    running: Running,
    asked_to_end: bool,
}

impl Site {
    /// Makes the hosts; `program` is this one, to start the guard with.
    pub(crate) fn new(spec: &Spec, program: Option<&Path>) -> Result<Site, WanError> {
        let made = |side| -> Result<Vec<Arc<Host>>, WanError> {
            let make = |name| match side == Side::Far && spec.far_is_here {
                true => Host::here(spec),
                false => Host::create(name, spec),
            };
            spec.hosts(side).map(|name| make(name).map(Arc::new)).collect()
        };
        let (near, far) = (made(Side::Near)?, made(Side::Far)?);
        let failed = |source| WanError::System { what: "start the guard that cleans up", source };
        let own = near.iter().chain(&far).filter(|host| host.own).map(|host| &host.namespace);
        let inodes = own.clone().map(Namespace::inode).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let own: Vec<&Namespace> = own.collect();
        let (guard, nursery) = match program {
            None => (None, Nursery::plain()),
            Some(program) => {
                let (guard, nursery) = Guard::start(program, &own).map_err(failed)?;
                (Some(guard), nursery)
            }
        };
        Ok(Site { near, far, inodes, guard, nursery })
    }

    /// All hosts, the near ones first.
    pub(crate) fn hosts(&self) -> Vec<Arc<Host>> {
        [&self.near[..], &self.far].concat()
    }

    /// Inode of the PID namespace of all commands, if they have one.
    pub(crate) fn pid_namespace(&self) -> Option<u64> {
        self.nursery.inside()
    }

    /// Kills all remaining processes on the hosts.
    pub(crate) fn clear(&self) {
        kill_all(&self.inodes);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.clear();
        // Before the namespaces are closed: their inode numbers may be reused. Where the guard is the init of a PID
        // namespace, processes that left their host end with it.
        self.guard = None;
    }
}

impl HostCommand {
    /// Starts COMMAND.
    pub(crate) fn command(
        site: &Site,
        spec: &Spec,
        host: &Arc<Host>,
        words: &[OsString],
        keep: bool,
    ) -> Result<HostCommand, WanError> {
        let running = Running::command(&site.nursery, spec, host, words, keep)?;
        Ok(HostCommand { host: host.clone(), running, asked_to_end: false })
    }

    /// Starts a command with a shell.
    pub(crate) fn shell(
        site: &Site,
        spec: &Spec,
        host: &Arc<Host>,
        line: &str,
        keep: bool,
    ) -> Result<HostCommand, WanError> {
        let running = Running::shell(&site.nursery, spec, host, line, keep)?;
        Ok(HostCommand { host: host.clone(), running, asked_to_end: false })
    }

    /// Waits until a process of the host listens on TCP; `false` if `stopped` became readable before. A command that
    /// daemonises exits with 0, and its child may still come to listen.
    pub(crate) fn wait_until_it_listens(
        &mut self,
        signals: &EndSignals,
        stopped: BorrowedFd<'_>,
    ) -> Result<bool, WanError> {
        let give_up = clock::now() + READY;
        let mut pause = LOOK_FIRST;
        while !self.host.listens()? {
            if let Some(code) = self.ended()?
                && (code != 0 || self.inside()?.is_empty())
            {
                return Err(WanError::FarEnded { host: self.host.name, command: self.running.shown(), code });
            }
            if clock::now() >= give_up {
                return Err(WanError::FarSilent { host: self.host.name, command: self.running.shown() });
            }
            let [signalled, stopped] = readable([signals.as_fd(), stopped], Some(pause))?;
            if signalled && signals.came() {
                return Err(WanError::Interrupted);
            }
            if stopped {
                return Ok(false);
            }
            pause = LOOK_LAST.min(pause * 2);
        }
        Ok(true)
    }

    /// The exit code, if the command has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<u8>, WanError> {
        self.running.ended()
    }

    /// Waits until the command has ended by itself. A signal to this process ends the command and the run. `None` if
    /// `stopped` became readable before.
    pub(crate) fn wait(
        &mut self,
        signals: &EndSignals,
        stopped: BorrowedFd<'_>,
    ) -> Result<Option<u8>, WanError> {
        loop {
            if let Some(code) = self.ended()? {
                return Ok(Some(code));
            }
            let [_, signalled, stopped] = readable([self.running.as_fd(), signals.as_fd(), stopped], None)?;
            if signalled && signals.came() {
                signal(self.running.pid(), Signal::Terminate);
                self.wait_until(clock::now() + GRACE)?;
                return Err(WanError::Interrupted);
            }
            if stopped {
                return Ok(None);
            }
        }
    }

    /// Waits until all commands have ended by themselves, at most until `give_up`.
    pub(crate) fn wait_for_all(
        commands: &mut [HostCommand],
        give_up: Instant,
        signals: &EndSignals,
    ) -> Result<(), WanError> {
        for command in commands {
            while command.ended()?.is_none() && clock::now() < give_up {
                let left = give_up.since(clock::now());
                if readable([command.running.as_fd(), signals.as_fd()], Some(left))?[1] && signals.came() {
                    return Err(WanError::Interrupted);
                }
            }
        }
        Ok(())
    }

    /// Ends the commands and everything they started: SIGTERM, five seconds later SIGKILL.
    ///
    /// The children of a shell get SIGTERM first, so that the shell reports their exit code. A shell that then
    /// continues gets one a second later. Processes that left their shell have the same time: a target writes its
    /// tables last.
    pub(crate) fn stop_all(commands: &mut [HostCommand], signals: &EndSignals) -> Result<(), WanError> {
        let give_up = clock::now() + GRACE;
        let mut alone = Vec::new();
        for command in commands.iter_mut() {
            command.asked_to_end = command.ended()?.is_none();
            let mut others = command.inside()?;
            others.retain(|pid| *pid != command.running.pid());
            others.iter().for_each(|pid| signal(*pid, Signal::Terminate));
            alone.push(others.is_empty());
        }
        let shells_by = clock::now() + SHELL_GRACE;
        for (command, alone) in commands.iter_mut().zip(alone) {
            let patience = if alone { clock::now() } else { shells_by };
            if command.wait_until(patience)?.is_none() {
                signal(command.running.pid(), Signal::Terminate);
            }
        }
        for command in commands.iter_mut() {
            command.wait_until(give_up)?;
            while !command.inside()?.is_empty() && clock::now() < give_up {
                if readable([signals.as_fd()], Some(LOOK_FIRST))?[0] && signals.came() {
                    return Err(WanError::Interrupted);
                }
            }
            kill_all(&[command.inode()?]);
            // It may have left its host.
            if command.ended()?.is_none() {
                signal(command.running.pid(), Signal::Kill);
            }
            while command.ended()?.is_none() {
                if readable([command.running.as_fd(), signals.as_fd()], None)?[1] && signals.came() {
                    return Err(WanError::Interrupted);
                }
            }
        }
        Ok(())
    }

    /// Result of the command, which has ended.
    pub(crate) fn into_role(self) -> Role {
        self.running.into_role(self.asked_to_end)
    }

    fn wait_until(&mut self, give_up: Instant) -> Result<Option<u8>, WanError> {
        loop {
            let ended = self.ended()?;
            let left = give_up.since(clock::now());
            if ended.is_some() || left.is_zero() {
                return Ok(ended);
            }
            readable([self.running.as_fd()], Some(left))?;
        }
    }

    /// The processes on its host, which is never this machine: no command runs there.
    fn inside(&self) -> Result<Vec<u32>, WanError> {
        Ok(members(&[self.inode()?]))
    }

    fn inode(&self) -> Result<u64, WanError> {
        let failed = |source| WanError::System { what: "look at a namespace", source };
        self.host.namespace.inode().map_err(failed)
    }
}

/// Waits for `time`; a signal interrupts it.
pub(crate) fn rest(time: Duration, signals: &EndSignals) -> Result<(), WanError> {
    match readable([signals.as_fd()], Some(time))?[0] && signals.came() {
        true => Err(WanError::Interrupted),
        false => Ok(()),
    }
}

fn readable<const N: usize>(
    descriptors: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> Result<[bool; N], WanError> {
    let failed = |source| WanError::System { what: "wait for the commands", source };
    wait::readable(descriptors, timeout).map_err(failed)
}
