//! Commands run over the emulated path, `farlun wan`: one script far away, one near.

use std::fs;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;

use crate::{farlun, farlun_path, run, skip};

/// The address of the far end, fixed by `farlun wan`.
pub const FAR: &str = "198.18.0.2";

/// For a host of a path that loses nothing: its TCP sends nothing again because the machine was slow. There are no tail
/// probes, and no stall outlasts a timeout.
pub const PATIENT_TCP: &str = "sysctl -qw net.ipv4.tcp_early_retrans=0\n\
    ip -4 route show dev wan0 | while read -r route; do ip -4 route change $route dev wan0 rto_min 30s; done\n";

/// How long it may take to find out what this machine can do.
const PROBE: Duration = Duration::from_secs(60);

/// Paths that measure time or rates would disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Whether this machine can have an emulated path.
pub fn available() -> Result<(), String> {
    skip::root()?;
    skip::program("unshare")?;
    let mut namespace = Command::new("unshare");
    let made = run(namespace.args(["--net", "true"]), PROBE);
    if made.code == 0 {
        Ok(())
    } else {
        Err(format!("no network namespace can be made: {}", made.stderr.trim()))
    }
}

/// Waits until no other measuring path of this process runs; none will until the guard is dropped.
pub fn turn() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A command that runs `program` as a user who is nobody in particular.
pub fn as_nobody(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", program]);
    command.current_dir("/").env_remove("XDG_RUNTIME_DIR");
    command
}

/// Whether such a user can have a path here too.
pub fn available_to_nobody() -> Result<(), String> {
    skip::program("setpriv")?;
    let mut namespaces = as_nobody("unshare");
    let made = run(namespaces.args(["--user", "--map-root-user", "--net", "true"]), PROBE);
    if made.code != 0 {
        return Err(format!("users can make no namespaces: {}", made.stderr.trim()));
    }
    if run(as_nobody("test").arg("-x").arg(farlun_path()), PROBE).code != 0 {
        return Err(format!("{} is closed to other users", farlun_path().display()));
    }
    Ok(())
}

/// Like [`as_nobody`], where there is no /dev/net/tun either.
pub fn as_nobody_without_tun(program: &str) -> Command {
    let nobody = as_nobody(program);
    let mut command = Command::new("unshare");
    // The mount is seen by nobody else and goes with the command.
    command.args(["--mount", "sh", "-c", "mount -t tmpfs none /dev/net && exec \"$0\" \"$@\""]);
    command.arg(nobody.get_program()).args(nobody.get_args());
    command.current_dir("/").env_remove("XDG_RUNTIME_DIR");
    command
}

/// Whether that can be had here.
pub fn available_without_tun() -> Result<(), String> {
    available()?;
    available_to_nobody()?;
    let hidden = run(as_nobody_without_tun("test").args(["!", "-e", "/dev/net/tun"]), PROBE);
    if hidden.code == 0 { Ok(()) } else { Err(format!("nothing can be mounted: {}", hidden.stderr.trim())) }
}

/// The run may yield figures, as its document says. Otherwise the machine was too busy, and the reason is the error; the
/// exit code of `farlun wan` is that of COMMAND all the same.
///
/// # Panics
/// Where the document has no validity.
pub fn validity(document: &Value) -> Result<(), String> {
    let validity = &document["validity"];
    if validity["ok"].as_bool().unwrap_or_else(|| panic!("no validity: {document}")) {
        return Ok(());
    }
    Err(format!("the run was not valid: {}", validity["reasons"]))
}

/// The emulator was always there in time to read its devices. Where it was not, they may have overflowed, which
/// `dropped_unasked` counts.
pub fn kept_up(document: &Value) -> Result<(), String> {
    const LATE_MAX_NS: u64 = 10_000_000;
    match document["validity"]["lateness_ns"]["max"].as_u64() {
        Some(late_ns) if late_ns <= LATE_MAX_NS => Ok(()),
        late_ns => Err(format!("the emulator was late by {late_ns:?} ns")),
    }
}

/// Every cell of a lab's document has a valid run; the error names the others, or says why the lab has stopped.
pub fn all_valid(document: &Value) -> Result<(), String> {
    if let Some(reason) = document["stopped"].as_str() {
        return Err(reason.to_owned());
    }
    match document["invalid"].as_array() {
        Some(cells) if !cells.is_empty() => {
            Err(format!("cells without a valid run: {}", document["invalid"]))
        }
        _ => Ok(()),
    }
}

/// [`over`] 1 Gb/s with 8 ms one way.
#[track_caller]
pub fn over_8ms(far: &str, near: &str, limit: Duration) -> Value {
    over(["--delay", "8ms", "--rate", "1gbit"], far, near, limit)
}

/// Runs two shell scripts over a path; the document that `farlun wan` prints.
///
/// Panics unless the near script ends with 0. Runs that measure something hold [`turn`] and look at [`validity`].
#[track_caller]
pub fn over<const N: usize>(path: [&str; N], far: &str, near: &str, limit: Duration) -> Value {
    let scripts = tempfile::Builder::new().prefix("farlun-path-").tempdir().expect("a temporary folder");
    let [far_script, near_script] = [("far.sh", far), ("near.sh", near)].map(|(name, text)| {
        let script = scripts.path().join(name);
        fs::write(&script, format!("set -eu\n{text}\n")).expect("a script");
        script.to_str().expect("a path of plain characters").to_owned()
    });
    let far_command = format!("sh {far_script}");
    let mut command = farlun(["wan", "--json", "--far", &far_command]);
    let finished = run(command.args(path).args(["--", "sh", &near_script]), limit);
    assert_eq!(finished.code, 0, "the near script failed\n{finished:#?}");
    finished.json()
}

/// A command of a path that stops and continues its runner. Commands see no process outside of their PID namespace, so a
/// shell that becomes the runner leaves a process behind that signals it.
pub struct Stoppable {
    folder: tempfile::TempDir,
}

impl Stoppable {
    /// The pipes between command and runner.
    pub fn new() -> Stoppable {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["signal", "done"] {
            crate::process::output(Command::new("mkfifo").arg(folder.path().join(name)));
        }
        Stoppable { folder }
    }

    /// Shell words that send the runner a signal, and go on when that was sent.
    pub fn send(&self, signal: &str) -> String {
        let folder = self.folder.path().display();
        // A runner that is gone answers nothing: the words fail then.
        let limit_s = PROBE.as_secs();
        format!(
            "timeout {limit_s} sh -c 'echo {signal} >{folder}/signal; head -n 1 <>{folder}/done >/dev/null'"
        )
    }

    /// `runner`, as a command that obeys.
    pub fn runner(&self, runner: &Command) -> Command {
        let folder = self.folder.path().display();
        let script = format!(
            "while kill -0 $$ 2>&-; do\n\
             if read -t 1 -r signal <>{folder}/signal; then kill -$signal $$; echo >{folder}/done; fi\n\
             done &\n\
             exec \"$0\" \"$@\""
        );
        let mut command = Command::new("bash");
        command.args(["-c", &script]).arg(runner.get_program()).args(runner.get_args());
        command
    }
}

impl Default for Stoppable {
    fn default() -> Self {
        Self::new()
    }
}
