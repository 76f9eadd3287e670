//! The doctor on small tables that are made up: a line of 1 Gb/s, 16 ms, and a command window of eight.

use std::path::Path;

use analysis::doctor::{Question, survey};
use diagnosis::{Diagnosis, Facts, Limiter, judge};
use event::{
    Direction, FarTimes, Fate, Host, Instant, Io, LayerTimes, Layers, Login, NearTimes, Op, Packet,
    RequestId, SocketSample, Tcp, TcpTimes,
};
use tables::{Row, Writer};

const MS: u64 = 1_000_000;
const RTT_NS: u64 = 16 * MS;
const BLOCK: u32 = 65_536;
/// Requests of one round trip, of which eight are granted and the rest waits.
const WINDOW: u64 = 8;
const DEPTH: u64 = 32;
const ROUNDS: u64 = 100;
/// Payload of a packet, and its bytes on the line.
const PAYLOAD: u32 = 1448;
const PACKET_NS: u64 = 12_304;

fn write<R: Row>(dir: &Path, name: &str, rows: impl Iterator<Item = R>) {
    let mut writer = Writer::<R>::create(dir.join(name)).unwrap();
    rows.for_each(|row| writer.push(&row).unwrap());
    writer.finish().unwrap();
}

/// A time since the load began, as a host's clock shows it.
type Clock = fn(u64) -> Instant;

fn at(ns: u64) -> Instant {
    Instant::from_nanos(1_000 * MS + ns)
}

/// The clock of another machine: an hour ahead, and faster by 50 millionths.
fn elsewhere(ns: u64) -> Instant {
    at(3_600_000 * MS + ns + ns / 20_000)
}

/// When the n-th request is called, granted and done: each round trip eight go, and were called three before.
fn times(n: u64) -> (u64, u64, u64) {
    let granted = n / WINDOW * RTT_NS;
    (granted.saturating_sub((DEPTH / WINDOW - 1) * RTT_NS), granted, granted + RTT_NS)
}

fn near(n: u64) -> Layers {
    let (called, granted, done) = times(n);
    layers(
        n,
        LayerTimes::Near(NearTimes {
            called: at(called),
            scsi: at(called),
            queued: at(called),
            granted: at(granted),
            started: at(granted),
            socketed: at(granted),
            data_first: at(done),
            data_last: at(done),
            status: at(done),
            completed: at(done),
        }),
    )
}

fn far(clock: Clock, n: u64) -> Layers {
    let received = clock(times(n).1 + RTT_NS / 2);
    layers(
        n,
        LayerTimes::Far(FarTimes {
            received,
            parsed: received,
            executed: received,
            answered: received,
            sent: received,
            ..FarTimes::default()
        }),
    )
}

fn layers(n: u64, times: LayerTimes) -> Layers {
    Layers {
        id: RequestId { session: 7, connection: 0, itt: n as u32, cmd_sn: n as u32 },
        op: Op::Read,
        status: 0,
        lun: 0,
        len_bytes: BLOCK,
        offset_bytes: 0,
        command_stream_end: 0,
        status_stream_end: 0,
        tcp: TcpTimes::default(),
        times,
    }
}

fn sample(clock: Clock, host: Host, round: u64) -> SocketSample {
    let moved = round * WINDOW * u64::from(BLOCK);
    let (rx, tx) = if host == Host::Near { (moved, 0) } else { (0, moved) };
    SocketSample {
        app_rx_bytes: rx,
        app_tx_bytes: tx,
        cwnd_packets: 2000,
        mss_bytes: PAYLOAD,
        rtt_ns: RTT_NS,
        min_rtt_ns: RTT_NS,
        unacked_packets: 100,
        delivery_rate_bytes_per_s: 40_000_000,
        snd_wnd_bytes: 16 << 20,
        busy_ns: round * RTT_NS,
        command_window: WINDOW as u32,
        loop_idle_ns: round * RTT_NS * 9 / 10,
        loop_cpu_ns: round * RTT_NS / 10,
        ..SocketSample::new(clock(round * RTT_NS), host, 0)
    }
}

fn login(host: Host) -> Login {
    Login {
        t: at(0),
        host,
        session: 7,
        cid: 0,
        connection: 0,
        immediate_data: true,
        initial_r2t: false,
        first_burst_bytes: 1 << 20,
        max_burst_bytes: 1 << 20,
        max_outstanding_r2t: 64,
        near_segment_bytes: 262_144,
        far_segment_bytes: 262_144,
        caller_depth: 0,
        queue_limit: 0,
        has_nagle: false,
        send_buffer_max_bytes: 1 << 30,
        receive_buffer_max_bytes: 1 << 30,
    }
}

/// Bursts of a round trip's requests, packet by packet, that queue for the line.
fn packet(n: u64) -> Packet {
    let per_round = WINDOW * u64::from(BLOCK) / u64::from(PAYLOAD);
    let (round, place) = (n / per_round, n % per_round);
    let ingress = at(round * RTT_NS);
    let scheduled = at(round * RTT_NS + RTT_NS / 2 + (place + 1) * PACKET_NS);
    Packet {
        ingress,
        scheduled,
        egress: scheduled,
        direction: Direction::FarToNear,
        number: n + 1,
        fate: Fate::Delivered,
        ip_bytes: PAYLOAD + 52,
        segments: 1,
        src_host: 100,
        dst_host: 0,
        tcp: Some(Tcp {
            src_port: 3260,
            dst_port: 40_000,
            seq: 0,
            ack: 0,
            payload_bytes: PAYLOAD,
            flags: 16,
        }),
        unseen_ns: 0,
    }
}

/// The diagnosis from the near end's tables, and from the far end's if they were written, by that clock.
fn diagnosis(far_clock: Option<Clock>) -> Diagnosis {
    judge(&facts(far_clock))
}

fn facts(far_clock: Option<Clock>) -> Facts {
    let dir = tempfile::tempdir().unwrap();
    let requests = WINDOW * ROUNDS;
    let io = |n: u64| {
        let (called, _, done) = times(n);
        Io {
            issued: at(called),
            completed: at(done),
            op: Op::Read,
            offset_bytes: 0,
            len_bytes: BLOCK,
            status: 0,
        }
    };
    write(dir.path(), "io-near.parquet", (0..requests).map(io));
    write(dir.path(), "layers-near.parquet", (0..requests).map(near));
    write(dir.path(), "sockets-near.parquet", (0..=ROUNDS).map(|round| sample(at, Host::Near, round)));
    write(dir.path(), "sessions-near.parquet", std::iter::once(login(Host::Near)));
    if let Some(clock) = far_clock {
        write(dir.path(), "layers-far.parquet", (0..requests).map(|n| far(clock, n)));
        let samples = (0..=ROUNDS).map(|round| sample(clock, Host::Far, round));
        write(dir.path(), "sockets-far.parquet", samples);
        write(dir.path(), "sessions-far.parquet", std::iter::once(login(Host::Far)));
        write(dir.path(), "packets.parquet", (0..ROUNDS * 362).map(packet));
    }
    survey(dir.path(), Question::default()).unwrap().unwrap()
}

#[test]
fn a_small_command_window_is_named_and_its_gain_ends_at_the_line() {
    let found = diagnosis(Some(at));
    let first = &found.verdicts[0];
    assert_eq!((first.limiter, first.next), (Limiter::CommandWindow, Limiter::LinkRate), "{found:#?}");
    let current = 8.0 * 65_536.0 / 0.016;
    assert!((found.current.bytes_per_s / current - 1.0).abs() < 0.03, "{found:#?}");
    let line = f64::from(PAYLOAD) / (PACKET_NS as f64 / 1e9);
    assert!((first.predicted.bytes_per_s / line - 1.0).abs() < 0.05, "{found:#?}");
    assert!(found.cannot_know.is_empty(), "{found:#?}");
}

#[test]
fn one_side_is_enough_to_name_it_and_says_what_it_cannot_know() {
    let found = diagnosis(None);
    assert_eq!(found.verdicts[0].limiter, Limiter::CommandWindow, "{found:#?}");
    assert_eq!(found.cannot_know.len(), 3, "{found:#?}");
}

#[test]
fn two_machines_have_two_clocks() {
    let (one, two) = (diagnosis(Some(at)), diagnosis(Some(elsewhere)));
    assert!(two.cannot_know.is_empty(), "{two:#?}");
    let said = |found: &Diagnosis| -> Vec<_> {
        found.verdicts.iter().map(|verdict| (verdict.limiter, verdict.next)).collect()
    };
    assert_eq!(said(&one), said(&two));
    assert!((one.current.bytes_per_s / two.current.bytes_per_s - 1.0).abs() < 1e-9);
}

#[test]
fn a_far_end_of_another_run_is_not_looked_at() {
    // Nothing that is three times as fast was there at the time.
    let found = diagnosis(Some(|ns| at(3_600_000 * MS + 3 * ns)));
    assert_eq!(found.verdicts[0].limiter, Limiter::CommandWindow, "{found:#?}");
    assert!(found.cannot_know[0].contains("contradict each other"), "{found:#?}");
    assert_eq!(found.cannot_know.len(), 1, "{found:#?}");
}

#[test]
fn facts_are_one_flat_object_for_each_subject() {
    let json = serde_json::to_value(facts(Some(at))).unwrap();
    for name in ["request_bytes", "rtt_s", "line_bytes_per_s", "line_busy", "idle", "cpu", "stages"] {
        assert!(json.get(name).is_some(), "{name}: {json:#}");
    }
    for name in ["backlogged", "mss_bytes", "local_cuts", "earlier_local_cuts", "ramp", "has_nagle"] {
        assert!(json["sender"].get(name).is_some(), "{name}: {json:#}");
    }
}

#[test]
fn without_requests_there_is_nothing_to_say() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(survey(dir.path(), Question::default()).unwrap(), None);
}
