//! TCP and event loops of both ends, from `sockets`.

use std::path::PathBuf;

use diagnosis::Facts;
use diagnosis::facts::{CwndCuts, SenderTime, SenderTraffic, TcpSender};
use event::{CongestionState, Host, SocketSample};
use tables::{Sockets, TableError};

use crate::Span;
use crate::load::counter::Counter;
use crate::path::clock::ClockOffset;
use crate::tcp::cuts::Cuts;

/// A window that holds so much of the packets it may is full: the last of them wait for others to make a burst.
const FULL: f64 = 0.9;
/// Shortest time that a rate is taken over.
const STEP_NS: u64 = 20_000_000;
/// A load is as fast as later from this share of its later rate on.
const REACHED: f64 = 0.9;
/// A window counts as small before it opened if it was at most this part of the later one.
const OPENED: f64 = 0.5;
/// A window that grew so much in the second half of a load is still opening.
const GROWING: f64 = 1.25;
/// A pacing rate that is the same in so many of the samples, of so many at least, is a cap.
const CAPPED: f64 = 0.9;
const CAPPED_LEAST: usize = 8;
/// Fewer packets than this may be sent after a pause.
const RESTART_PACKETS: u32 = 16;

/// Adds facts from the samples of the data's sender, of its receiver, and of the event loops.
pub(super) fn fill(
    dirs: &[PathBuf],
    window: Span,
    sender: Host,
    clock: &ClockOffset,
    facts: &mut Facts,
) -> Result<(), TableError> {
    let mut all = Vec::new();
    for dir in dirs {
        all.extend(tables::read_optional::<SocketSample>(dir)?);
    }
    all.iter_mut().for_each(|table| relate(table, clock));
    let rtts = all.iter().flat_map(|table| table.min_rtt_ns.iter().copied()).filter(|ns| *ns > 0);
    facts.path.rtt_s = rtts.min().map(|ns| ns as f64 / 1e9);
    facts.path.loaded_rtt_s = loaded_rtt_s(&all, window);
    for table in &all {
        for host in [Host::Near, Host::Far] {
            loops(table, host, window, facts);
        }
    }
    facts.outstanding.window_most = [Host::Far, Host::Near].into_iter().find_map(|host| widest(&all, host));
    let tracks: Vec<Track> = all.iter().flat_map(|table| tracks(table, sender, window)).collect();
    facts.connections = all.iter().map(|table| tracks_count(table, Host::Near, window)).sum::<usize>() as f64;
    let receiver = if facts.is_write { Host::Far } else { Host::Near };
    let arrived: Vec<Counter> = all.iter().map(|table| Counter::received(table, receiver)).collect();
    let arrived = |span: Span| arrived.iter().map(|counter| counter.rate(span) / 8.0).sum::<f64>();
    let counted = arrived(window);
    if counted > 0.0 {
        // Requests are counted when they end, which for few long ones is coarse.
        let gain = counted / facts.current.bytes_per_s.max(1.0);
        facts.current.bytes_per_s = counted;
        let out = &mut facts.outstanding;
        (out.called, out.queued, out.granted) = (out.called * gain, out.queued * gain, out.granted * gain);
    }
    if tracks.is_empty() {
        facts.path.line_bytes_per_s = peak(&arrived, window, facts.path.rtt_s);
        return Ok(());
    }
    let mut sum = tracks.iter().fold(TcpSender::default(), |sum, track| add(sum, &one(track)));
    let count = tracks.len() as f64;
    for share in [
        &mut sum.time.backlogged,
        &mut sum.time.receive_window,
        &mut sum.time.send_buffer,
        &mut sum.time.starved,
        &mut sum.time.congestion_window,
        &mut sum.time.pacing,
        &mut sum.traffic.rtt_s,
        &mut sum.traffic.mss_bytes,
    ] {
        *share /= count;
    }
    (sum.ramp.share, sum.ramp.plateau_bytes_per_s) = ramp(&arrived, window, facts.path.rtt_s);
    let opening = Opening::of(&tracks, window, sum.ramp.share);
    if !opening.is_ramp() {
        sum.ramp.share = 0.0;
    }
    sum.ramp.is_growing = opening.is_growing;
    sum.traffic.pacing_cap_bytes_per_s = tracks.iter().map(cap).sum();
    let offered: f64 = tracks.iter().map(|track| f64::from(track.most(&track.table.snd_wnd_bytes))).sum();
    facts.receiver.window_bytes = (offered > 0.0).then_some(offered);
    facts.path.line_bytes_per_s =
        Some(line(&tracks, peak(&arrived, window, facts.path.rtt_s)).max(facts.current.bytes_per_s))
            .filter(|rate| *rate > 0.0);
    facts.sender = Some(sum);
    Ok(())
}

/// Smoothed RTT of the near end's data, mean over its samples in the window.
fn loaded_rtt_s(all: &[Sockets], window: Span) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for table in all {
        for track in tracks(table, Host::Near, window) {
            for row in track.rows.iter().filter(|row| table.rtt_ns[**row] > 0) {
                sum += table.rtt_ns[*row] as f64 / 1e9;
                count += 1.0;
            }
        }
    }
    (count > 0.0).then(|| sum / count)
}

/// Converts the far host's samples to the near host's clock; with an unknown offset, moves them outside of every
/// window.
fn relate(table: &mut Sockets, clock: &ClockOffset) {
    for (t_ns, host) in table.t_ns.iter_mut().zip(&table.host) {
        if *host == Host::Far {
            *t_ns = if clock.is_unknown() { u64::MAX } else { clock.to_near(*t_ns) };
        }
    }
}

/// Lower bound of the line's capacity: best delivery rate of all connections together; if their best rates were at
/// different times, that of the best one, or the arrival rate of all.
fn line(tracks: &[Track], arrived_bytes_per_s: Option<f64>) -> f64 {
    let best = tracks.iter().map(Track::delivered);
    let (all, most) = best.fold((0.0, 0.0f64), |(all, most), one| (all + one, most.max(one)));
    all.min(most.max(arrived_bytes_per_s.unwrap_or(0.0)))
}

/// Samples of one connection in the window, in order, and those before it.
struct Track<'a> {
    table: &'a Sockets,
    rows: Vec<usize>,
    before: Vec<usize>,
}

impl Track<'_> {
    fn most(&self, column: &[u32]) -> u32 {
        self.rows.iter().map(|row| column[*row]).max().unwrap_or(0)
    }

    fn delivered(&self) -> f64 {
        let rates = self.rows.iter().map(|row| self.table.delivery_rate_bytes_per_s[*row]);
        rates.max().unwrap_or(0) as f64
    }

    fn grown(&self, column: &dyn Fn(usize) -> u64) -> f64 {
        match (self.rows.first(), self.rows.last()) {
            (Some(first), Some(last)) => column(*last).saturating_sub(column(*first)) as f64,
            _ => 0.0,
        }
    }
}

/// The connections of a host that have at least two samples in the window and sent or received anything.
fn tracks(table: &Sockets, host: Host, window: Span) -> Vec<Track<'_>> {
    let mut found: Vec<(u32, Track)> = Vec::new();
    for row in 0..table.t_ns.len() {
        if table.host[row] != host || table.t_ns[row] > window.end_ns {
            continue;
        }
        let number = table.connection[row];
        let place = found.iter().position(|(n, _)| *n == number).unwrap_or_else(|| {
            found.push((number, Track { table, rows: Vec::new(), before: Vec::new() }));
            found.len() - 1
        });
        let Track { rows, before, .. } = &mut found[place].1;
        if table.t_ns[row] < window.start_ns { before.push(row) } else { rows.push(row) }
    }
    let mut tracks: Vec<Track> = found.into_iter().map(|(_, track)| track).collect();
    tracks.retain_mut(|track| {
        track.rows.sort_unstable_by_key(|row| table.t_ns[*row]);
        track.before.sort_unstable_by_key(|row| table.t_ns[*row]);
        track.rows.len() > 1
            && track.grown(&|row| table.app_tx_bytes[row].saturating_add(table.app_rx_bytes[row])) > 0.0
    });
    tracks
}

fn tracks_count(table: &Sockets, host: Host, window: Span) -> usize {
    tracks(table, host, window).len()
}

/// Facts of one connection; shares are of the time between its first sample and its last.
fn one(track: &Track) -> TcpSender {
    let Track { table, rows, before } = track;
    let (mut time, mut traffic) = (SenderTime::default(), SenderTraffic::default());
    let (mut whole, mut paced) = (0.0, 0.0);
    let mut pacing_sum = 0.0;
    // A window of 0 is closed, unless there never was another one: then it is unknown.
    let knows_window = track.most(&table.snd_wnd_bytes) > 0;
    for step in rows.windows(2) {
        let (row, next) = (step[0], step[1]);
        let length = (table.t_ns[next] - table.t_ns[row]) as f64;
        whole += length;
        let mss = f64::from(table.mss_bytes[row]);
        let (flight, cwnd) = (f64::from(table.unacked_packets[row]), f64::from(table.cwnd_packets[row]));
        traffic.cwnd_bytes += cwnd * mss * length;
        traffic.flight_bytes += flight * mss * length;
        traffic.rtt_s += table.rtt_ns[row] as f64 / 1e9 * length;
        let pacing = table.pacing_rate_bytes_per_s[row];
        if pacing < u64::MAX - 1 {
            paced += length;
            pacing_sum += pacing as f64 * length;
        }
        // With more data at hand the socket is kept filled; data above it may wait for other reasons.
        let waits = f64::from(table.notsent_bytes[row]) >= mss;
        let is_starved = !waits && table.unsent_bytes[row] as f64 >= mss;
        if waits {
            time.backlogged += length;
        } else if !is_starved {
            continue;
        }
        let repairs = !matches!(table.state[row], CongestionState::Open | CongestionState::Disorder);
        let window_bytes = f64::from(table.snd_wnd_bytes[row]);
        let is_shut = knows_window && (flight + 2.0) * mss >= FULL * window_bytes;
        if repairs || flight >= FULL * cwnd {
            time.congestion_window += if waits { length } else { 0.0 };
        } else if !is_shut && is_starved {
            time.starved += length;
        } else if !is_shut && pacing != u64::MAX {
            time.pacing += length;
        }
    }
    let mss = rows.last().map_or(0.0, |row| f64::from(table.mss_bytes[*row]));
    let part = |value: f64| if whole > 0.0 { value / whole } else { 0.0 };
    let of_time = |ns: f64| if whole > 0.0 { (ns / whole).min(1.0) } else { 0.0 };
    let sent = track.grown(&|row| table.app_tx_bytes[row]);
    let until_first: Vec<usize> = before.iter().chain(rows.first()).copied().collect();
    let (earlier_local, earlier_losses) = earlier_cuts(table, &until_first);
    TcpSender {
        time: SenderTime {
            backlogged: part(time.backlogged),
            receive_window: of_time(track.grown(&|row| table.rwnd_limited_ns[row])),
            send_buffer: of_time(track.grown(&|row| table.sndbuf_limited_ns[row])),
            starved: part(time.starved),
            congestion_window: part(time.congestion_window),
            pacing: part(time.pacing),
        },
        traffic: SenderTraffic {
            cwnd_bytes: part(traffic.cwnd_bytes),
            flight_bytes: part(traffic.flight_bytes),
            rtt_s: part(traffic.rtt_s),
            mss_bytes: mss,
            retransmitted: track.grown(&|row| u64::from(table.retransmitted_packets[row])),
            packets: if mss > 0.0 { sent / mss } else { 0.0 },
            pacing_bytes_per_s: (paced > 0.0).then(|| pacing_sum / paced),
            pacing_cap_bytes_per_s: None,
        },
        cuts: CwndCuts {
            local: Cuts::among(table, rows).local as f64,
            earlier_local,
            earlier_losses,
            restarts: restarts(table, rows),
        },
        ..TcpSender::default()
    }
}

/// Window cuts by the sender's own device, and by losses: from samples, or the number of entries into the kernel's
/// states. In slow start a window grows between two samples by more than a cut takes away, and only the state shows it.
fn earlier_cuts(table: &Sockets, rows: &[usize]) -> (f64, f64) {
    let told = Cuts::among(table, rows);
    let (mut local, mut lost) = (0, 0);
    for step in rows.windows(2) {
        let (was, is) = (step[0], step[1]);
        let is_same = |column: &[u32]| column[was] == column[is];
        let is_alone = is_same(&table.retransmitted_packets) && is_same(&table.marked_packets);
        match table.state[is] {
            state if state == table.state[was] => {}
            CongestionState::Cwr if is_alone => local += 1,
            CongestionState::Recovery | CongestionState::Loss => lost += 1,
            _ => {}
        }
    }
    (told.local.max(local) as f64, (told.loss + told.timeout).max(lost) as f64)
}

/// Sums over connections; the caller divides means by their number.
fn add(sum: TcpSender, other: &TcpSender) -> TcpSender {
    let (time, traffic, cuts) = (&other.time, &other.traffic, &other.cuts);
    let pacing = match (sum.traffic.pacing_bytes_per_s, traffic.pacing_bytes_per_s) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    TcpSender {
        time: SenderTime {
            backlogged: sum.time.backlogged + time.backlogged,
            receive_window: sum.time.receive_window + time.receive_window,
            send_buffer: sum.time.send_buffer + time.send_buffer,
            starved: sum.time.starved + time.starved,
            congestion_window: sum.time.congestion_window + time.congestion_window,
            pacing: sum.time.pacing + time.pacing,
        },
        traffic: SenderTraffic {
            cwnd_bytes: sum.traffic.cwnd_bytes + traffic.cwnd_bytes,
            flight_bytes: sum.traffic.flight_bytes + traffic.flight_bytes,
            rtt_s: sum.traffic.rtt_s + traffic.rtt_s,
            mss_bytes: sum.traffic.mss_bytes + traffic.mss_bytes,
            retransmitted: sum.traffic.retransmitted + traffic.retransmitted,
            packets: sum.traffic.packets + traffic.packets,
            pacing_bytes_per_s: pacing,
            ..sum.traffic
        },
        cuts: CwndCuts {
            local: sum.cuts.local + cuts.local,
            earlier_local: sum.cuts.earlier_local + cuts.earlier_local,
            earlier_losses: sum.cuts.earlier_losses + cuts.earlier_losses,
            restarts: sum.cuts.restarts + cuts.restarts,
        },
        ..sum
    }
}

/// Pacing rate of a connection if it is constant; a rate that follows a window or a path never is.
fn cap(Track { table, rows, .. }: &Track) -> Option<f64> {
    let mut rates: Vec<u64> = rows.iter().map(|row| table.pacing_rate_bytes_per_s[*row]).collect();
    rates.sort_unstable();
    let alike = rates.chunk_by(|a, b| a == b).max_by_key(|alike| alike.len())?;
    let stays = rows.len() >= CAPPED_LEAST && alike.len() as f64 >= CAPPED * rows.len() as f64;
    Some(alike[0]).filter(|rate| stays && *rate < u64::MAX - 1).map(|rate| rate as f64)
}

/// Windows that a pause closed: the window is small after nothing was under way, and nothing was lost.
fn restarts(table: &Sockets, rows: &[usize]) -> f64 {
    let is_restart = |step: &&[usize]| {
        let (before, after) = (step[0], step[1]);
        let (was, is) = (table.cwnd_packets[before], table.cwnd_packets[after]);
        let lost = table.retransmitted_packets[after] != table.retransmitted_packets[before];
        was > 2 * RESTART_PACKETS && is <= RESTART_PACKETS && !lost
    };
    rows.windows(2).filter(is_restart).count() as f64
}

/// Largest command window that a host reports; the target's own report comes first.
fn widest(all: &[Sockets], host: Host) -> Option<f64> {
    let of = |table: &Sockets| {
        let rows = (0..table.t_ns.len()).filter(|row| table.host[*row] == host);
        rows.map(|row| table.command_window[row]).max()
    };
    all.iter().filter_map(of).max().filter(|most| *most > 0).map(f64::from)
}

/// Use of a host's event loops: the busiest one counts.
fn loops(table: &Sockets, host: Host, window: Span, facts: &mut Facts) {
    let inside = |row: &usize| {
        table.host[*row] == host && (window.start_ns..=window.end_ns).contains(&table.t_ns[*row])
    };
    let rows = || (0..table.t_ns.len()).filter(inside);
    let first = rows().min_by_key(|row| table.t_ns[*row]);
    let last = rows().max_by_key(|row| table.t_ns[*row]);
    let (Some(first), Some(last)) = (first, last) else { return };
    let length = (table.t_ns[last] - table.t_ns[first]) as f64;
    if length <= 0.0 {
        return;
    }
    let share = |column: &[u64]| (column[last].saturating_sub(column[first]) as f64 / length).min(1.0);
    let (idle, cpu) = (share(&table.loop_idle_ns), share(&table.loop_cpu_ns));
    let is_near = host == Host::Near;
    let place = if is_near { &mut facts.loops.idle.near } else { &mut facts.loops.idle.far };
    if place.is_none_or(|least| idle < least) {
        *place = Some(idle);
        *(if is_near { &mut facts.loops.cpu.near } else { &mut facts.loops.cpu.far }) = Some(cpu);
    }
}

/// The share of the window until data arrived as fast as in its second half, and that rate.
fn ramp(rate: &dyn Fn(Span) -> f64, window: Span, rtt_s: Option<f64>) -> (f64, f64) {
    let middle_ns = window.start_ns + (window.end_ns - window.start_ns) / 2;
    let plateau = rate(Span { start_ns: middle_ns, end_ns: window.end_ns });
    let reached = steps(window, rtt_s).find(|step| rate(*step) >= REACHED * plateau);
    let until = reached.map_or(window.end_ns, |step| step.start_ns);
    let length = window.length_s();
    let share = if length > 0.0 { (until - window.start_ns) as f64 / 1e9 / length } else { 0.0 };
    (share, plateau)
}

/// Congestion windows during the ramp of a load, and the end of the ramp.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Opening {
    /// Mean windows of all connections together, until the rate was reached or the middle, and from the middle on.
    before_packets: f64,
    later_packets: f64,
    /// Share of the ramp in which something else was the limiter.
    held: f64,
    /// True if all of them were still opening at the end.
    is_growing: bool,
}

impl Opening {
    /// `share` is the part of the window until the load was as fast as later.
    fn of(tracks: &[Track], window: Span, share: f64) -> Opening {
        let length_ns = window.end_ns.saturating_sub(window.start_ns);
        let until_ns = window.start_ns + (length_ns as f64 * share.min(0.5)) as u64;
        let middle_ns = window.start_ns + length_ns / 2;
        let mut all = Opening { is_growing: !tracks.is_empty(), ..Opening::default() };
        for Track { table, rows, .. } in tracks {
            let cwnd = |row: usize| f64::from(table.cwnd_packets[row]);
            let (early, late) = (
                &rows[..rows.partition_point(|row| table.t_ns[*row] < until_ns)],
                &rows[rows.partition_point(|row| table.t_ns[*row] < middle_ns)..],
            );
            let mean =
                |rows: &[usize]| rows.iter().map(|row| cwnd(*row)).sum::<f64>() / rows.len().max(1) as f64;
            all.before_packets += mean(early);
            all.later_packets += mean(late);
            all.held += held(table, early) / tracks.len() as f64;
            let (Some(middle), Some(end)) = (late.first(), late.last()) else { continue };
            let is_open = table.state[*end] == CongestionState::Open
                && table.cwnd_packets[*end] < table.ssthresh_packets[*end];
            all.is_growing &= is_open && cwnd(*end) >= GROWING * cwnd(*middle);
        }
        all
    }

    /// True if windows opened, and nothing else limited the ramp.
    fn is_ramp(&self) -> bool {
        let has_opened = self.before_packets > 0.0 && self.before_packets <= OPENED * self.later_packets;
        has_opened && self.held < OPENED
    }
}

/// Share of a time in which the peer's window or the send buffer was the limiter.
fn held(table: &Sockets, rows: &[usize]) -> f64 {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return 0.0 };
    let length = table.t_ns[*last].saturating_sub(table.t_ns[*first]) as f64;
    let grown = |column: &[u64]| column[*last].saturating_sub(column[*first]) as f64;
    let waited = grown(&table.rwnd_limited_ns) + grown(&table.sndbuf_limited_ns);
    if length > 0.0 { waited / length } else { 0.0 }
}

/// Best rate of any step: a lower bound of the line's capacity.
fn peak(rate: &dyn Fn(Span) -> f64, window: Span, rtt_s: Option<f64>) -> Option<f64> {
    steps(window, rtt_s).map(rate).reduce(f64::max).filter(|rate| *rate > 0.0)
}

fn steps(window: Span, rtt_s: Option<f64>) -> impl Iterator<Item = Span> {
    let length_ns = window.end_ns.saturating_sub(window.start_ns);
    let step_ns = rtt_s.map_or(STEP_NS, |s| ((s * 1e9) as u64).max(STEP_NS)).max(length_ns / 1000).max(1);
    let step = move |n: u64| Span {
        start_ns: window.start_ns + n * step_ns,
        end_ns: window.start_ns + (n + 1) * step_ns,
    };
    (0..length_ns / step_ns).map(step)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
