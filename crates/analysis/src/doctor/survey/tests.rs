//! Facts from synthetic samples of one connection: a hundred of them, one every 10 ms.

use event::Instant;
use tables::Row;

use super::*;

const STEP_NS: u64 = 10_000_000;
const WINDOW: Span = Span { start_ns: 0, end_ns: 100 * STEP_NS };

fn table(change: impl Fn(u64, &mut SocketSample)) -> Sockets {
    let mut table = Sockets::default();
    for n in 0..100 {
        let mut sample = SocketSample::new(Instant::from_nanos(n * STEP_NS), Host::Far, 0);
        (sample.mss_bytes, sample.ssthresh_packets) = (1448, u32::MAX);
        change(n, &mut sample);
        sample.push(&mut table);
    }
    table
}

fn opening(share: f64, change: impl Fn(u64, &mut SocketSample)) -> Opening {
    let table = table(change);
    Opening::of(&[Track { table: &table, rows: (0..100).collect(), before: Vec::new() }], WINDOW, share)
}

#[test]
fn a_ramp_is_a_window_that_opens() {
    let opens = opening(0.3, |n, sample| sample.cwnd_packets = if n < 30 { 10 + n as u32 } else { 100 });
    assert!(opens.is_ramp() && !opens.is_growing, "{opens:?}");
    let stays = opening(0.3, |_, sample| sample.cwnd_packets = 100);
    assert!(!stays.is_ramp() && !stays.is_growing, "{stays:?}");
    let shut = opening(0.3, |n, sample| {
        sample.cwnd_packets = if n < 30 { 10 + n as u32 } else { 100 };
        sample.rwnd_limited_ns = n * STEP_NS;
    });
    assert!(!shut.is_ramp(), "the peer's window was in the way: {shut:?}");
}

#[test]
fn a_window_that_opens_until_the_end_has_no_plateau() {
    let grows = |n: u64| 10 << (n / 10) as u32;
    let all = opening(0.7, |n, sample| sample.cwnd_packets = grows(n));
    assert!(all.is_ramp() && all.is_growing, "{all:?}");
    let cut = opening(0.7, |n, sample| (sample.cwnd_packets, sample.ssthresh_packets) = (grows(n), 8));
    assert!(!cut.is_growing, "above ssthresh it grows slowly: {cut:?}");
    let repairs = opening(0.7, |n, sample| {
        (sample.cwnd_packets, sample.state) = (grows(n), CongestionState::Recovery);
    });
    assert!(!repairs.is_growing, "{repairs:?}");
}

#[test]
fn a_window_remembers_what_cut_it_before() {
    // Cut while it doubles: from one sample to the next it is larger all the same.
    let change = |n: u64, sample: &mut SocketSample| {
        (sample.cwnd_packets, sample.ssthresh_packets) = if n < 20 { (160, u32::MAX) } else { (213, 168) };
        sample.state = if n == 20 { CongestionState::Cwr } else { CongestionState::Open };
    };
    let of = |table: &Sockets| {
        let sender = one(&Track { table, rows: (50..100).collect(), before: (0..50).collect() });
        (sender.cuts.local, sender.cuts.earlier_local, sender.cuts.earlier_losses)
    };
    assert_eq!(of(&table(change)), (0.0, 1.0, 0.0));
    let repaired = table(|n, sample| {
        change(n, sample);
        sample.retransmitted_packets = u32::from(n >= 20);
        if n == 20 {
            sample.state = CongestionState::Recovery;
        }
    });
    assert_eq!(of(&repaired), (0.0, 0.0, 1.0));
}

#[test]
fn a_pacing_rate_that_never_moves_is_a_cap() {
    let of = |rate: fn(u64) -> u64| {
        let table = table(|n, sample| sample.pacing_rate_bytes_per_s = rate(n));
        cap(&Track { table: &table, rows: (0..100).collect(), before: Vec::new() })
    };
    assert_eq!(of(|n| if n < 5 { 7 } else { 1_000_000 }), Some(1e6));
    assert_eq!(of(|n| 1_000_000 + n / 5), None);
    assert_eq!(of(|_| u64::MAX), None);
}

#[test]
fn connections_at_their_best_at_different_times_are_not_all_of_the_line() {
    let at_best = |from: u64| {
        table(move |n, sample| {
            sample.delivery_rate_bytes_per_s = if (from..from + 10).contains(&n) { 100 } else { 20 };
        })
    };
    let tables = [at_best(0), at_best(40)];
    let track = |table| Track { table, rows: (0..100).collect(), before: Vec::new() };
    let tracks = [track(&tables[0]), track(&tables[1])];
    assert_eq!((line(&tracks, Some(120.0)), line(&tracks, None)), (120.0, 100.0));
    assert_eq!((line(&tracks, Some(300.0)), line(&tracks[..1], Some(300.0))), (200.0, 100.0));
}

#[test]
fn a_socket_is_starved_while_its_owner_has_more() {
    let of = |notsent: u32, unsent: u64| {
        let table = table(|_, sample| {
            (sample.cwnd_packets, sample.unacked_packets) = (100, 20);
            (sample.notsent_bytes, sample.unsent_bytes) = (notsent, unsent);
        });
        let sender = one(&Track { table: &table, rows: (0..100).collect(), before: Vec::new() });
        (sender.time.starved, sender.time.backlogged)
    };
    assert_eq!(of(0, 100_000), (1.0, 0.0));
    assert_eq!(of(100_000, 100_000), (0.0, 1.0));
    assert_eq!(of(0, 0), (0.0, 0.0));
}

#[test]
fn a_window_of_nothing_is_shut_if_there_ever_was_another() {
    let paced = |window: fn(u64) -> u32| {
        let table = table(|n, sample| {
            (sample.cwnd_packets, sample.notsent_bytes) = (100, 100_000);
            (sample.snd_wnd_bytes, sample.pacing_rate_bytes_per_s) = (window(n), 1_000_000);
        });
        one(&Track { table: &table, rows: (0..100).collect(), before: Vec::new() }).time.pacing
    };
    assert!(paced(|_| 0) > 0.99, "nobody said how large it is");
    assert!(paced(|n| if n == 0 { 100_000 } else { 0 }) < 0.02, "it is shut");
}
