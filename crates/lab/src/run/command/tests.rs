//! Command lines of cells of plans.

use super::*;
use event::BitRate;

use crate::plan::{Back, Plan, Source, Variant};
use crate::run::command::words::quote;

fn command_of(plan: &Plan, slug: &str) -> String {
    let cell = plan.cells().into_iter().find(|cell| cell.slug() == slug).unwrap();
    let (luns, record) = (&plan.far.luns, &plan.recording.tables);
    let (run_dir, trace_dir) = (Path::new("out"), Path::new("out/r1"));
    Parts { cell: &cell, luns, record, seed: 5, run_dir, trace_dir }.shown()
}

#[test]
fn the_commands_of_the_tour() {
    let plan = Source::find("tour").unwrap().plan(Variant::Quick).unwrap();
    for (slug, command) in [
        (
            "stream-delay-0",
            "farlun wan --json --trace out/r1 --delay 0 --rate 1gbit --queue 1000000B --mtu 1500 \
             --validity throughput --seed 5 --far 'farlun stream serve --json --listen 198.18.0.2:5201 --cc cubic --trace out/r1' -- farlun stream \
             198.18.0.2:5201 --json --time 1.7s --reverse --cc cubic --trace out/r1",
        ),
        (
            "read-delay-8ms",
            "farlun wan --json --trace out/r1 --delay 8ms --rate 1gbit --queue 2000000B --mtu 1500 \
             --validity throughput --seed 5 --far 'farlun target --json --lun memory:1GiB --listen 198.18.0.2:3260 --insecure --iqn \
             iqn.2026-11.io.farlun:lab --cc cubic --trace out/r1' -- farlun bench \
             iscsi://198.18.0.2:3260/iqn.2026-11.io.farlun:lab/0 --json --op read --block 1MiB --connections 1 \
             --time 2.02s --warmup 820ms --seed 5 --cc cubic --trace out/r1",
        ),
        (
            "write1m-delay-50ms",
            "farlun wan --json --trace out/r1 --delay 50ms --rate 1gbit --queue 12500000B --mtu 1500 \
             --validity latency --seed 5 --far 'farlun target --json --lun memory:1GiB --listen 198.18.0.2:3260 --insecure --iqn \
             iqn.2026-11.io.farlun:lab --cc cubic --trace out/r1' -- farlun bench \
             iscsi://198.18.0.2:3260/iqn.2026-11.io.farlun:lab/0 --json --op write --overwrite --block 1MiB --depth 1 \
             --connections 1 --time 1.4s --warmup 200ms --warm-bulk 2.5s --seed 5 --cc cubic --trace out/r1",
        ),
    ] {
        assert_eq!(command_of(&plan, slug), command);
    }
}

const CROWD: &str = r#"
        name = "crowd"
        title = "two initiators, two targets, and a stream beside them"
        record = ["io"]
        [path]
        delay = "8ms"
        [target]
        window = 100
        digest = "crc32c"
        compat = "nagle, separate-status"
        [[lun]]
        kind = "memory"
        size = "1MiB"
        fault = "read:1%"
        [[load]]
        name = "read"
        kind = "bench"
        op = "read"
        block = "4KiB"
        queue_limit = 9
        sessions = 3
        initiators = 2
        targets = 2
        pacing = false
        window = "1s"
        [[background]]
        name = "noise"
        kind = "stream"
    "#;

#[test]
fn every_initiator_target_and_competitor_has_a_host() {
    let plan = Plan::parse(CROWD, Variant::Full).unwrap();
    let target = |n: &str, trace: &str| {
        format!(
            "--far 'farlun target --json --lun memory:1MiB,fault=read:1%,seed=5 --listen 198.18.0.{n}:3260 \
             --insecure --iqn iqn.2026-11.io.farlun:lab --window 100 --digest crc32c --compat nagle,separate-status --cc cubic --no-pacing \
             --trace {trace} --trace-pdus 0'"
        )
    };
    let bench = |n: &str, seed: u32, trace: &str| {
        format!(
            "farlun bench iscsi://198.18.0.{n}:3260/iqn.2026-11.io.farlun:lab/0 --json --op read --block 4KiB \
             --queue-limit 9 --sessions 3 --connections 1 --time 1s --warmup 0 --seed {seed} --cc cubic --no-pacing --trace {trace} --trace-pdus 0"
        )
    };
    let expected = [
        "farlun wan --json --delay 8ms --rate 1gbit --queue 2000000B --mtu 1500 --validity throughput --seed 5",
        &target("2", "out/r1"),
        &target("102", "out/r1/far2"),
        "--far 'farlun stream serve --json --listen 198.18.0.103:5201 --cc cubic --trace out/r1/far3'",
        &format!("--near '{}'", bench("102", 6, "out/r1/near2")),
        "--near 'farlun stream 198.18.0.103:5201 --json --time 61s --cc cubic --trace out/r1/near3'",
        "--",
        &bench("2", 5, "out/r1"),
    ];
    assert_eq!(command_of(&plan, "read"), expected.join(" "));
    for (record, flag) in [("pdus", None), ("all-pdus", Some("--trace-pdus 1"))] {
        let text = CROWD.replace("\"io\"", &format!("\"{record}\""));
        let command = command_of(&Plan::parse(&text, Variant::Full).unwrap(), "read");
        // Two initiators and two targets.
        assert_eq!(
            command.matches(flag.unwrap_or("--trace-pdus")).count(),
            if flag.is_some() { 4 } else { 0 }
        );
    }
}

const FOREIGN: &str = r#"
        name = "foreign"
        title = "a program of others at one end each"
        [[lun]]
        kind = "memory"
        size = "1MiB"
        [[load]]
        name = "theirs"
        kind = "command"
        op = "read"
        command = "perf -t {seconds}+{before} {host}/{iqn}/{lun} >{dir}/out-{number}; {farlun} --version"
        initiators = 2
        before = "1500ms"
        start = "500ms"
        window = "1s"
        [[load]]
        name = "ours"
        kind = "bench"
        op = "read"
        block = 512
        lun = 7
        server = "serve {host}:{port}"
        window = "1s"
    "#;

#[test]
fn commands_of_others_are_filled_in() {
    let plan = Plan::parse(FOREIGN, Variant::Full).unwrap();
    let command = command_of(&plan, "theirs");
    assert!(command.contains(" --far 'farlun target --json --lun memory:1MiB "), "{command}");
    let perf = |dir: &str, n: u32| {
        format!("perf -t 2+2 198.18.0.2/iqn.2026-11.io.farlun:lab/0 >{dir}/out-{n}; farlun --version")
    };
    assert!(command.ends_with(&format!(" -- sh -c '{}'", perf("out/r1", 1))), "{command}");
    let second = quote(&format!("sh -c '{}'", perf("out/r1/near2", 2)));
    assert!(command.contains(&format!(" --near {second} ")), "{command}");
    let command = command_of(&plan, "ours");
    assert!(command.contains(" --far 'serve 198.18.0.2:3260' "), "{command}");
    assert!(
        command.contains(" -- farlun bench iscsi://198.18.0.2:3260/iqn.2026-11.io.farlun:lab/7 "),
        "{command}"
    );
}

#[test]
fn faults_of_the_path_are_flags() {
    let mut plan = Source::find("tour").unwrap().plan(Variant::Quick).unwrap();
    plan.path.queue = Queue::Packets(256);
    plan.path.faults = [("loss", "0.01%".to_owned()), ("ring", "80".to_owned())].into();
    let command = command_of(&plan, "stream-delay-0");
    assert!(command.contains(" --queue 256 --mtu 1500 "), "{command}");
    assert!(command.contains(" --loss 0.01% --ring 80 --seed 5 --far "), "{command}");
    plan.path.back = Back { delay: None, rate: Some(BitRate(123_456_789)), queue: Some(Queue::Bytes(5_000)) };
    let command = command_of(&plan, "stream-delay-0");
    let said = " --delay 0 --rate near:1gbit,far:123456789bit --queue near:256,far:5000B --mtu ";
    assert!(command.contains(said), "{command}");
    plan.path.back = Back::default();
    plan.path.segment = true;
    plan.path.faults = [("jitter", "1ms".to_owned()), ("jitter-overtakes", String::new())].into();
    let command = command_of(&plan, "stream-delay-0");
    assert!(command.contains(" throughput --segment --jitter 1ms --jitter-overtakes --seed "), "{command}");
    plan.path.faults.remove("jitter");
    assert!(!command_of(&plan, "stream-delay-0").contains("overtakes"), "there is nothing to overtake by");
}

#[test]
fn the_default_congestion_control_is_no_flag_of_the_commands() {
    let mut plan = Source::find("tour").unwrap().plan(Variant::Quick).unwrap();
    plan.path.faults = [("congestion", "cubic".to_owned())].into();
    for load in &mut plan.loads {
        load.congestion = DEFAULT_CONGESTION.to_owned();
    }
    for slug in ["stream-delay-0", "read-delay-8ms"] {
        let command = command_of(&plan, slug);
        assert!(command.contains(" --congestion cubic ") && !command.contains("--cc"), "{command}");
    }
}

#[test]
fn a_load_may_have_other_tables_than_the_plan() {
    let mut plan = Plan::parse(CROWD, Variant::Full).unwrap();
    let command = command_of(&plan, "read");
    assert!(!command.starts_with("farlun wan --json --trace "), "{command}");
    plan.loads[0].record = Some(vec![Table::Pdus, Table::Kernel]);
    let command = command_of(&plan, "read");
    assert!(command.starts_with("farlun wan --json --trace out/r1 --trace-kernel --delay 8ms "), "{command}");
    assert!(!command.contains("--trace-pdus 0"), "{command}");
}

#[test]
fn an_ipv6_path_has_ipv6_addresses_everywhere() {
    let mut plan = Plan::parse(CROWD, Variant::Full).unwrap();
    (plan.path.ipv6, plan.path.segment) = (true, true);
    let command = command_of(&plan, "read");
    assert!(command.contains(" --mtu 1500 --validity throughput --ipv6 --segment --seed 5 "), "{command}");
    assert!(!command.contains("198.18."), "{command}");
    for part in [
        "--listen '\\''[2001:2::2]:3260'\\'' ",
        "--listen '\\''[2001:2::102]:3260'\\'' ",
        "stream '\\''[2001:2::103]:5201'\\'' ",
        "-- farlun bench 'iscsi://[2001:2::2]:3260/iqn.2026-11.io.farlun:lab/0' ",
    ] {
        assert!(command.contains(part), "{part} in {command}");
    }
    let mut plan = Plan::parse(FOREIGN, Variant::Full).unwrap();
    plan.path.ipv6 = true;
    let command = command_of(&plan, "ours");
    assert!(command.contains(r"--far 'serve '\''[2001:2::2]'\'':3260' "), "{command}");
}
