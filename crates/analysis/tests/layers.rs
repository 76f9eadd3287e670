//! All figures of the table `layers`, for a synthetic loop with known results.

mod synthetic;

use analysis::Span;
use analysis::layers::{LayerFlight, Question, Rates, Stack, Stamp};
use event::RequestId;
use synthetic::{Loop, START_NS};

const MS: u64 = 1_000_000;

const STUDY: Loop = Loop::STUDY;

fn ask(shape: Loop, request: Option<u32>) -> Stack {
    let dir = tempfile::tempdir().unwrap();
    synthetic::write(dir.path(), shape);
    let window = Span { start_ns: START_NS + 100 * MS, end_ns: START_NS + 1_100 * MS };
    let question = Question { origin_ns: START_NS, window, rtt_ns: 0, points: 600, requests: 100, request };
    Stack::collect(&[dir.path().to_owned()], question).unwrap().unwrap()
}

fn layer<'a>(stack: &'a Stack, name: &str) -> &'a LayerFlight {
    stack.all.iter().find(|layer| layer.name == name).expect(name)
}

#[test]
fn parallelism_stops_at_the_command_window() {
    let stack = ask(STUDY, None);
    assert_eq!(stack.gate, Some("granted"));
    for (name, inside) in
        [("call", 112.0), ("scsi", 112.0), ("queued", 112.0), ("granted", 100.0), ("started", 100.0)]
    {
        assert_eq!(stack.in_flight_max(name), Some(inside), "{name}");
        let layer = layer(&stack, name);
        assert!((layer.flight.mean - inside).abs() < 0.5, "{name}: {}", layer.flight.mean);
        assert!(layer.residence.unwrap().holds, "{name}");
        assert!(layer.flight.series.len() <= 600 && layer.flight.series.len() > 100, "{name}");
    }
    let outward = layer(&stack, "outward").flight.mean;
    assert!((outward - 50.0).abs() < 1.0, "half of the window is on the way: {outward}");
    let homeward = layer(&stack, "homeward").flight.mean;
    assert!((homeward - 50.0).abs() < 1.0, "and half on the way back: {homeward}");
    assert_eq!(stack.doubtful().count(), 0);
    assert!(stack.all.iter().all(|layer| layer.unended == 0 && layer.alone == 0));
    let one_way = layer(&stack, "outward").residence.unwrap().mean_s;
    assert!((one_way - 16e-3).abs() < 0.1e-3, "{one_way}");
    let store = layer(&stack, "store").residence.unwrap();
    assert!((store.mean_s - 29e-6).abs() < 1e-9, "{store:?}");
}

#[test]
fn what_comes_and_goes_in_a_second_is_counted_step_by_step() {
    let stack = ask(STUDY, None);
    for name in ["call", "granted", "received", "homeward"] {
        let Rates { start_s, step_s, issued, completed } = &layer(&stack, name).flight.rates;
        let count = |rates: &[f64]| rates.iter().sum::<f64>() * step_s;
        assert!((count(issued) - STUDY.requests as f64).abs() < 1e-3, "{name}: {}", count(issued));
        assert!((count(completed) - STUDY.requests as f64).abs() < 1e-3, "{name}: {}", count(completed));
        // A window of 100 over 32 ms, wherever it is counted, but for where it begins and ends.
        for (n, (came, went)) in issued.iter().zip(completed).enumerate() {
            let t_s = start_s + n as f64 * step_s;
            let is_steady = (0.1..1.2).contains(&t_s);
            let are_right = [came, went].into_iter().all(|rate| (rate / 3_125.0 - 1.0).abs() < 0.05);
            assert!(are_right || !is_steady, "{name} at {t_s}: {came} and {went}");
        }
    }
    // Every second request is scaled up to all.
    let half = ask(Loop { keeps: [2, 2], ..STUDY }, None);
    let Rates { step_s, issued, .. } = &layer(&half, "granted").flight.rates;
    let all = issued.iter().sum::<f64>() * step_s;
    assert!((all - STUDY.requests as f64).abs() < 1e-3, "{all}");
}

#[test]
fn times_that_only_some_requests_have_are_scaled_up() {
    let stack = ask(STUDY, None);
    let wire = layer(&stack, "wire");
    assert_eq!(wire.one_in, 16.0);
    assert!((wire.flight.mean - 100.0).abs() < 5.0, "{}", wire.flight.mean);
    assert_eq!(stack.in_flight_max("wire"), None, "the most of a few says nothing of the most of all");
    let all = ask(Loop { tcp_one_in: 1, ..STUDY }, None);
    assert_eq!(all.in_flight_max("wire"), Some(layer(&all, "wire").flight.max));
}

#[test]
fn each_end_may_keep_one_request_in_so_many_of_its_own() {
    let whole = ask(STUDY, None);
    for keeps in [[1, 8], [8, 1], [4, 6]] {
        let stack = ask(Loop { keeps, ..STUDY }, None);
        assert_eq!([stack.sample_near, stack.sample_far], keeps.map(u64::from));
        for expected in whole.all.iter().filter(|layer| layer.name != "tcp" && layer.name != "wire") {
            let found = layer(&stack, expected.name);
            let (found, expected, name) = (found.flight.mean, expected.flight.mean, expected.name);
            assert!(
                (found - expected).abs() < 0.02 * expected + 0.05,
                "{keeps:?} {name}: {found}, not {expected}"
            );
        }
        assert_eq!((stack.gate, stack.doubtful().count()), (Some("granted"), 0), "{keeps:?}");
        assert!(stack.all.iter().all(|layer| layer.alone == 0), "the other end was not asked to keep them");
        let most = (keeps[0] == 1).then_some(100.0);
        assert_eq!(stack.in_flight_max("granted"), most, "the most of some says nothing of the most of all");
    }
}

#[test]
fn a_request_that_one_end_has_forgotten_is_not_on_its_way_for_ever() {
    let stack = ask(Loop { forgotten_one_in: 10, ..STUDY }, None);
    for name in ["outward", "homeward"] {
        let between = layer(&stack, name);
        assert!((between.flight.mean - 45.0).abs() < 1.0, "{name}: {}", between.flight.mean);
        assert_eq!(between.flight.series.last().unwrap().1, 0.0, "{name}: nobody is left at the end");
        assert!(between.residence.is_some_and(|residence| residence.holds), "{name}");
        assert!(between.alone > 200, "{name}: {}", between.alone);
    }
}

#[test]
fn a_request_whose_end_is_not_known_is_gone_at_the_last_time_of_it() {
    // Their session was lost behind the command.
    let stack = ask(Loop { lost_one_in: 50, ..STUDY }, None);
    for name in ["call", "queued", "socket", "homeward"] {
        let layer = layer(&stack, name);
        assert!(layer.unended > 50, "{name}: {}", layer.unended);
        assert_eq!(layer.flight.series.last().unwrap().1, 0.0, "{name}");
    }
    assert_eq!(layer(&stack, "received").unended, 0);
}

#[test]
fn connections_of_a_session_are_counted_alone_and_its_gate_is_of_them_all() {
    let stack = ask(Loop { sessions: 2, connections: 4, ..STUDY }, None);
    let of: Vec<(u64, u32)> = stack.connections.iter().map(|c| (c.session, c.connection)).collect();
    assert_eq!(of, [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3)]);
    for connection in &stack.connections {
        let granted = connection.layers.iter().find(|layer| layer.name == "granted").unwrap();
        assert!((granted.flight.mean - 25.0).abs() < 0.5, "{}", granted.flight.mean);
    }
    assert_eq!((stack.gate, stack.in_flight_max("granted")), (Some("granted"), Some(100.0)));
    assert!(ask(STUDY, None).connections.is_empty(), "one connection is the session");
}

#[test]
fn nothing_holds_back_what_is_within_the_window() {
    let stack = ask(Loop { depth: 64, ..STUDY }, None);
    assert_eq!(stack.gate, None);
    assert_eq!(stack.in_flight_max("granted"), Some(64.0));
}

#[test]
fn sessions_are_counted_alone_and_together() {
    let stack = ask(Loop { sessions: 4, ..STUDY }, None);
    assert_eq!((stack.sessions.len(), stack.gate), (4, Some("granted")));
    assert_eq!(layer(&stack, "call").flight.max, 448.0);
    assert_eq!(stack.in_flight_max("call"), Some(112.0));
    let drawn: Vec<bool> =
        stack.sessions.iter().map(|session| !session.layers[0].flight.series.is_empty()).collect();
    assert_eq!(drawn, [true; 4], "each can be looked at");
    assert!(!layer(&stack, "call").flight.series.is_empty(), "and so can all of them");
}

#[test]
fn a_request_is_followed_through_both_ends_whatever_their_clocks_say() {
    for far_ahead_ns in [0, 77_000_000_000_000, -3_000_000_000] {
        let id = RequestId { session: 1, connection: 0, itt: 1233, cmd_sn: 1234 };
        let stack = ask(Loop { far_ahead_ns, ..STUDY }, Some(1234));
        assert!((100..200).contains(&stack.requests.len()), "{}", stack.requests.len());
        for request in &stack.requests {
            let sum: f64 = request.stages.iter().map(|stage| stage.length_s).sum();
            assert!((sum / request.latency_s - 1.0).abs() < 0.01, "{request:?}");
            let passed = |stamp| request.stages.iter().any(|stage| stage.to == stamp);
            assert!(passed(Stamp::Received) && passed(Stamp::StoreEnd) && passed(Stamp::Completed));
        }
        let asked = stack.examples.iter().find(|example| example.name == "asked for").unwrap();
        assert_eq!(stack.requests[asked.request].id, id);
        let names: Vec<_> = stack.examples.iter().map(|example| example.name).collect();
        assert!(names.contains(&"median") && names.contains(&"slowest"), "{names:?}");
        assert_eq!(stack.clock.bound_s() > 0.0, far_ahead_ns != 0);
        assert_eq!(stack.gate, Some("granted"));
    }
}

#[test]
fn a_request_that_is_asked_for_is_called_so_whatever_else_it_stands_for() {
    let median = |stack: &Stack| stack.examples.iter().find(|example| example.name == "median").copied();
    let stack = ask(STUDY, None);
    let cmd_sn = stack.requests[median(&stack).unwrap().request].id.cmd_sn;
    let stack = ask(STUDY, Some(cmd_sn));
    let asked = stack.examples.iter().find(|example| example.name == "asked for").unwrap();
    assert_eq!(Some(asked.request), median(&stack).map(|example| example.request));
}

#[test]
fn writes_whose_data_take_long_to_leave_do_not_part_the_clocks() {
    let stack = ask(Loop { writes: true, ..STUDY }, None);
    assert_eq!((stack.clock.points.len(), stack.clock.bound_s()), (0, 0.0));
}

#[test]
fn without_a_table_there_is_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let window = Span { start_ns: 0, end_ns: 1 };
    let question = Question { origin_ns: 0, window, rtt_ns: 0, points: 600, requests: 100, request: None };
    assert_eq!(Stack::collect(&[dir.path().to_owned()], question).unwrap(), None);
}

#[test]
fn what_lies_between_the_hosts_needs_both() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::write(dir.path(), STUDY);
    let window = Span { start_ns: START_NS + 100 * MS, end_ns: START_NS + 1_100 * MS };
    let question =
        Question { origin_ns: START_NS, window, rtt_ns: 0, points: 600, requests: 100, request: None };
    let names = || {
        let stack = Stack::collect(&[dir.path().to_owned()], question).unwrap().unwrap();
        (stack.all.iter().map(|layer| layer.name).collect::<Vec<_>>(), stack.clock.requests)
    };
    let (both, compared) = names();
    assert!(both.contains(&"outward") && both.contains(&"homeward") && compared > 1_000);
    std::fs::remove_file(dir.path().join("layers-far.parquet")).unwrap();
    let (near, compared) = names();
    assert!(near.contains(&"call") && near.contains(&"socket") && compared == 0);
    assert!(!near.contains(&"outward") && !near.contains(&"homeward"), "{near:?}");
}
