//! One capture: files that follow each other, and files that show one direction each and are read side by side.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use analysis::capture::DiagnosedCapture;
use analysis::gaps;
use analysis::gaps::capture::GapCollector;
use dissect::{ConnectionSummary, Dissection, Dissector, FileEnd, FirstPackets, PacketReader, RowSink};
use indicatif::{ProgressBar, ProgressStyle};

use super::captured::{Captured, Member, Unit};
use super::source::{Bytes, Opened, Source, explain, is_pipe, name};

/// Acknowledgements of a direction from which on their place says something of clocks.
const ACKS_MIN: u64 = 20;

/// A capture that is being read.
pub(super) struct Tapped {
    units: Vec<Unit>,
    interfaces: Vec<String>,
    dissector: Dissector,
    gaps: GapCollector,
    dropped: u64,
    cut: Option<String>,
    /// Files that show one direction each: the name of each side and the first packets of it.
    sides: Vec<(String, FirstPackets)>,
}

impl Tapped {
    pub(super) fn new(interfaces: &[String]) -> Tapped {
        Tapped {
            units: Vec::new(),
            interfaces: interfaces.to_vec(),
            dissector: Dissector::with_interfaces(interfaces.to_vec()),
            gaps: GapCollector::default(),
            dropped: 0,
            cut: None,
            sides: Vec::new(),
        }
    }

    /// Reads the files of a finished capture again, for their rows alone.
    pub(super) fn again(read: &Captured, rows: &mut dyn RowSink) -> anyhow::Result<()> {
        Tapped::new(&read.interfaces).walk(&read.units, rows)
    }

    fn walk(&mut self, units: &[Unit], rows: &mut dyn RowSink) -> anyhow::Result<()> {
        for unit in units {
            let opened = unit.iter().map(|member| Ok((member.clone(), Source::alone(&member.path)?.open()?)));
            self.read_unit(opened.collect::<anyhow::Result<_>>()?, rows)?;
        }
        Ok(())
    }

    /// Time of the latest packet in ns.
    pub(super) fn last_ns(&self) -> u64 {
        self.dissector.last_ns()
    }

    /// Returns true if a file that begins with these packets continues this capture.
    pub(super) fn goes_on_with(&self, first: &FirstPackets) -> bool {
        if self.last_ns() <= first.first_ns() {
            !self.dissector.has_seen(first)
        } else {
            self.dissector.goes_on_with(first)
        }
    }

    /// Reads the files of a unit.
    pub(super) fn take(&mut self, mut sources: Vec<Source>, rows: &mut dyn RowSink) -> anyhow::Result<()> {
        let is_joined = sources.len() > 1;
        let mut opened = Vec::new();
        for source in &mut sources {
            let side = is_joined.then(|| self.side(source));
            opened.push((Member { path: source.path.clone(), side }, source.open()?));
        }
        self.read_unit(opened, rows)
    }

    /// Name of the side that a file shows: that of an earlier file with the same direction, or its own.
    fn side(&mut self, source: &Source) -> String {
        if let Some((side, _)) = self.sides.iter().find(|(_, first)| first.shows_same(&source.first)) {
            return side.clone();
        }
        let side = source
            .path
            .file_name()
            .map_or_else(|| name(&source.path), |own| own.to_string_lossy().into_owned());
        self.sides.push((side.clone(), source.first.clone()));
        side
    }

    fn read_unit(&mut self, opened: Vec<(Member, Opened)>, rows: &mut dyn RowSink) -> anyhow::Result<()> {
        let bar = bar(opened.iter().map(|(_, one)| one.len).sum());
        let counts: Vec<_> = opened.iter().map(|(_, one)| one.read.clone()).collect();
        let read = || counts.iter().map(|count| count.get()).sum();
        let mut rows = (&mut self.gaps, rows);
        let (mut unit, mut ends) = (Unit::new(), Vec::new());
        if opened.len() == 1 {
            for (member, one) in opened {
                let end = self.dissector.read_file(one.bytes, &mut rows, |_| bar.set_position(read()));
                ends.push(end.map_err(|error| explain(&member.path, error))?);
                unit.push(member);
            }
        } else {
            let mut readers: Vec<_> =
                opened.into_iter().map(|(member, one)| SideReader::new(member, one.bytes)).collect();
            // The one that is furthest behind is read on; the dissector puts packets of both in order.
            while let Some(reader) =
                readers.iter_mut().filter(|one| !one.is_over).min_by_key(|one| one.last_ns)
            {
                reader.packet(&mut self.dissector, &mut rows)?;
                if reader.number.is_multiple_of(4_096) {
                    bar.set_position(read());
                }
            }
            self.dissector.end_file(&mut rows);
            for SideReader { member, packets, .. } in readers {
                ends.push(packets.end());
                unit.push(member);
            }
        }
        bar.finish_and_clear();
        for FileEnd { dropped, cut } in ends {
            self.dropped += dropped;
            self.cut = self.cut.take().or(cut);
        }
        self.units.push(unit);
        Ok(())
    }

    pub(super) fn finish(self, points: usize) -> anyhow::Result<Captured> {
        let several = self.units.iter().flatten().count() > 1;
        let cut = self.cut.map(|cut| if several { format!("{cut} (a file of several)") } else { cut });
        let mut gaps = self.gaps;
        let dissection = self.dissector.finish(self.dropped, cut, &mut gaps);
        // A pipe cannot be read twice.
        let are_files = !self.units.iter().flatten().any(|member| is_pipe(&member.path));
        if let Some(alone) = gaps.again(&dissection).filter(|_| are_files) {
            let mut again = Tapped { gaps: alone, ..Tapped::new(&self.interfaces) };
            again.walk(&self.units, &mut ())?;
            gaps = again.gaps;
        }
        let drawing = gaps::Drawing { origin_ns: dissection.totals.begin_ns, points };
        let gaps = gaps.finish(&dissection, drawing);
        let notes = notes(&self.units, &dissection);
        let capture = DiagnosedCapture::new(dissection);
        Ok(Captured {
            units: self.units,
            interfaces: self.interfaces,
            capture,
            gaps,
            shared: Vec::new(),
            notes,
        })
    }
}

/// Sentences about files that were joined.
fn notes(units: &[Unit], capture: &Dissection) -> Vec<String> {
    let mut notes = Vec::new();
    for unit in units.iter().filter(|unit| unit.len() > 1) {
        let names: Vec<String> = unit.iter().map(|member| name(&member.path)).collect();
        notes.push(format!(
            "{} show one direction each of the same connections and are one capture, joined by their stamps",
            names.join(" and ")
        ));
    }
    let are_other_clocks = |connection: &ConnectionSummary| {
        let [first, second] = &connection.directions;
        first.interface != second.interface
            && connection.directions.iter().any(|one| one.acks >= ACKS_MIN && one.early_acks * 2 > one.acks)
    };
    let apart = capture.connections.iter().filter(|connection| are_other_clocks(connection)).count();
    if apart > 0 && !notes.is_empty() {
        notes.push(format!(
            "in {apart} of the connections acknowledgements stand before their data: the clocks of the files differ, and \
             times between directions are not valid; capture both directions on one host: tcpdump -i INTERFACE -w FILE"
        ));
    }
    notes
}

/// Reader of one side.
struct SideReader {
    member: Member,
    packets: PacketReader<Bytes>,
    number: u64,
    last_ns: u64,
    is_over: bool,
}

impl SideReader {
    fn new(member: Member, bytes: Bytes) -> Self {
        Self { member, packets: PacketReader::new(bytes), number: 0, last_ns: 0, is_over: false }
    }

    /// Passes the next packet on.
    fn packet(&mut self, dissector: &mut Dissector, rows: &mut dyn RowSink) -> anyhow::Result<()> {
        let next = self.packets.next_packet().map_err(|error| explain(&self.member.path, error))?;
        let Some((packet, interface)) = next else {
            self.is_over = true;
            return Ok(());
        };
        self.number += 1;
        self.last_ns = packet.t_ns;
        let side = self.member.side.as_deref().unwrap_or(interface);
        dissector.packet_of(&packet, side, self.number, rows);
        Ok(())
    }
}

/// Drawn for people: of a file with its end, of a pipe the bytes so far.
fn bar(bytes: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    if bytes == 0 {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(200));
        return bar;
    }
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
