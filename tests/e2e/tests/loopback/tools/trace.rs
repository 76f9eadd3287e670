//! What `--trace` leaves behind: every request at every hand-over, seen from both ends, in the order in which it can
//! only have happened.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use analysis::Span;
use analysis::layers::{Question, Stack, Stamp};
use e2e::ours::Target;
use e2e::relay::{Fate, Line};
use e2e::{farlun, run};
use event::{Host, Io, Layers, Op, PduKind, PduSeen, Way};
use tables::{LayerColumns, Pdus};
use tempfile::TempDir;

/// No run takes longer.
const LIMIT: Duration = Duration::from_secs(120);

/// A file for a LUN, and the directory of the tables.
fn folder() -> (TempDir, String, String) {
    let folder = tempfile::Builder::new().prefix("farlun-trace-").tempdir().expect("a temporary folder");
    let (disk, cell) = (folder.path().join("disk"), folder.path().join("cell"));
    std::fs::File::create(&disk).and_then(|file| file.set_len(16 << 20)).expect("a file for the LUN");
    let text = |path: &Path| path.to_str().expect("a path of plain characters").to_owned();
    let (disk, cell) = (text(&disk), text(&cell));
    (folder, disk, cell)
}

/// A load of so many flags on a target of so many others, both recorded; the bench's document and the target's totals.
#[track_caller]
fn record(lun: &str, cell: &str, target: &[&str], bench: &[&str]) -> [serde_json::Value; 2] {
    let mut target = Target::serve_with(&[lun], &[target, &["--trace", cell]].concat());
    let mut command = farlun(["bench", &target.url(0), "--json", "--time", "300ms", "--trace", cell]);
    let document = run(command.args(bench), LIMIT).expect_code(0).json();
    target.service.signal("TERM");
    let totals = target.service.next_line(LIMIT);
    assert_eq!(target.service.ended(LIMIT), 0);
    for entry in std::fs::read_dir(cell).expect("the tables") {
        let name = entry.expect("an entry").file_name();
        assert!(!name.to_string_lossy().ends_with(".partial"), "{name:?}");
    }
    [document, serde_json::from_str(&totals).expect("the totals are JSON")]
}

type Key = (u64, u32, u32, u32);

/// Rows of one end by what names their requests.
fn requests(layers: &LayerColumns, host: Host) -> HashMap<Key, usize> {
    let rows = (0..layers.host.len()).filter(|row| layers.host[*row] == host);
    let key = |row| (layers.session[row], layers.connection[row], layers.itt[row], layers.cmd_sn[row]);
    let mut found = HashMap::new();
    for row in rows {
        assert_eq!(found.insert(key(row), row), None, "two rows for one request of {host:?}");
    }
    found
}

/// The times of a request at one end, in the order of what happens; `None` for what never does.
fn stages(layers: &LayerColumns, row: usize, has_store: bool) -> Vec<Option<u64>> {
    let (is_read, l) = (layers.op[row] == Op::Read, layers);
    let pick = |column: &[u64], happens: bool| {
        assert_eq!(column[row] != 0, happens, "{} {:?}", layers.host[row].name(), layers.op[row]);
        happens.then_some(column[row])
    };
    match layers.host[row] {
        Host::Near => vec![
            pick(&l.called_t_ns, true),
            pick(&l.scsi_t_ns, true),
            pick(&l.queued_t_ns, true),
            pick(&l.granted_t_ns, true),
            pick(&l.started_t_ns, true),
            pick(&l.socketed_t_ns, true),
            pick(&l.data_first_t_ns, is_read),
            pick(&l.data_last_t_ns, is_read),
            pick(&l.status_t_ns, true),
            pick(&l.completed_t_ns, true),
        ],
        Host::Far => vec![
            pick(&l.received_t_ns, true),
            pick(&l.parsed_t_ns, true),
            pick(&l.executed_t_ns, true),
            pick(&l.r2t_first_t_ns, false),
            pick(&l.store_begin_t_ns, has_store),
            pick(&l.store_end_t_ns, has_store),
            pick(&l.answered_t_ns, true),
            pick(&l.sent_t_ns, true),
        ],
    }
}

#[track_caller]
fn expect_one_story(lun: &str, cell: &str, has_store: bool, bench: &[&str]) {
    let [document, totals] = record(
        lun,
        cell,
        &["--trace-pdus", "4"],
        &[bench, &["--trace-pdus", "4", "--op", "read,write", "--overwrite"]].concat(),
    );
    let layers = tables::read::<Layers>(cell).expect("layers");
    let (near, far) = (requests(&layers, Host::Near), requests(&layers, Host::Far));
    let trace = &document[0]["trace"];
    let ios = tables::read::<Io>(cell).expect("io");
    assert_eq!(trace["io"]["rows"], ios.op.len(), "{document}");
    assert_eq!(trace["layers"], serde_json::json!({"rows": near.len(), "lost_rows": 0}), "{document}");
    assert_eq!(totals["trace"]["layers"]["rows"], far.len(), "{totals}");
    assert!(!near.is_empty() && near.len() == far.len() && near.len() == ios.op.len(), "{document}");
    let mut stamped = 0;
    for (key, &row) in &near {
        let there = *far.get(key).expect("the target saw it too");
        let l = &layers;
        let same = |row: usize| {
            let request = (l.op[row], l.lun[row], l.offset_bytes[row], l.len_bytes[row], l.status[row]);
            (request, l.command_stream_end[row], l.status_stream_end[row])
        };
        assert_eq!(same(row), same(there));
        let (here, away) = (stages(l, row, has_store), stages(l, there, has_store));
        assert!(here.iter().flatten().is_sorted(), "near: {here:?}");
        assert!(away.iter().flatten().is_sorted(), "far: {away:?}");
        // With several connections, data may be there before its command's turn has come.
        let data = l.data_out_last_t_ns[there];
        let is_there = (l.received_t_ns[there]..=l.answered_t_ns[there]).contains(&data);
        assert_eq!(
            (is_there, data != 0),
            (l.op[row] == Op::Write, l.op[row] == Op::Write),
            "{away:?} {data}"
        );
        assert!(
            l.started_t_ns[row] <= l.received_t_ns[there] && l.answered_t_ns[there] <= l.status_t_ns[row]
        );
        for row in [row, there] {
            let times = [l.tcp_queued_t_ns[row], l.tcp_wire_t_ns[row], l.tcp_acked_t_ns[row]];
            assert!(l.cmd_sn[row].is_multiple_of(4) || times == [0; 3], "{times:?}");
            stamped += usize::from(times[2] != 0);
        }
    }
    assert!(stamped > 0, "TCP's times of one request in four");
    expect_pdus(&tables::read::<PduSeen>(cell).expect("pdus"), &near);
}

/// Whatever one end sent, the other received, at the same place of the stream.
#[track_caller]
fn expect_pdus(pdus: &Pdus, requests: &HashMap<Key, usize>) {
    let of_requests = (0..pdus.kind.len()).filter(|row| {
        let kind = pdus.kind[*row];
        matches!(kind, PduKind::Command | PduKind::Response | PduKind::DataIn | PduKind::DataOut)
            && requests.contains_key(&(
                pdus.session[*row],
                pdus.connection[*row],
                pdus.itt[*row],
                pdus.cmd_sn[*row],
            ))
    });
    let mut places = [HashSet::new(), HashSet::new()];
    for row in of_requests {
        assert!(pdus.cmd_sn[row].is_multiple_of(4), "a PDU of another request");
        let is_out = pdus.direction[row] == Way::Out;
        assert_eq!(pdus.socketed_t_ns[row] != 0, is_out);
        let (from_near, connection) = ((pdus.host[row] == Host::Near) == is_out, pdus.connection[row]);
        let place =
            (connection, from_near, pdus.kind[row].name(), pdus.stream_begin[row], pdus.stream_end[row]);
        assert!(places[usize::from(is_out)].insert(place), "seen twice: {place:?}");
    }
    assert!(!places[0].is_empty() && places[0] == places[1], "what was sent is not what was received");
}

#[test]
fn both_ends_tell_one_story() {
    let (_folder, disk, cell) = folder();
    let random = ["--random", "--depth", "16"];
    expect_one_story("memory:16MiB", &format!("{cell}/memory"), false, &random);
    expect_one_story(&format!("file:{disk}"), &format!("{cell}/file"), true, &random);
    let bulk = ["--block", "1MiB", "--depth", "4", "--connections", "3", "--digest", "prefer"];
    expect_one_story("memory:16MiB", &format!("{cell}/bulk"), false, &bulk);
}

#[test]
fn both_ends_keep_the_same_requests() {
    let (_folder, _, cell) = folder();
    let flags = ["--trace-sample", "8", "--trace-pdus", "0"];
    let load = ["--random", "--depth", "8"];
    record("memory:16MiB", &cell, &flags, &[&flags[..], &load].concat());
    let layers = tables::read::<Layers>(&cell).expect("layers");
    let (near, far) = (requests(&layers, Host::Near), requests(&layers, Host::Far));
    let keys = |rows: &HashMap<Key, usize>| rows.keys().copied().collect::<HashSet<_>>();
    assert!(!near.is_empty() && keys(&near) == keys(&far));
    assert!(layers.cmd_sn.iter().all(|cmd_sn| cmd_sn.is_multiple_of(8)));
    assert!(tables::read::<PduSeen>(&cell).expect("an empty table").kind.is_empty());
}

/// The most requests that are between two of their times at once.
fn most_between(from: &[u64], to: &[u64]) -> usize {
    let mut steps: Vec<_> = from.iter().map(|t| (*t, 1)).chain(to.iter().map(|t| (*t, -1))).collect();
    // Who leaves makes room for who comes at the same time.
    steps.sort_unstable();
    let inside = steps.iter().scan(0_isize, |inside, (_, step)| {
        *inside += step;
        Some(*inside)
    });
    inside.max().unwrap_or(0) as usize
}

#[test]
fn each_gate_holds_back_what_it_is_to_hold_back() {
    let (_folder, disk, cell) = folder();
    let lun = format!("file:{disk},delay=2ms");
    record(&lun, &cell, &["--window", "10"], &["--random", "--depth", "32", "--queue-limit", "20"]);
    let mut layers = tables::read::<Layers>(&cell).expect("layers");
    let near: Vec<usize> = (0..layers.host.len()).filter(|row| layers.host[*row] == Host::Near).collect();
    let mut of = |column: fn(&mut LayerColumns) -> &mut Vec<u64>| {
        near.iter().map(|row| column(&mut layers)[*row]).collect::<Vec<u64>>()
    };
    let (called, queued, granted) =
        (of(|l| &mut l.called_t_ns), of(|l| &mut l.queued_t_ns), of(|l| &mut l.granted_t_ns));
    let (status, completed) = (of(|l| &mut l.status_t_ns), of(|l| &mut l.completed_t_ns));
    assert_eq!(most_between(&called, &completed), 32, "the caller's depth");
    assert_eq!(most_between(&queued, &status), 20, "the initiator's queue");
    assert_eq!(most_between(&granted, &status), 10, "the target's command window");
}

/// What is asked of the tables in a directory, over the whole load.
fn stack(cell: &str, document: &serde_json::Value) -> Stack {
    let ns = |name: &str| document[name].as_u64().expect("a time");
    let window = Span { start_ns: ns("t_start_ns"), end_ns: ns("t_end_ns") };
    let question = Question {
        origin_ns: window.start_ns,
        window,
        rtt_ns: 0,
        points: 600,
        requests: 2_000,
        request: None,
    };
    Stack::collect(&[cell.into()], question).expect("tables").expect("layers")
}

#[test]
fn the_stages_of_a_request_add_up_to_its_latency() {
    let (_folder, disk, cell) = folder();
    let load = ["--random", "--depth", "16"];
    let [document, _] = record(&format!("file:{disk}"), &cell, &[], &load);
    let ios = tables::read::<Io>(&cell).expect("io");
    // Of those that are issued at one moment two may be of one place.
    let mut latencies: HashMap<(u64, u64), Vec<u64>> = HashMap::new();
    for row in 0..ios.op.len() {
        let (issued, completed) = (ios.issued_t_ns[row], ios.completed_t_ns[row]);
        latencies.entry((issued, ios.offset_bytes[row])).or_default().push(completed - issued);
    }
    let stack = stack(&cell, &document);
    assert!(stack.requests.len() >= 16, "the caller's depth at least: {}", stack.requests.len());
    for request in &stack.requests {
        let key = (request.called_ns, request.offset_bytes);
        let measured = latencies.get(&key).expect("the same request");
        let sum_ns: f64 = request.stages.iter().map(|stage| stage.length_s * 1e9).sum();
        let adds_up = measured.iter().any(|latency| (sum_ns / *latency as f64 - 1.0).abs() <= 0.01);
        assert!(adds_up, "{sum_ns} of {measured:?}: {request:?}");
        // Both ends have told of it.
        for stamp in [Stamp::Called, Stamp::Received, Stamp::StoreEnd, Stamp::Sent, Stamp::Completed] {
            let is_there = request.stages.iter().any(|stage| stage.from == stamp || stage.to == stamp);
            assert!(is_there, "{stamp:?}: {request:?}");
        }
    }
}

#[test]
fn ends_that_keep_different_requests_are_counted_alike() {
    let (_folder, _, cell) = folder();
    // A depth that has nothing in common with the sampling: requests of one wake take their turns.
    let load = ["--random", "--depth", "7", "--trace-pdus", "0"];
    let flags = ["--trace-sample", "8", "--trace-pdus", "0"];
    let [document, _] = record("memory:16MiB", &cell, &flags, &load);
    let stack = stack(&cell, &document);
    assert_eq!((stack.sample_near, stack.sample_far), (1, 8));
    assert_eq!(stack.in_flight_max("call"), Some(7.0), "what the near end has is not scaled up");
    let mean = |name: &str| {
        let layer = stack.all.iter().find(|layer| layer.name == name).expect(name);
        assert_eq!(layer.alone, 0, "{name}");
        layer.flight.mean
    };
    // Those that have left the caller's socket are among those of the caller.
    let outside = mean("outward") + mean("received") + mean("answering") + mean("homeward");
    assert!(outside < 1.5 * mean("call"), "{outside} of {}", mean("call"));
}

#[test]
fn a_request_that_is_sent_again_has_one_row_of_the_last_time() {
    let (_folder, disk, cell) = folder();
    let mut target = Target::serve_with(&[&format!("file:{disk}")], &["--trace", &cell]);
    // Three times what is under way at once: so much passes in these seconds on the slowest of machines.
    let line = Line::to(target.address(), &[(200 << 10, Fate::Closed)]);
    let mut command = farlun(["bench", &target.url_at(&line.address(), 0), "--json", "--time", "3s"]);
    command.args(["--random", "--depth", "16", "--trace", &cell]);
    let document = run(&mut command, LIMIT).expect_code(0).json();
    assert_eq!(document["reconnects"], 1, "{document}");
    target.service.signal("TERM");
    target.service.next_line(LIMIT);
    assert_eq!(target.service.ended(LIMIT), 0);
    let layers = tables::read::<Layers>(&cell).expect("layers");
    let near = requests(&layers, Host::Near);
    let sessions: HashSet<u64> = near.keys().map(|key| key.0).collect();
    let ios = tables::read::<Io>(&cell).expect("io");
    assert_eq!((near.len(), sessions.len()), (ios.op.len(), 2));
    for &row in near.values() {
        assert!(stages(&layers, row, true).iter().flatten().is_sorted());
    }
    // The target remembers what was lost on its way back, and the initiator does not.
    let forgotten = requests(&layers, Host::Far).keys().filter(|key| !near.contains_key(*key)).count();
    assert!(forgotten <= 16, "{forgotten}");
    let stack = stack(&cell, &document);
    for name in ["outward", "homeward"] {
        let layer = stack.all.iter().find(|layer| layer.name == name).expect(name);
        assert_eq!(layer.flight.series.last().expect("a line").1, 0.0, "{name}: nobody is left in the end");
        assert!(layer.residence.is_some_and(|residence| residence.holds), "{name}: {:?}", layer.residence);
        assert!(layer.alone <= forgotten as u64, "{name}: {} of {forgotten}", layer.alone);
    }
}
