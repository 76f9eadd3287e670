//! Guard: a process that cleans up when the runner is killed.
//!
//! The kernel ends the runner's own children with it; their descendants (daemons, shells in the background) would
//! live on, and the namespaces with them. A guard waits for the end of the pipe to the runner. It runs `farlun wan
//! guard`.
//!
//! If possible it is the init of a PID namespace in which all commands run, so that the kernel ends them with it,
//! even if runner and guard are killed at the same moment. Elsewhere it kills all processes in the run's network
//! namespaces. It finds them by the namespace's inode number, which the kernel reuses once a namespace is gone: so
//! the guard holds the namespaces open until it has ended.

use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use net::Namespace;
use net::child::{Signal, signal};
use net::namespace::members;
use net::namespace::pid::{self, Nursery};

/// PID of the init of a PID namespace.
pub(crate) const INIT: u32 = 1;
/// Answer of the guard when it holds the namespaces.
const HELD: &[u8] = b"held\n";

/// A guard that runs. Dropped, it cleans up and ends.
pub(crate) struct Guard {
    process: Child,
    line: Option<ChildStdin>,
}

impl Guard {
    /// Starts `program wan guard` for these namespaces, in a process group that a Ctrl-C at the terminal does not
    /// reach, and waits until it holds them. Returns it with the parent of commands that end with it.
    pub(crate) fn start(program: &Path, namespaces: &[&Namespace]) -> io::Result<(Guard, Nursery)> {
        let descriptors = namespaces.iter().map(|namespace| namespace.descriptor()).collect();
        // Many containers allow network namespaces and no mounts.
        if let Ok((nursery, process)) = Nursery::with_init(command(program), descriptors)
            && let Ok(guard) = Guard::held(process, &[])
        {
            return Ok((guard, nursery));
        }
        let own = std::process::id();
        let place = |namespace: &&Namespace| format!("/proc/{own}/fd/{}", namespace.descriptor());
        let places: Vec<String> = namespaces.iter().map(place).collect();
        Ok((Guard::held(command(program).spawn()?, &places)?, Nursery::plain()))
    }

    /// Sends a guard the paths of namespaces that it has not inherited, and waits until it holds them.
    fn held(mut process: Child, places: &[String]) -> io::Result<Guard> {
        let (line, answer) = (process.stdin.take(), process.stdout.take());
        let guard = Guard { process, line };
        let mut line = guard.line.as_ref().expect("stdin is a pipe");
        writeln!(line, "{}", places.join(" "))?;
        answer.expect("stdout is a pipe").read_exact(&mut [0; HELD.len()])?;
        Ok(guard)
    }
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["wan", "guard"]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    command
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.line = None;
        let _ = self.process.wait();
    }
}

/// Runs `farlun wan guard`: reads where namespaces are, holds them, waits for the end of its input, cleans up.
pub fn stand() -> io::Result<()> {
    let is_init = std::process::id() == INIT;
    if is_init {
        pid::collect_all();
    }
    let mut input = io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line)?;
    let open = |place: &str| Namespace::open(Path::new(place));
    let namespaces = line.split_whitespace().map(open).collect::<io::Result<Vec<_>>>()?;
    let inodes = namespaces.iter().map(Namespace::inode).collect::<io::Result<Vec<_>>>()?;
    let mut output = io::stdout();
    output.write_all(HELD)?;
    output.flush()?;
    // Nothing more comes: the end of the input is that of the runner.
    io::copy(&mut input, &mut io::sink())?;
    if !is_init {
        kill_all(&inodes);
    }
    Ok(())
}

/// Kills every process in `namespaces` until none is left; a process may start others meanwhile.
pub(crate) fn kill_all(namespaces: &[u64]) {
    for _ in 0..500 {
        let left = members(namespaces);
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|pid| signal(*pid, Signal::Kill));
        thread::sleep(Duration::from_millis(10));
    }
}
