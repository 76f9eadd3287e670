//! `farlun stream`: several streams with their sum, sizes that are found by trials, limits that are named before and
//! after, and errors that say what to do.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use e2e::{Finished, Service, farlun, run};

const MINUTE: Duration = Duration::from_secs(60);

/// A far end on loopback, and its address.
fn far_end(host: &str, flags: &[&str]) -> (Service, String) {
    let listen = format!("{host}:0");
    let mut command = farlun(["stream", "serve", "--json", "--listen", &listen]);
    let mut service = Service::start(command.args(flags));
    let ready: Value = serde_json::from_str(&service.next_line(MINUTE)).expect("the ready line is JSON");
    let address = ready["addresses"][0].as_str().expect("it names its address").to_owned();
    (service, address)
}

fn stream(address: &str, flags: &[&str]) -> Finished {
    run(farlun(["stream", address]).args(flags), 2 * MINUTE)
}

/// A number in a document.
#[track_caller]
fn number(document: &Value, name: &str) -> f64 {
    document[name].as_f64().unwrap_or_else(|| panic!("`{name}` is no number: {document}"))
}

#[test]
fn several_streams_have_their_figures_and_a_sum() {
    for (host, direction, flags) in
        [("127.0.0.1", "near-to-far", &[][..]), ("[::1]", "far-to-near", &["--reverse"][..])]
    {
        let (_far, address) = far_end(host, &[]);
        let finished =
            stream(&address, &[&["--json", "--time", "2500ms", "--streams", "3"][..], flags].concat());
        let document = finished.expect_code(0).json();
        assert_eq!(document["kind"], "stream", "{document}");
        assert_eq!(document["direction"], direction, "{document}");
        let streams = document["streams"].as_array().expect("streams");
        assert_eq!(streams.len(), 3, "{document}");
        let sum = |name: &str| streams.iter().map(|stream| number(stream, name)).sum::<f64>();
        assert!(streams.iter().all(|stream| number(stream, "bytes") > 0.0), "{document}");
        assert_eq!(sum("bytes"), number(&document, "bytes"));
        assert!((sum("bytes_per_s") / number(&document, "bytes_per_s") - 1.0).abs() < 1e-9, "{document}");
        for end in ["near", "far"] {
            let all = streams.iter().map(|stream| number(&stream[end], "cpu_ns")).sum::<f64>();
            assert!(all > 0.0 && all == number(&document[end], "cpu_ns"), "{end}: {document}");
        }
        for stream in streams {
            // One a second; how many there are on a busy machine is its own affair.
            let intervals = stream["intervals"].as_array().map(Vec::len);
            assert!((Some(1)..=Some(2)).contains(&intervals), "{stream}");
            assert!(stream["why"].as_str().is_some_and(|why| !why.is_empty()), "{stream}");
        }
    }
}

#[test]
fn one_stream_says_when_it_was_full_and_what_it_settled_at() {
    let (_far, address) = far_end("127.0.0.1", &[]);
    // The far end sends, and its window is known here all the same.
    let document = stream(&address, &["--json", "--time", "8s", "--reverse"]).expect_code(0).json();
    for figure in ["steady_bits_per_s", "full_s", "full_window_s"] {
        assert!(number(&document, figure) > 0.0, "{document}");
    }
    assert!(number(&document["far"], "peer_window_max_bytes") > 0.0, "{document}");
    let ceilings = document["ceilings"].as_array().expect("limits");
    let rates: Vec<f64> = ceilings.iter().map(|ceiling| number(ceiling, "bits_per_s")).collect();
    assert!(rates.len() >= 3 && rates.is_sorted(), "{document}");

    let finished = stream(&address, &["--time", "8s", "--streams", "2"]).expect_code(0);
    for words in ["stream 1: ", "steady at", "window up to", "CPU time", "limited by"] {
        assert!(finished.stdout.contains(words), "'{words}' is missing\n{finished:#?}");
    }
    finished.expect_said("round trip");
}

#[test]
fn sizes_are_found_by_trials() {
    let (_far, address) = far_end("127.0.0.1", &[]);
    let document = stream(&address, &["--json", "--time", "1s", "--tune"]).expect_code(0).json();
    let tune = &document["tune"];
    let trials = tune["trials"].as_array().expect("trials");
    let has = |trial: &Value, size: &str| trial[size] == tune[size];
    for size in ["write_bytes", "read_bytes"] {
        let bytes = tune[size].as_u64().expect("a size");
        assert!(bytes.is_power_of_two() && (16 << 10..=4 << 20).contains(&bytes), "{tune}");
        let others = trials.iter().filter(|trial| !has(trial, size)).count();
        assert!(others >= 4, "others were tried: {tune}");
    }
    assert!(trials.iter().any(|trial| has(trial, "write_bytes") && has(trial, "read_bytes")), "{tune}");
    for figure in ["bits_per_s", "sender_cpu_ns_per_byte", "receiver_cpu_ns_per_byte"] {
        // A busy machine may let nothing arrive in the fifth of a second that counts of a trial.
        let figures: Vec<f64> = trials.iter().map(|trial| number(trial, figure)).collect();
        assert!(figures.iter().all(|found| *found >= 0.0), "{figure}: {tune}");
        assert!(figures.iter().any(|found| *found > 0.0), "{figure}: {tune}");
    }
    // Loopback has to copy, and says so.
    assert_eq!(tune["zero_copy"], false, "{tune}");
    assert_eq!(trials.last().expect("a trial")["zero_copy"], "copied", "{tune}");
    assert!(tune["zero_copy_why"].as_str().is_some_and(|why| why.contains("loopback")), "{tune}");
}

#[test]
fn threads_are_pinned_at_both_ends() {
    let status = fs::read_to_string("/proc/self/status").expect("a process knows its status");
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = allowed.expect("it names its CPUs").trim();
    let cpu: String = allowed.chars().take_while(char::is_ascii_digit).collect();
    let (_far, address) = far_end("127.0.0.1", &["--pin", &cpu]);
    let flags = ["--json", "--time", "2s", "--streams", "2", "--pin", &cpu];
    let document = stream(&address, &flags).expect_code(0).json();
    assert!(number(&document, "bytes") > 0.0, "{document}");
}

#[test]
fn runs_wait_for_each_other() {
    let (_far, address) = far_end("127.0.0.1", &[]);
    let flags = ["--json", "--time", "700ms", "--streams", "2"];
    let begin = |_| {
        let address = address.clone();
        thread::spawn(move || stream(&address, &flags))
    };
    let runs: Vec<_> = (0..3).map(begin).collect();
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for run in runs {
        let document = run.join().expect("a run").expect_code(0).json();
        let time = |name: &str| document[name].as_u64().expect("a time");
        spans.push((time("t_start_ns"), time("t_end_ns")));
    }
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "they overlap: {spans:?}");
}

#[test]
fn what_is_wrong_is_named() {
    let (_far, address) = far_end("127.0.0.1", &[]);
    for (flags, words) in [
        (&["--streams", "0"][..], "1..=64"),
        (&["--streams", "65"], "1..=64"),
        (&["--pin", "8191"], "expected some of"),
        (&["--pin", "first"], "--pin"),
        (&["--cc", "warp"], "this kernel has"),
        (&["--time", "1s", "--warmup", "1s"], "leaves nothing"),
    ] {
        stream(&address, flags).expect_code(2).expect_said(words);
    }
    for (flags, words) in [(["--pin", "8191"], "expected some of"), (["--cc", "warp"], "this kernel has")] {
        let mut serve = farlun(["stream", "serve", "--listen", "127.0.0.1:0"]);
        run(serve.args(flags), MINUTE).expect_code(2).expect_sentence(&[words]);
    }
}

#[test]
fn a_far_end_that_is_none() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address").to_string();
    // It accepts, by its backlog, and says nothing.
    let silent = stream(&address, &["--timeout", "500ms"]).expect_code(1);
    silent.expect_sentence(&["`farlun stream serve`"]);
    let closes = thread::spawn(move || listener.incoming().take(2).for_each(drop));
    stream(&address, &[]).expect_code(1).expect_sentence(&["`farlun stream serve`"]);
    closes.join().expect("it ends");
}

#[test]
fn who_receives_cannot_say_how_it_is_sent() {
    for flags in [&["--pace", "10mbit"][..], &["--no-pacing"]] {
        let words = ["127.0.0.1:1", "--reverse"].iter().chain(flags).copied();
        let mut command = farlun(["stream"]);
        run(command.args(words), MINUTE).expect_code(2).expect_sentence(&["stream serve"]);
    }
    run(&mut farlun(["stream", "127.0.0.1:1", "--digest", "crc32c"]), MINUTE).expect_code(2);
}

/// A host whose connections say nothing of use does not fill the log.
#[test]
fn connections_without_a_hello_leave_a_few_lines() {
    let (mut far, address) = far_end("127.0.0.1", &[]);
    for _ in 0..200 {
        let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
        stream.write_all(b"GET / HTTP/1.0\r\nHost: someone.example\r\n\r\n").expect("it reads");
        // Closed, or reset with the rest unread.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(far.terminate(), 0);
    let said = far.stderr();
    assert!((1..50).contains(&said.lines().count()), "{said}");
}
