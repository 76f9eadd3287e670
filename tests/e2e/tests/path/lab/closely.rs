//! Plans whose loads are not all treated alike: one has tables of its own, and initiators of one do different things.
//! Figures are not this test's business: cells may be late on a busy machine, and leave their tables all the same.

use std::time::Duration;

use e2e::{farlun, need, path, run, skip};
use event::{CongestionState, Io, KernelEvent, KernelPoint};

const PLAN: &str = r#"
name = "closely"
title = "one load with the kernel's own account, and one whose initiators have numbers"
record = ["io"]

[path]
delay = "5ms"
rate = "500mbit"
ring = 80

[[lun]]
kind = "memory"
size = "64MiB"

[[load]]
name = "closely"
kind = "bench"
op = "read"
block = "1MiB"
depth = 1
policy = "none"
window = "2s"
record = ["kernel"]

[[load]]
name = "numbered"
kind = "command"
op = "read"
initiators = 2
window = "1s"
command = """
[ {number} = 2 ] && block=128KiB || block=64KiB
exec {farlun} bench iscsi://{host}:{port}/{iqn}/{lun} --json --block $block --depth 1 --time 300ms --trace {dir}"""

[[expect]]
name = "windows are cut"
value = "closely.cwr"
op = ">="
bound = 1

[[expect]]
name = "and for a full ring alone"
value = "closely.recoveries"
op = "<="
bound = 0
"#;

#[test]
fn loads_have_tables_of_their_own_and_initiators_numbers() {
    need!(path::available(), skip::tracepoints(), skip::root());
    let folder = tempfile::tempdir().expect("a folder");
    let (plan, out) = (folder.path().join("closely.toml"), folder.path().join("run"));
    std::fs::write(&plan, PLAN).expect("the plan");
    let mut command = farlun(["lab", "--json"]);
    command.arg(&plan).arg("--out").arg(&out);
    let document = run(&mut command, Duration::from_secs(600)).json();
    assert_eq!(document["failed"], serde_json::json!([]), "{document:#}");
    assert_eq!(document["checks"].as_array().map(Vec::len), Some(2), "{document:#}");
    if document["invalid"] == serde_json::json!([]) {
        assert!(document["checks"][0]["value"].as_f64() >= Some(1.0), "{document:#}");
    }

    let kernel = tables::read::<KernelPoint>(out.join("cells/001-closely/r1")).expect("the kernel's account");
    let states: Vec<CongestionState> = (0..kernel.t_ns.len())
        .filter(|row| kernel.event[*row] == KernelEvent::State)
        .filter_map(|row| kernel.state[row])
        .collect();
    assert!(states.contains(&CongestionState::Cwr), "{states:?}");
    let numbered = out.join("cells/002-numbered/r1");
    assert!(tables::read_optional::<KernelPoint>(&numbered).expect("a folder").is_none());
    for (dir, block_bytes) in [(numbered.clone(), 64 << 10), (numbered.join("near2"), 128 << 10)] {
        assert!(dir.join("sockets-near.parquet").is_file(), "{dir:?}");
        let lens = tables::read::<Io>(&dir).expect("its table").len_bytes;
        assert!(!lens.is_empty() && lens.iter().all(|len| *len == block_bytes), "{dir:?}: {lens:?}");
    }
}
