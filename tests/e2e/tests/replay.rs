//! `farlun replay`: the samples of a load, shown to a policy afterwards.

use std::time::Duration;

use e2e::ours::Target;
use e2e::{farlun, run};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_recorded_load_is_shown_to_a_policy() {
    let trace = tempfile::tempdir().expect("a folder");
    let folder = trace.path().to_str().expect("plain characters");
    let target = Target::serve(&["memory:64MiB"]);
    let bench = ["--json", "--block", "64KiB", "--depth", "4", "--time", "1s", "--trace", folder];
    run(farlun(["bench", &target.url(0)]).args(bench), LIMIT).expect_code(0);
    let replay = |flags: &[&str]| run(farlun(["replay", folder]).args(flags), LIMIT);

    let document = replay(&["--policy", "auto", "--every", "100ms", "--json"]).expect_code(0).json();
    let connection = &document["cells"][0]["connections"][0];
    assert_eq!((&document["policy"], &connection["host"]), (&"auto".into(), &"near".into()), "{document:#}");
    // A hundred samples a second; how many there are on a busy machine is its own affair.
    assert!(connection["samples"].as_u64() >= Some(10), "{connection:#}");
    let steps = connection["steps"].as_array().expect("steps");
    let step = &steps[steps.len() / 2];
    assert!(step["recorded"]["cwnd_bytes"].as_u64() > Some(0), "{step:#}");
    let outstanding = step["recorded"]["outstanding_bytes"].as_u64().expect("requests were recorded");
    assert!((1..=4 * 65_536).contains(&outstanding), "{step:#}");
    assert!(step["decided"]["outstanding_bytes"].as_u64() >= Some(8 << 20), "{step:#}");
    assert!(step["decided"]["command_window"].as_u64() > Some(0), "{step:#}");

    let text = replay(&["--policy", "auto"]).expect_code(0).stdout;
    assert!(text.contains("near · connection") && text.contains("decided"), "{text}");
    replay(&["--policy", "best"]).expect_code(2).expect_said("auto");
    let empty = tempfile::tempdir().expect("a folder");
    let nothing = run(farlun(["replay", "--policy", "auto"]).arg(empty.path()), LIMIT);
    nothing.expect_code(2).expect_sentence(&["expected a run directory"]);
}
