//! Where parallelism stops between our own end and one that others wrote, whose layers are not seen: tgt behind our
//! initiator, our target behind libiscsi. Requests are counted, so that a busy machine changes nothing that is asserted.

use std::path::Path;
use std::time::Duration;

use analysis::Span;
use analysis::layers::{Question, Stack};
use e2e::path::{self, FAR};
use e2e::{farlun, farlun_path, need, run, skip, tgtd};
use event::Layers;
use store::tables;

const LIMIT: Duration = Duration::from_secs(60);
const IQN: &str = "iqn.2026-11.io.farlun:layers";
const OUTSTANDING: u32 = 160;

/// Runs `near` over 4 ms each way; shell commands, with `farlun` as its path.
#[track_caller]
fn over_the_path(far: &str, near: &str) {
    let program = farlun_path().to_str().expect("a path of plain characters");
    let _turn = path::turn();
    let mut command = farlun(["wan", "--json", "--validity", "off", "--delay", "4ms"]);
    command.args([
        "--far",
        &format!("exec {}", far.replace("farlun target", &format!("{program} target"))),
        "--",
    ]);
    command.args(["sh", "-ec", &near.replace("farlun bench", &format!("{program} bench"))]);
    run(&mut command, LIMIT).expect_code(0);
}

/// What the tables of `cell` say of all the time that they are of.
fn stack(cell: &Path) -> Stack {
    let rows = tables::read::<Layers>(cell).expect("layers");
    let times = |list: &[u64]| list.iter().copied().filter(|t| *t != 0).collect::<Vec<u64>>();
    let all = [times(&rows.called_t_ns), times(&rows.received_t_ns), times(&rows.completed_t_ns)].concat();
    let window = Span {
        start_ns: all.iter().copied().min().expect("some request"),
        end_ns: all.iter().copied().max().expect("some request"),
    };
    let question = Question { origin_ns: window.start_ns, window, points: 100, requests: 0, request: None };
    Stack::collect(&[cell.to_owned()], question).expect("tables").expect("layers")
}

#[test]
fn tgt_grants_129_commands_that_it_has_not_received_however_many_are_open() {
    need!(path::available(), tgtd::available());
    let cell = tempfile::tempdir().expect("a folder");
    let disk = cell.path().join("disk");
    let file = std::fs::File::create(&disk).expect("a file");
    file.set_len(16 << 20).expect("room for it");
    // tgtd takes a signed 16-bit control port.
    let control = (std::process::id() % 32_767 + 1).to_string();
    let bench = format!(
        "farlun bench iscsi://{FAR}/{}/1 --json --op read --random --block 1KiB --depth {OUTSTANDING} --time 1s \
         --trace {}",
        tgtd::IQN,
        cell.path().display()
    );
    over_the_path(
        &format!("tgtd -f -C {control} --iscsi portal={FAR}:3260"),
        &format!("{}{bench}", tgtd::configuration(&control, &disk)),
    );
    for suffix in ["", ".lock"] {
        let _ = std::fs::remove_file(format!("/var/run/tgtd/socket.{control}{suffix}"));
    }
    let stack = stack(cell.path());
    let inside = |layer: &str| stack.in_flight_max(layer);
    let outstanding = Some(f64::from(OUTSTANDING));
    assert_eq!((inside("call"), inside("scsi"), inside("queued")), (outstanding, outstanding, outstanding));
    // MaxCmdSN is ExpCmdSN + MaxQueueCmds, so 129 commands, and moves on with what tgt received, not with what it
    // answered: 129 go out before it has said anything, and all 160 may be open later. So the gate opens and closes, and
    // is none by the most that is inside.
    let rows = tables::read::<Layers>(cell.path()).expect("layers");
    let first_status_ns = rows.status_t_ns.iter().copied().filter(|t| *t != 0).min().expect("an answer");
    let first = rows.granted_t_ns.iter().filter(|t| (1..first_status_ns).contains(*t)).count();
    assert_eq!(first, 129, "before the first answer");
    assert_eq!(inside("granted"), outstanding);
    assert_eq!(stack.gate, None);
    assert_eq!(inside("received"), None, "nobody sees the inside of tgt");
}

#[test]
fn libiscsi_fills_the_window_of_our_target_and_no_more() {
    need!(path::available(), skip::program("iscsi-perf"));
    let cell = tempfile::tempdir().expect("a folder");
    // The store takes longer than the burst of a window, so that all of it is inside at once.
    over_the_path(
        &format!(
            "farlun target --insecure --lun memory:64MiB,delay=read:50ms --iqn {IQN} --listen {FAR}:3260 \
             --window 100 --trace {}",
            cell.path().display()
        ),
        &format!("iscsi-perf -m {OUTSTANDING} -b 2 -r -t 1 -x 0 iscsi://{FAR}/{IQN}/0 >/dev/null"),
    );
    let stack = stack(cell.path());
    for layer in ["received", "parsed", "executed"] {
        assert_eq!(stack.in_flight_max(layer), Some(100.0), "{layer}");
    }
    assert_eq!(stack.in_flight_max("granted"), None, "nobody sees the inside of libiscsi");
    assert_eq!(stack.gate, None, "the target holds back nothing that it received");
}
