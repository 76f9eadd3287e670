//! Somebody was to read what the target says, and has gone to sleep: it serves all the same.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::Command;

use e2e::ours::Target;
use e2e::{farlun_path, run};

use super::{MINUTE, command_before_login, expect_unharmed, login_with_odd_text, send_and_expect_close};
use crate::peers::raw_initiator::Session;

#[test]
fn nobody_reads_standard_error() {
    /// More than have lines.
    const STRANGERS: usize = 100;
    /// A pipe has room for 64 KiB, and takes no line when its last page is in use.
    const FILL_BYTES: usize = 60 << 10;
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("stderr");
    run(Command::new("mkfifo").arg(&pipe), MINUTE).expect_code(0);
    // Open for both, it waits for nobody and outlives whoever writes.
    let mut reader = OpenOptions::new().read(true).write(true).open(&pipe).expect("the pipe");
    let mut command = Command::new("sh");
    let line = "exec \"$0\" target --json --listen 127.0.0.1:0 --lun memory:1MiB 2>\"$1\"";
    let mut target = Target::start(command.args(["-c", line]).arg(farlun_path()).arg(&pipe));
    let mut bystander = Session::open(&target);
    reader.write_all(&vec![b'\n'; FILL_BYTES]).expect("there is room");
    for _ in 0..STRANGERS {
        send_and_expect_close(target.address(), &command_before_login());
    }
    expect_unharmed(&mut target, &mut bystander);
    // It wakes up, and is told how much it has missed.
    let mut said = vec![0; 48 << 10];
    reader.read_exact(&mut said).expect("what was said");
    // Lines of another kind have a bound of their own.
    send_and_expect_close(target.address(), &login_with_odd_text());
    let mut rest = String::new();
    while !rest.contains("lines are left out here") {
        let waits = net::wait::readable([reader.as_fd()], Some(MINUTE)).expect("it can be waited for");
        assert_eq!(waits, [true], "it is not told: {rest}");
        let mut more = [0; 4096];
        let found = reader.read(&mut more).expect("what was said");
        rest.push_str(&String::from_utf8_lossy(&more[..found]));
    }
    expect_unharmed(&mut target, &mut bystander);
}
