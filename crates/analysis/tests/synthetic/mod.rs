//! A table `layers` that no machine ran: a closed loop of reads through a command window.

use std::path::Path;

use event::{FarTimes, Host, Instant, LayerTimes, Layers, NearTimes, Op, RequestId, TcpTimes};
use store::tables::Writer;

/// What is offered, and what the layers let through.
#[derive(Clone, Copy)]
pub(crate) struct Loop {
    /// Requests of each session.
    pub(crate) requests: u64,
    /// Sessions.
    pub(crate) sessions: u64,
    /// Requests that the caller keeps outstanding.
    pub(crate) depth: u64,
    /// Command window.
    pub(crate) window: u64,
    /// From granted to status.
    pub(crate) rtt_ns: u64,
    /// Far clock less near clock.
    pub(crate) far_ahead_ns: i64,
    /// Writes instead of reads: the target has the header long before the socket took the immediate data.
    pub(crate) writes: bool,
    /// One request in so many has TCP's times.
    pub(crate) tcp_one_in: u64,
}

/// When the first request is called.
pub(crate) const START_NS: u64 = 5_000_000_000;

/// Writes both ends' tables into `dir`. A window's worth of requests is granted evenly over a round trip.
pub(crate) fn write(dir: &Path, shape: Loop) {
    let mut near = Writer::<Layers>::create(dir.join("layers-near.parquet")).unwrap();
    let mut far = Writer::<Layers>::create(dir.join("layers-far.parquet")).unwrap();
    let step = shape.rtt_ns / shape.window.min(shape.depth);
    for session in 1..=shape.sessions {
        for i in 0..shape.requests {
            let (near_row, far_row) = request(shape, session, i, step);
            near.push(&near_row).unwrap();
            far.push(&far_row).unwrap();
        }
    }
    near.finish().unwrap();
    far.finish().unwrap();
}

fn request(shape: Loop, session: u64, i: u64, step_ns: u64) -> (Layers, Layers) {
    let t = |ns: u64| Instant::from_nanos(ns);
    let granted = START_NS + i * step_ns + session;
    // Called when the request `depth` before it completed.
    let called = (START_NS + session).max((granted + shape.rtt_ns).saturating_sub(shape.depth * step_ns));
    let status = granted + shape.rtt_ns;
    let one_way = shape.rtt_ns / 2 - 50_000;
    let received = (granted + 4_000 + one_way).saturating_add_signed(shape.far_ahead_ns);
    let sent = (status - one_way).saturating_add_signed(shape.far_ahead_ns);
    let tcp = |at: u64| match i.is_multiple_of(shape.tcp_one_in) {
        true => TcpTimes { queued: t(at), wire: t(at + 500), acked: t(at + shape.rtt_ns) },
        false => TcpTimes::default(),
    };
    let id = RequestId { session, connection: 0, itt: (i % 4096) as u32, cmd_sn: i as u32 + 1 };
    let row = |times: LayerTimes, tcp| Layers {
        id,
        op: if shape.writes { Op::Write } else { Op::Read },
        status: 0,
        lun: 0,
        len_bytes: 4096,
        offset_bytes: i * 4096,
        command_stream_end: (i + 1) * 48,
        status_stream_end: (i + 1) * (48 + 4096),
        tcp,
        times,
    };
    let near = NearTimes {
        called: t(called),
        scsi: t(called),
        queued: t(called),
        granted: t(granted),
        started: t(granted),
        socketed: t(if shape.writes { granted + one_way + 1_000_000 } else { granted + 4_000 }),
        data_first: t(status),
        data_last: t(status),
        status: t(status),
        completed: t(status),
    };
    let far_times = FarTimes {
        received: t(received),
        parsed: t(received),
        executed: t(received + 1_000),
        store_begin: t(received + 1_000),
        store_end: t(received + 30_000),
        answered: t(received + 31_000),
        sent: t(sent),
        ..FarTimes::default()
    };
    debug_assert_eq!(LayerTimes::Near(near).host(), Host::Near);
    (row(LayerTimes::Near(near), tcp(granted + 5_000)), row(LayerTimes::Far(far_times), tcp(sent)))
}
