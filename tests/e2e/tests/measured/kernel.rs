//! What the kernel says of the connections of an emulated path: `farlun wan --trace-kernel`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use e2e::path::{self, FAR, PATIENT_TCP};
use e2e::{farlun, farlun_path, need, or_undecided, run, skip};
use event::{CongestionState, Host, KernelEvent, KernelPoint, Op};
use serde_json::Value;
use tables::KernelPoints;

const LIMIT: Duration = Duration::from_secs(180);

/// Runs `near` over a path with these flags and traces the kernel; the document and the table. An error where the machine
/// was too busy for whoever reads the kernel's rings: what is missing then is counted, and nobody knows what it was.
#[track_caller]
fn traced(flags: &str, far: &str, near: &str) -> Result<(Value, KernelPoints), String> {
    let _turn = path::turn();
    let folder = tempfile::tempdir().expect("a folder for the tables");
    let mut command = farlun(["wan", "--json", "--validity", "off", "--trace-kernel", "--trace"]);
    command.arg(folder.path()).args(flags.split_whitespace()).args(["--far", far, "--", "sh", "-c", near]);
    let document = run(&mut command, LIMIT).expect_code(0).json();
    let table = tables::read::<KernelPoint>(folder.path()).expect("a table");
    assert_eq!(document["kernel"]["rows"], table.t_ns.len(), "{document}");
    match document["kernel"]["lost_events"].as_u64().expect("a count") {
        0 => Ok((document, table)),
        lost => Err(format!("the machine was too busy: {lost} events of the kernel are missing")),
    }
}

/// The places of the rows of one event at one end of connections to port `far_port` of far, in the order of time.
fn places(table: &KernelPoints, event: KernelEvent, host: Host, far_port: u32) -> Vec<usize> {
    let is_ours = |row: &usize| {
        let far = if host == Host::Far { table.local_port[*row] } else { table.remote_port[*row] };
        table.event[*row] == event && table.host[*row] == Some(host) && far == far_port
    };
    let mut rows: Vec<usize> = (0..table.t_ns.len()).filter(is_ours).collect();
    rows.sort_by_key(|row| table.t_ns[*row]);
    rows
}

#[test]
fn a_full_ring_is_congestion_of_the_sender_alone() {
    need!(path::available(), skip::program("iperf3"), skip::program("ip"), skip::tracepoints());
    // A slow start that nothing ends before (CUBIC's may end for delays alone) overflows the ring of a line that a busy
    // machine can fill.
    // So little is sent that the kernel's rings hold all of it, whenever they are read.
    let near = format!(
        "{PATIENT_TCP}sysctl -qw net.ipv4.tcp_pacing_ca_ratio=1000 net.ipv4.tcp_pacing_ss_ratio=1000 && \
         exec iperf3 -c {FAR} -p 5319 -n 10M -C reno >&2"
    );
    let (document, table) =
        or_undecided!(traced("--delay 5ms --rate 100mbit --ring 80", "iperf3 -s -1 -p 5319", &near));
    let validity = &document["validity"];
    assert!(validity["dropped_ring_full"].as_u64() > Some(0), "{validity}");
    for fate in ["dropped_queue_full", "dropped_lost", "dropped_unasked"] {
        assert_eq!(validity[fate], 0, "nothing is lost on the path: {validity}");
    }
    let mut changes = places(&table, KernelEvent::State, Host::Near, 5319);
    // What becomes of the last FIN, when the other end is gone already, is another matter.
    let is_cut = |row: &usize| table.state[*row] == Some(CongestionState::Cwr);
    let last = changes.iter().rposition(is_cut).expect("the window was cut");
    changes.truncate(last + 1);
    let states: Vec<_> = changes.iter().filter_map(|row| table.state[*row]).collect();
    let expected = [CongestionState::Open, CongestionState::Cwr];
    assert!(states.iter().all(|state| expected.contains(state)), "{states:?}");
    let again = places(&table, KernelEvent::Retransmitted, Host::Near, 5319);
    let until_ns = table.t_ns[changes[last]];
    assert!(again.iter().all(|row| table.t_ns[*row] > until_ns), "nothing is sent again");
}

#[test]
fn a_loss_on_the_line_is_seen_with_windows_and_round_trips() {
    need!(path::available(), skip::program("ip"), skip::tracepoints());
    let farlun = farlun_path().display();
    let iqn = "iqn.2026-11.io.farlun:kernel";
    let far = format!(
        "{PATIENT_TCP}exec {farlun} target --cc cubic --insecure --lun memory:64MiB --iqn {iqn} --listen {FAR}:3260"
    );
    // An amount, however long it takes: so little that the kernel's rings hold all that is said of it.
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy");
    let near = format!("exec {farlun} read iscsi://{FAR}/{iqn}/0 --length 8MiB --output {}", copy.display());
    let (_, table) = or_undecided!(traced("--delay 5ms --rate 200mbit --loss far:packets:2000", &far, &near));
    // The packet is sent again by a timer, and what happens in the idle task of a second processor is not always
    // sampled (docs/internals/emulator.md); that the window is cut for a loss is.
    let again = places(&table, KernelEvent::Retransmitted, Host::Far, 3260);
    assert!(again.iter().all(|row| table.host_number[*row] == 100), "of the host that sends");
    let changes = places(&table, KernelEvent::State, Host::Far, 3260);
    let is_recovery = |row: &&usize| table.state[**row] == Some(CongestionState::Recovery);
    let recovery = *changes.iter().find(is_recovery).expect("a loss begins a recovery");
    let recovery_t_ns = table.t_ns[recovery];
    assert!(again.iter().all(|row| table.t_ns[*row] > recovery_t_ns), "nothing is sent again before");
    let received = places(&table, KernelEvent::Received, Host::Far, 3260);
    let near = places(&table, KernelEvent::Received, Host::Near, 3260);
    assert!(received.len() > 100 && near.len() > 100, "{} and {}", received.len(), near.len());
    let least_ns = received.iter().map(|row| table.srtt_ns[*row]).filter(|srtt_ns| *srtt_ns > 0).min();
    assert!(least_ns >= Some(10_000_000), "the path is 10 ms there and back: {least_ns:?}");
    // The cut, as the acknowledgements afterwards show it.
    let (before, after): (Vec<usize>, Vec<usize>) =
        received.iter().partition(|row| table.t_ns[**row] < recovery_t_ns);
    let most = |rows: &[usize]| rows.iter().map(|row| table.ssthresh_packets[*row]).max();
    let cut = most(&after[after.len() / 2..]).expect("segments that came after the cut");
    assert!(most(&before) > Some(1 << 30) && cut < 1 << 30, "{cut}");
    let near_data: u64 = near.iter().map(|row| u64::from(table.data_bytes[*row])).sum();
    assert!(near_data > 5 << 20, "what near has received: {near_data}");
}

/// Whether what lies in this folder is on a block device, and not on memory or another file system.
fn on_a_device(folder: &Path) -> Result<(), String> {
    let major = std::fs::metadata(folder).expect("a folder").dev() >> 8 & 0xfff;
    if major == 0 { Err(format!("{} is on no block device", folder.display())) } else { Ok(()) }
}

#[test]
fn a_read_past_the_page_cache_is_seen_at_the_block_device() {
    let folder = tempfile::tempdir().expect("a folder");
    need!(path::available(), skip::tracepoints(), on_a_device(folder.path()));
    let (disk, farlun) = (folder.path().join("disk"), farlun_path().display());
    let file = std::fs::File::create(&disk).expect("a file");
    // Holes would be read without the device.
    std::fs::write(&disk, vec![7; 16 << 20]).and_then(|()| file.sync_all()).expect("a full file");
    let iqn = "iqn.2026-11.io.farlun:kernel";
    let far = format!(
        "exec {farlun} target --insecure --lun file:{},direct --iqn {iqn} --listen {FAR}:3260",
        disk.display()
    );
    let load = "--json --op read --random --block 16KiB --depth 1 --time 300ms";
    let near = format!("exec {farlun} bench iscsi://{FAR}/{iqn}/0 {load}");
    let (_, table) = or_undecided!(traced("--delay 1ms", &far, &near));
    let reads = (0..table.t_ns.len()).filter(|row| {
        table.event[*row] == KernelEvent::BlockIssued
            && (table.op[*row], table.len_bytes[*row]) == (Some(Op::Read), 16 << 10)
    });
    let reads = reads.count();
    assert!(reads > 10, "{reads} reads of 16 KiB were given to a device");
}

#[test]
fn who_may_not_trace_the_kernel_is_told() {
    need!(path::available(), path::available_to_nobody());
    let _turn = path::turn();
    let program = farlun_path().to_str().expect("a path of plain characters");
    let folder = tempfile::Builder::new().permissions(open_to_all()).tempdir().expect("a folder");
    let mut command = path::as_nobody(program);
    command.args(["wan", "--trace-kernel", "--trace"]).arg(folder.path()).args(["--", "true"]);
    run(&mut command, LIMIT).expect_code(1).expect_sentence(&["leave --trace-kernel out"]);
    let left = std::fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 0, "nothing is begun");
    let finished = run(farlun(["wan", "--trace-kernel", "--", "true"]).current_dir(Path::new("/")), LIMIT);
    assert!(finished.stderr.contains("--trace <DIR>"), "{finished:#?}");
    finished.expect_code(2);
}

fn open_to_all() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o777)
}
