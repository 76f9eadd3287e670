//! Checks without a value, and typed views of documents.

use serde_json::json;

use super::*;

#[test]
fn a_check_without_a_value_is_not_ok() {
    let check = Check::evaluate("read", None, Comparison::AtLeast, 0.0, "");
    assert!(!check.ok);
    let check = Check::evaluate("read", Some(f64::NAN), Comparison::AtMost, 1.0, "Mb/s");
    assert_eq!((check.ok, check.value), (false, None));
    let check = Check::evaluate("read", Some(2.0), Comparison::AtLeast, 2.0, "Mb/s");
    assert_eq!(
        serde_json::to_value(&check).unwrap(),
        json!({"name": "read", "value": 2.0, "op": ">=", "bound": 2.0, "unit": "Mb/s", "ok": true})
    );
}

#[test]
fn a_path_that_differs_is_seen_as_the_data_go() {
    let line = |delay_ns, rate, queue| json!({"delay_ns": delay_ns, "rate_bits_per_s": rate, "queue_bytes": queue, "loss": null});
    let path = json!({"delay_ns": 2_000_000, "rate_bits_per_s": 10, "queue_bytes": 3, "mtu": 1400,
        "near": line(2_000_000, 10, 3), "far": line(40_000_000, 100, 7)});
    for (near, rate, queue) in [
        (json!({"kind": "bench", "op": "read"}), 100, 7),
        (json!({"kind": "bench", "op": "write"}), 10, 3),
        (json!({"kind": "stream", "direction": "far-to-near"}), 100, 7),
        (json!({"kind": "stream", "direction": "near-to-far"}), 10, 3),
    ] {
        let cell = Cell { wan: Some(json!({"path": path})), near: Some(near), ..Cell::default() };
        let seen = cell.wan().unwrap().unwrap().path;
        let expected =
            Path { delay_ns: 21_000_000, rate_bits_per_s: rate, queue_bytes: queue, mtu: 1400, ipv6: false };
        assert_eq!(seen, expected, "{:?}", cell.near);
    }
}

#[test]
fn typed_views_leave_out_what_they_do_not_know() {
    let cell = Cell {
        wan: Some(json!({"path": {"delay_ns": 8_000_000, "rate_bits_per_s": 1_000_000_000, "mtu": 1500,
            "colour": "red"}, "validity": {"ok": true, "lateness_ns": {"p50": 3, "p99": 9, "max": 12}}})),
        near: Some(json!({"kind": "bench", "op": "read", "t_start_ns": 5, "latency_ns": null})),
        ..Cell::default()
    };
    let wan = cell.wan().unwrap().unwrap();
    assert_eq!((wan.path.delay_ns, wan.validity.lateness_ns.max), (8_000_000, 12.0));
    let load = cell.load().unwrap().unwrap();
    assert_eq!((load.op.as_str(), load.t_start_ns, load.latency_ns), ("read", 5, None));
    assert_eq!(Cell::default().load().unwrap(), None);
    let odd = Cell { near: Some(json!({"t_start_ns": "soon"})), ..Cell::default() };
    assert!(odd.load().is_err());
}
