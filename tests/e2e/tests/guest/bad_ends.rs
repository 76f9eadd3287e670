//! A guest that fails: its console is shown, and nothing of it is left.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use e2e::need;

use crate::machine::{self, Machine};

#[test]
fn a_panic_shows_the_console_and_leaves_nothing() {
    need!(machine::available());
    let mut machine = Machine::boot();
    let process = PathBuf::from(format!("/proc/{}", machine.process()));
    let folder = machine.folder().to_owned();
    let panic = "echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger";
    let failure = catch_unwind(AssertUnwindSafe(|| machine.run(panic))).expect_err("no answer comes");
    let text = failure.downcast_ref::<String>().expect("a message");
    assert!(text.contains("the guest has ended") && text.contains("Kernel panic"), "{text}");
    drop(machine);
    assert!(!process.exists(), "{} still runs", process.display());
    assert!(!folder.exists(), "{} is still there", folder.display());
}
