//! A guest: Debian's kernel, emulated by QEMU in a network namespace of its own.
//!
//! The namespace has no name and ends with its last process. QEMU, and whatever a test starts in the namespace, is killed by the
//! kernel when the thread of the test ends, so that nothing is left behind even when the test process is killed.
//!
//! The program `xtask/src/guest/agent.sh` of the guest runs scripts that arrive at a virtio port.

pub(crate) mod capture;
pub(crate) mod site;

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::ours::Target;
use e2e::{Service, farlun, path, skip};
use tempfile::TempDir;

/// Longest time of a boot.
const BOOT: Duration = Duration::from_secs(120);
/// Longest time of a script or a program, unless a test says otherwise.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);
/// Lines of the console that an error shows: more than the trace of a kernel panic has.
const CONSOLE_LINES: usize = 80;
/// Ends a script on its way to the guest.
const RUN: &str = "--run--";
/// Begins the line with the exit code on the way back.
const DONE: &str = "--done-- ";
/// Begins the first line of the guest.
const READY: &str = "--ready-- ";

/// Name of our target, and of LIO.
pub(crate) const IQN: &str = "iqn.2026-11.io.farlun:guest";

/// Addresses of the host, one for each link.
pub(crate) const HOST: [&str; 2] = ["10.77.0.1", "10.77.1.1"];
/// Address of the guest on the first link.
pub(crate) const GUEST: &str = "10.77.0.2";

/// The kernel's command line. Checks that take seconds under emulation are left out; a panic ends QEMU.
const KERNEL_LINE: &str = "console=ttyS0 panic=-1 mitigations=off nokaslr quiet loglevel=5 net.ifnames=0 random.trust_cpu=on \
    audit=0 apparmor=0 selinux=0 no_timer_check tsc=reliable cryptomgr.notests rcupdate.rcu_expedited=1";

/// An error with the reason where guests cannot run.
pub(crate) fn available() -> Result<(), String> {
    if std::env::var_os("FARLUN_GUEST").is_none() {
        return Err("FARLUN_GUEST names no image: `cargo xtask guest` makes one".to_owned());
    }
    for program in ["qemu-system-x86_64", "ip", "nsenter", "setpriv", "unshare"] {
        skip::program(program)?;
    }
    path::available()
}

/// A script that came to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    /// Standard output and standard error.
    pub(crate) output: String,
}

/// A running guest.
pub(crate) struct Machine {
    qemu: Service,
    /// Console, disk changes and files of the test.
    folder: TempDir,
    port: BufReader<UnixStream>,
}

impl Machine {
    /// Boots a guest with a link to the host.
    #[track_caller]
    pub(crate) fn boot() -> Machine {
        Machine::boot_with(1)
    }

    /// Boots a guest with so many links to the host.
    #[track_caller]
    pub(crate) fn boot_with(links: usize) -> Machine {
        let began = Instant::now();
        let image = PathBuf::from(std::env::var_os("FARLUN_GUEST").expect("`available` was asked"));
        let folder = tempfile::Builder::new().prefix("farlun-guest-").tempdir().expect("a temporary folder");
        let socket = folder.path().join("port");
        let listener = UnixListener::bind(&socket).expect("a socket for the guest");
        let mut command = Command::new("unshare");
        command.args(["--net", "setpriv", "--pdeathsig", "KILL", "sh", "-c", &script(links), "sh"]);
        command.args(arguments(&image, folder.path(), links)).env("TMPDIR", folder.path());
        let mut qemu = Service::start(&mut command);
        let stream = accepted(&listener, &mut qemu);
        let mut machine = Machine { qemu, folder, port: BufReader::new(stream) };
        let ready = machine.line(began + BOOT, "the guest does not boot");
        let ready =
            ready.strip_prefix(READY).unwrap_or_else(|| machine.fail(&format!("unexpected: {ready}")));
        println!("guest: up after {:.1} s; uptime and kernel {ready}", began.elapsed().as_secs_f64());
        machine
    }

    /// Runs a shell script in the guest; panics with its output unless it ends with 0. What it printed.
    #[track_caller]
    pub(crate) fn run(&mut self, script: &str) -> String {
        let answer = self.try_run(script);
        assert_eq!(answer.code, 0, "in the guest: {script}\n{}\n{}", answer.output, self.console());
        answer.output
    }

    /// Runs a shell script in the guest to its end, whatever that is.
    #[track_caller]
    pub(crate) fn try_run(&mut self, script: &str) -> Answer {
        let request = format!("{}\n{RUN}\n", script.trim());
        if let Err(error) = self.port.get_mut().write_all(request.as_bytes()) {
            self.fail(&format!("the guest takes no script: {error}"));
        }
        let deadline = Instant::now() + LIMIT;
        let mut output = Vec::new();
        loop {
            let line = self.line(deadline, &format!("the guest does not end: {script}"));
            if let Some(code) = line.strip_prefix(DONE) {
                let code = code.parse().expect("an exit code");
                return Answer { code, output: output.join("\n").trim_end().to_owned() };
            }
            output.push(line);
        }
    }

    /// Starts a shell script in the guest, which goes on by itself.
    #[track_caller]
    pub(crate) fn start(&mut self, name: &str, script: &str) {
        let whole = format!("cat >/run/{name} <<'END-OF-SCRIPT'\n{script}\nEND-OF-SCRIPT\n");
        self.run(&format!(
            "{whole}rm -f /run/{name}.code\n\
             (sh /run/{name}; echo $? >/run/{name}.new; mv /run/{name}.new /run/{name}.code) >/run/{name}.said 2>&1 &"
        ));
    }

    /// Waits for the end of a started script; panics with its output unless it ended with 0. What it printed.
    #[track_caller]
    pub(crate) fn finish(&mut self, name: &str) -> String {
        self.wait_for(&format!("[ -e /run/{name}.code ]"));
        self.run(&format!("cat /run/{name}.said; exit $(cat /run/{name}.code)"))
    }

    /// Waits until a condition of the shell holds in the guest.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, condition: &str) {
        let seconds = LIMIT.as_secs() - 10;
        self.run(&format!(
            "end=$(($(date +%s) + {seconds}))\n\
             until {condition}; do [ $(date +%s) -lt $end ] || {{ echo 'waited in vain: {}'; tail -n 5 /run/*.said; exit 1; }}; sleep 0.1; done",
            condition.replace('\'', "")
        ));
    }

    /// `command` in the guest's network, ended with the thread that starts it.
    pub(crate) fn near(&self, command: &Command) -> Command {
        let mut near = Command::new("nsenter");
        near.arg(format!("--net=/proc/{}/ns/net", self.process())).args(["setpriv", "--pdeathsig", "KILL"]);
        near.arg(command.get_program()).args(command.get_args());
        near.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        near
    }

    /// Takes a link down or up, as the host sees it.
    #[track_caller]
    pub(crate) fn set_link(&self, link: usize, state: &str) {
        let mut command = Command::new("ip");
        let command = command.args(["link", "set", &format!("tap{link}"), state]);
        e2e::process::output(&mut self.near(command));
    }

    /// `farlun` in the guest's network.
    pub(crate) fn farlun<const N: usize>(&self, arguments: [&str; N]) -> Command {
        self.near(&farlun(arguments))
    }

    /// Our target at the first address of the host, open to everybody unless `flags` say otherwise.
    #[track_caller]
    pub(crate) fn serve<const N: usize>(&self, flags: [&str; N]) -> Target {
        let mut command = farlun(["target", "--json", "--iqn", IQN, "--listen"]);
        command.arg(format!("{}:3260", HOST[0])).args(flags);
        Target::start(&mut self.near(&command))
    }

    /// A file of so many MiB for a LUN.
    #[track_caller]
    pub(crate) fn disk(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.folder.path().join(name);
        let file = std::fs::File::create(&path).expect("a file for the LUN");
        file.set_len(mib << 20).expect("room for the LUN");
        path
    }

    /// Folder for files of the test.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Panics with the console's last lines if the guest has ended, as it does with a panic of its kernel.
    #[track_caller]
    pub(crate) fn expect_running(&mut self) {
        if !self.qemu.alive() {
            self.fail("the guest has ended");
        }
    }

    /// Process id of QEMU.
    pub(crate) fn process(&self) -> u32 {
        self.qemu.id()
    }

    /// The last lines of the console.
    pub(crate) fn console(&self) -> String {
        let bytes = std::fs::read(self.folder.path().join("console")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(CONSOLE_LINES)..];
        format!("-- the guest's console:\n{}", last.join("\n"))
    }

    /// The next line of the guest.
    #[track_caller]
    fn line(&mut self, deadline: Instant, complaint: &str) -> String {
        let mut line = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.port.get_ref().set_read_timeout(Some(left)).expect("a socket takes a timeout");
            match self.port.read_until(b'\n', &mut line) {
                Ok(0) => self.fail("the guest has ended"),
                Ok(_) if line.ends_with(b"\n") => {
                    return String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.fail(&format!("{complaint} ({error})")),
            }
        }
    }

    #[track_caller]
    fn fail(&self, complaint: &str) -> ! {
        panic!("{complaint}\n{}\n-- QEMU: {}", self.console(), self.qemu.stderr())
    }
}

/// Makes the TAP devices, then becomes QEMU.
fn script(links: usize) -> String {
    let mut script = "set -e\nip link set lo up\n".to_owned();
    for (link, address) in HOST.iter().enumerate().take(links) {
        script.push_str(&format!(
            "ip tuntap add tap{link} mode tap\nip address add {address}/24 dev tap{link}\nip link set tap{link} up\n"
        ));
    }
    script + "exec qemu-system-x86_64 \"$@\""
}

fn arguments(image: &Path, folder: &Path, links: usize) -> Vec<String> {
    let image = image.display();
    let folder = folder.display();
    let mut arguments: Vec<String> = [
        "-M q35 -accel tcg,thread=multi,tb-size=256 -cpu qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+rdrand -m 512 -smp 1",
        "-nodefaults -no-user-config -display none -monitor none -no-reboot",
        "-device virtio-rng-pci -device virtio-serial-pci -device virtserialport,chardev=port,name=port",
    ]
    .iter()
    .flat_map(|line| line.split(' ').map(str::to_owned))
    .collect();
    let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    add("-kernel", format!("{image}/kernel"));
    add("-initrd", format!("{image}/initramfs"));
    add("-append", KERNEL_LINE.to_owned());
    add("-serial", format!("file:{folder}/console"));
    add("-chardev", format!("socket,id=port,path={folder}/port"));
    // Changes go to an unnamed file.
    add("-drive", format!("file={image}/root.img,format=raw,if=virtio,snapshot=on"));
    for link in 0..links {
        add("-netdev", format!("tap,id=link{link},ifname=tap{link},script=no,downscript=no"));
        add("-device", format!("virtio-net-pci,netdev=link{link},mac=52:54:00:77:00:0{link}"));
    }
    arguments
}

/// QEMU's connection for the port.
#[track_caller]
fn accepted(listener: &UnixListener, qemu: &mut Service) -> UnixStream {
    listener.set_nonblocking(true).expect("a socket can be polled");
    let mut stream = None;
    e2e::until("QEMU connects", BOOT, || {
        assert!(qemu.alive(), "QEMU has ended: {}", qemu.stderr());
        stream = listener.accept().ok();
        stream.is_some()
    });
    let (stream, _) = stream.expect("it has connected");
    stream.set_nonblocking(false).expect("a socket can wait");
    stream
}
