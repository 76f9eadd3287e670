//! A table `layers` that no machine ran: a closed loop of reads through a command window.

use std::path::Path;

use event::{FarTimes, Host, Instant, LayerTimes, Layers, NearTimes, Op, RequestId, Sink, TcpTimes};
use tables::{Spool, Writer};

/// Offered load, and limits of the layers.
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
    /// Connections of each session, which take the requests in turn.
    pub(crate) connections: u64,
    /// One request in so many is kept: by the near end, by the far one.
    pub(crate) keeps: [u32; 2],
    /// One request in so many is dropped by the near end, because another session issues it again; 0: none.
    pub(crate) forgotten_one_in: u32,
    /// Of one in so many the near end knows nothing behind the command; 0: none.
    pub(crate) lost_one_in: u32,
}

impl Loop {
    /// Parameters of the layer study: 112 outstanding over 32 ms, and a command window of 100.
    pub(crate) const STUDY: Loop = Loop {
        requests: 4_000,
        sessions: 1,
        depth: 112,
        window: 100,
        rtt_ns: 32_000_000,
        far_ahead_ns: 0,
        writes: false,
        tcp_one_in: 16,
        connections: 1,
        keeps: [1, 1],
        forgotten_one_in: 0,
        lost_one_in: 0,
    };
}

/// When the first request is called.
pub(crate) const START_NS: u64 = 5_000_000_000;

/// Writes both ends' tables into `dir`. A window's worth of requests is granted evenly over a round trip.
pub(crate) fn write(dir: &Path, shape: Loop) {
    let step = shape.rtt_ns / shape.window.min(shape.depth);
    for (host, one_in) in [Host::Near, Host::Far].into_iter().zip(shape.keeps) {
        let path = dir.join(format!("layers-{}.parquet", host.name()));
        let each = (1..=shape.sessions).flat_map(|session| (0..shape.requests).map(move |i| (session, i)));
        let rows = each.filter_map(|(session, i)| {
            let (near, far) = request(shape, session, i, step);
            let cmd_sn = near.id.cmd_sn;
            let is_forgotten = host == Host::Near && is_one_in(shape.forgotten_one_in, cmd_sn);
            let row = if host == Host::Near { near } else { far };
            (cmd_sn.is_multiple_of(one_in) && !is_forgotten).then_some(row)
        });
        if one_in == 1 {
            let mut writer = Writer::<Layers>::create(&path).unwrap();
            rows.for_each(|row| writer.push(&row).unwrap());
            writer.finish().unwrap();
        } else {
            let mut spool = Spool::<Layers>::create(&path, one_in).unwrap();
            rows.for_each(|row| spool.record(&row));
            assert_eq!(spool.finish().unwrap().lost_rows, 0);
        }
    }
}

fn is_one_in(number: u32, cmd_sn: u32) -> bool {
    number > 0 && cmd_sn.is_multiple_of(number)
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
    let connection = (i % shape.connections) as u32;
    let id = RequestId { session, connection, itt: (i % 4096) as u32, cmd_sn: i as u32 + 1 };
    let known = |at: u64| if is_one_in(shape.lost_one_in, id.cmd_sn) { Instant::ZERO } else { t(at) };
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
        data_first: known(status),
        data_last: known(status),
        status: known(status),
        completed: known(status),
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
