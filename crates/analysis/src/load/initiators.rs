//! Several initiators with the same load at the same time: their tables merged, and the throughput of each.
//!
//! The tables of the first initiator and the first far host are in the cell's directory; those of the others are in
//! directories below it with the names of their hosts, `near2`, `far2` and so on.

use std::path::Path;

use event::{Direction, Io, Op, SocketSample};
use tables::CellDir;
use tables::manifest::{Cell, Load};
use tables::{Ios, Sockets, TableError};

use super::arrivals::{Arrivals, window};

/// Limit on connection numbers of one process; those of the next host begin there.
const CONNECTIONS_PER_HOST: u32 = 1 << 16;

/// Tables and load of all initiators of a cell.
pub(crate) struct Initiators {
    /// The first one's load, over the time in which all were active.
    pub(crate) load: Load,
    /// Every connection of them and of the far hosts, with numbers of its own.
    pub(crate) sockets: Option<Sockets>,
    /// All their requests.
    pub(crate) io: Option<Ios>,
    /// Throughput of each, bits per second over the window; empty for one alone.
    pub(crate) throughputs: Vec<f64>,
}

/// Reads the tables of all hosts that belong to the load.
pub(crate) fn gather(dir: &CellDir, first: Load, others: &[Load]) -> Result<Initiators, TableError> {
    let CellDir { cell, path } = dir;
    let sockets = tables::read_optional::<SocketSample>(path)?;
    let io = tables::read_optional::<Io>(path)?;
    if cell.initiators <= 1 && cell.targets <= 1 {
        return Ok(Initiators { load: first, sockets, io, throughputs: Vec::new() });
    }
    let mut load = together(first.clone(), others);
    if cell.targets <= 1 {
        count_all_requests(&mut load, others);
    }
    let mut all = Initiators { load, sockets, io, throughputs: Vec::new() };
    all.throughputs.extend(share(&all, cell, &first, all.sockets.as_ref(), all.io.as_ref()));
    for n in 2..=cell.initiators {
        let sockets = tables::read_optional::<SocketSample>(&path.join(format!("near{n}")))?;
        let io = tables::read_optional::<Io>(&path.join(format!("near{n}")))?;
        // A stream that goes there is counted at the far host of its own.
        let there = match first.direction.as_deref() == Some(Direction::NearToFar.name()) {
            true => tables::read_optional::<SocketSample>(&path.join(format!("far{n}")))?,
            false => None,
        };
        if let Some(load) = others.get(n as usize - 2) {
            let own = there.as_ref().or(sockets.as_ref());
            all.throughputs.extend(share(&all, cell, load, own, io.as_ref()));
        }
        all.add(sockets, n - 1);
        match (&mut all.io, io) {
            (Some(all), Some(io)) => all.append(io),
            (all, io) => *all = all.take().or(io),
        }
    }
    for n in 2..=cell.targets {
        let sockets = read_below(path, &format!("far{n}"))?;
        all.add(sockets, n - 1);
    }
    // An initiator without a document has no share, so shares cannot be compared.
    if all.throughputs.len() < cell.initiators as usize {
        all.throughputs.clear();
    }
    Ok(all)
}

/// The first one's load, over the time in which all were active.
pub(crate) fn together(first: Load, others: &[Load]) -> Load {
    let (start_ns, end_ns) = (first.t_start_ns, first.t_end_ns);
    Load {
        t_start_ns: others.iter().map(|load| load.t_start_ns).fold(start_ns, u64::max),
        t_end_ns: others.iter().map(|load| load.t_end_ns).fold(end_ns, u64::min),
        ..first
    }
}

/// The first one's document has the CPU time of the target for all requests, but counts only its own requests.
fn count_all_requests(load: &mut Load, others: &[Load]) {
    let all_ios = others.iter().map(|load| load.ios).fold(load.ios, u64::saturating_add);
    if let Some(far_ns_per_io) = load.cpu.as_mut().and_then(|cpu| cpu.far_ns_per_io.as_mut()) {
        *far_ns_per_io *= load.ios as f64 / all_ios.max(1) as f64;
    }
}

/// Jain's fairness index: 1 for equal shares, 1 ÷ n if one of n has everything.
pub(crate) fn fairness(throughputs: &[f64]) -> Option<f64> {
    let sum: f64 = throughputs.iter().sum();
    let squares: f64 = throughputs.iter().map(|rate| rate * rate).sum();
    (squares > 0.0).then(|| sum * sum / (throughputs.len() as f64 * squares))
}

impl Initiators {
    fn add(&mut self, sockets: Option<Sockets>, host: u32) {
        let Some(mut sockets) = sockets else { return };
        for connection in &mut sockets.connection {
            *connection = connection.saturating_add(host * CONNECTIONS_PER_HOST);
        }
        match &mut self.sockets {
            Some(all) => all.append(sockets),
            all => *all = Some(sockets),
        }
    }
}

fn read_below(path: &Path, host: &str) -> Result<Option<Sockets>, TableError> {
    tables::read_optional::<SocketSample>(&path.join(host))
}

/// Throughput of one initiator in the common window. Writes count when they are acknowledged: the far host's bytes are
/// those of all initiators.
fn share(
    all: &Initiators,
    cell: &Cell,
    load: &Load,
    sockets: Option<&Sockets>,
    io: Option<&Ios>,
) -> Option<f64> {
    let sockets = sockets.filter(|_| load.op != Op::Write.name());
    Arrivals::of(load, sockets, io)?.over(window(cell, &all.load)).map(|figure| figure.bits_per_s)
}

#[cfg(test)]
mod tests {
    use event::Host;
    use tables::Writer;
    use tables::manifest::{Cpu, Window};

    use super::*;
    use crate::tcp::sockets::tests::sample;

    const S: u64 = 1_000_000_000;

    #[test]
    fn jains_index() {
        assert_eq!(fairness(&[1.0, 1.0, 1.0, 1.0]), Some(1.0));
        assert_eq!(fairness(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(fairness(&[3.0, 1.0]), Some(0.8));
        assert_eq!(fairness(&[0.0, 0.0]), None);
        assert_eq!(fairness(&[]), None);
    }

    #[test]
    fn the_target_works_for_the_requests_of_all() {
        let cpu = Cpu { near_ns_per_io: Some(7.0), far_ns_per_io: Some(12.0), ..Cpu::default() };
        let mut first = Load { ios: 100, cpu: Some(cpu), ..Load::default() };
        let other = Load { ios: 300, ..Load::default() };
        count_all_requests(&mut first, &[other]);
        let cpu = first.cpu.unwrap();
        assert_eq!((cpu.near_ns_per_io, cpu.far_ns_per_io), (Some(7.0), Some(3.0)));
    }

    fn near(dir: &Path, start_ns: u64, bytes_per_10_ms: u64) {
        std::fs::create_dir_all(dir).unwrap();
        let mut table = Writer::<SocketSample>::create(dir.join("sockets-near.parquet")).unwrap();
        for i in 0..=400u64 {
            table.push(&sample(start_ns + i * 10_000_000, Host::Near, i * bytes_per_10_ms)).unwrap();
        }
        table.finish().unwrap();
    }

    #[test]
    fn what_each_got_and_what_all_did() {
        let temp = tempfile::tempdir().unwrap();
        near(temp.path(), S, 750_000);
        near(&temp.path().join("near2"), S + S / 20, 250_000);
        let load = |t_start_ns| Load {
            op: "read".to_owned(),
            t_start_ns,
            t_end_ns: t_start_ns + 4 * S,
            ..Load::default()
        };
        let cell = Cell {
            initiators: 2,
            targets: 1,
            window: Some(Window { start_s: 1.0, length_s: 2.0 }),
            ..Cell::default()
        };
        let dir = CellDir { path: temp.path().to_owned(), cell };
        let all = gather(&dir, load(S), &[load(S + S / 20)]).unwrap();
        assert_eq!((all.load.t_start_ns, all.load.t_end_ns), (S + S / 20, 5 * S));
        let rounded: Vec<f64> = all.throughputs.iter().map(|rate| rate.round()).collect();
        assert_eq!(rounded, [600e6, 200e6]);
        let whole = Arrivals::of(&all.load, all.sockets.as_ref(), None).unwrap();
        let figure = whole.over(window(&dir.cell, &all.load)).unwrap();
        assert_eq!(figure.bits_per_s.round(), 800e6);
        // Without the other's document no share is known.
        assert!(gather(&dir, load(S), &[]).unwrap().throughputs.is_empty());
    }
}
