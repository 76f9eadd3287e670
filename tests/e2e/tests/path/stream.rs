//! `farlun stream` over a path on which one host's limit binds.

use std::fs;
use std::time::Duration;

use e2e::path::{self, FAR};
use e2e::{farlun_path, need};
use serde_json::Value;

const MINUTE: Duration = Duration::from_secs(60);

fn number(document: &Value, name: &str) -> f64 {
    document[name].as_f64().unwrap_or_else(|| panic!("no {name}: {document}"))
}

/// What a stream of three seconds over 16 ms and 1 Gb/s says when `limit` of one host is small. It is not paced, so that
/// nothing but that limit holds it back, however busy this machine is.
fn with_limit(limit: &str, at_far: bool) -> (Value, String) {
    let folder = tempfile::Builder::new().prefix("farlun-stream-").tempdir().expect("a temporary folder");
    let (farlun, words) = (farlun_path().display(), folder.path().join("words"));
    let set = format!("echo {limit} > /proc/sys/net/ipv4/{}\n", if at_far { "tcp_rmem" } else { "tcp_wmem" });
    let [far_set, near_set] = if at_far { [set.as_str(), ""] } else { ["", set.as_str()] };
    let far = format!("{far_set}exec {farlun} stream serve --json --listen {FAR}:5201");
    let near = format!(
        "{near_set}exec {farlun} stream {FAR}:5201 --json --time 3s --cc cubic --no-pacing 2>{}",
        words.display()
    );
    let document = path::over_8ms(&far, &near, 2 * MINUTE);
    (document["near"]["output"].clone(), fs::read_to_string(&words).expect("its words"))
}

#[test]
fn the_limit_that_binds_is_named_before_and_after() {
    need!(path::available());
    for (at_far, limit, host, name) in
        [(false, "send-buffer", "near", "tcp_wmem"), (true, "receive-window", "far", "tcp_rmem")]
    {
        // 16 ms at 1 Gb/s are 2 MB.
        let (document, words) = with_limit("\"4096 65536 600000\"", at_far);
        let line = format!("sysctl -w net.ipv4.{name}=\"4096 65536 ");
        assert_eq!(document["limit"], limit, "{document}");
        let why = document["why"].as_str().expect("a sentence");
        assert!(why.contains(&line) && why.contains(&format!("at the {host} host")), "{why}");
        let lowest = &document["ceilings"][0];
        assert_eq!(lowest["limit"], limit, "{document}");
        assert_eq!(lowest["host"], host, "{document}");
        assert!(lowest["change"].as_str().is_some_and(|change| change.starts_with(&line)), "{document}");
        assert!(words.contains(&line) && words.contains("round trip "), "{words}");
        // It was no empty threat: so much is acknowledged after 16 ms at the soonest, whatever round trip was found;
        // how much of a buffer is data is known to a tenth.
        let (reached, window_bytes) = (number(&document, "bytes_per_s"), number(lowest, "window_bytes"));
        assert!(reached * 0.016 <= window_bytes * 1.1, "{reached} of {window_bytes}: {document}");
    }
}
