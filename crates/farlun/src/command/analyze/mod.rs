//! `farlun analyze`: connections, PDUs and commands of captures, and the limiter of each connection. `dissect` reads the
//! packets, `analysis::capture` diagnoses.

mod captured;
mod compressed;
mod files;
mod lines;
mod packets;
mod source;
mod tapped;

use std::io::stdout;
use std::path::{Path, PathBuf};

use analysis::Tour;
use analysis::capture::DiagramSink;
use anyhow::Context;
use report::terminal::{self, Colour};
use serde_json::{Value, json};
use tables::RunDir;

use crate::exit::{self, Exit};
use captured::{Captured, Shared, names};
use files::{Captures, Unreadable};
use lines::{Lines, List};
use packets::Table;
use source::is_pipe;
use tapped::Tapped;

/// Packets of the diagram of a page.
const PACKETS: usize = 6_000;
/// Points of each of its pictures of gaps.
const GAPS: usize = 4_000;

/// Say what captures hold: TCP connections, the iSCSI in them, of whatever stacks, and what limits it.
///
/// Reads pcap and pcapng, plain or in gzip, zstd, xz and lz4, whole packets or their beginnings only; `-` is standard
/// input. A file that is cut off is read up to the cut. Files that follow each other in time are one capture, and so are
/// files that show one direction each; of run directories the tables are read. A connection that several interfaces of a
/// file show appears once, as seen nearest its initiator.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  farlun analyze slow.pcap\n  farlun analyze ring.pcap* --out slow\n  farlun analyze wan.pcapng --interface far\n  ssh HOST tcpdump -i eth0 -s 160 -w - port 3260 | farlun analyze -\n  farlun analyze slow.pcap --list commands > commands.tsv"
)]
pub(crate) struct AnalyzeArgs {
    /// Capture files and run directories.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Look only at packets of this interface of pcapng files, by name or number; given again, at further ones.
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    /// Print one JSON document instead of tables.
    #[arg(long, conflicts_with = "list")]
    json: bool,
    /// Print one line for each of these instead, fields between tabs.
    #[arg(long, value_name = "WHAT")]
    list: Option<List>,
    /// Write report.html there, with the packet transfer diagram; of several captures, one page each.
    #[arg(long, value_name = "DIR", conflicts_with = "list")]
    out: Option<PathBuf>,
    /// Write the segments of all connections as a Parquet table there, packets.parquet; of one capture.
    #[arg(long, value_name = "DIR", conflicts_with = "list")]
    packets: Option<PathBuf>,
}

pub(crate) fn run(args: AnalyzeArgs) -> anyhow::Result<u8> {
    let AnalyzeArgs { paths, interfaces, json, list, out, packets } = args;
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(|path| path.is_dir());
    let runs = folders.iter().map(RunDir::open).collect::<Result<Vec<_>, _>>().map_err(Exit::usage)?;
    if let Some(list) = list {
        if let Some(folder) = folders.first() {
            return Err(Exit::usage(format!("{} is a folder; --list needs capture files", folder.display())));
        }
        return lists(&files, &interfaces, list);
    }
    let twice = [("--out", out.is_some()), ("--packets", packets.is_some())];
    if let Some((flag, _)) = twice.iter().find(|(_, is_asked)| *is_asked)
        && let Some(pipe) = files.iter().find(|path| is_pipe(path))
    {
        return Err(Exit::usage(format!(
            "{flag} reads twice, and {} is no regular file; keep what comes in one first",
            source::name(pipe)
        )));
    }
    let points = if out.is_some() { GAPS } else { 0 };
    let Captures { read: captures, unreadable } = files::read(&files, &interfaces, points, &mut ())?;
    let pages = match &out {
        Some(out) => files::in_folder(out, &captures, page)?,
        None => Vec::new(),
    };
    let table = packets.map(|folder| table(&folder, &captures)).transpose()?;
    let tours = runs.iter().map(Tour::collect).collect::<Result<Vec<_>, _>>()?;
    if json {
        let mut document = document(&captures, &tours, &folders, &pages, table.as_ref())?;
        if !unreadable.is_empty() {
            document["unreadable"] = json!(unreadable);
        }
        say!("{document}");
        return Ok(end(&unreadable));
    }
    let colour = Colour::on(&stdout());
    let mut parts: Vec<String> = Vec::new();
    let is_alone = captures.len() + tours.len() == 1;
    for read in &captures {
        let name = if is_alone { String::new() } else { format!("{}\n", read.names()) };
        let notes = read.notes.iter().cloned().chain(again(read, &captures));
        let notes = notes.map(|sentence| format!("{sentence}\n")).collect::<String>();
        let told = terminal::capture(&read.capture, colour);
        parts.push(format!("{name}{notes}{}", told.trim_end()));
        let gaps = read.gaps.iter().map(|found| terminal::gaps(found, colour).trim_end().to_owned());
        parts.extend(gaps.filter(|text| !text.is_empty()));
    }
    for (folder, tour) in folders.iter().zip(&tours) {
        parts.push(format!("{}\n{}", folder.display(), terminal::summary(tour, colour).trim_end()));
    }
    parts.extend((!pages.is_empty()).then(|| names(&pages)));
    parts.extend(table.map(|Table { path, rows, hosts }| {
        let hosts: Vec<String> = hosts.iter().map(|(number, ip)| format!("host {number} is {ip}")).collect();
        format!("{}: {rows} packets; {}", path.display(), hosts.join(", "))
    }));
    say!("{}", parts.join("\n\n"));
    Ok(end(&unreadable))
}

/// Names the files that were left out; the exit code.
fn end(unreadable: &[Unreadable]) -> u8 {
    for Unreadable { error, .. } in unreadable {
        note!("farlun: left out: {error}");
    }
    if unreadable.is_empty() { exit::DONE } else { exit::FAILED }
}

fn lists(files: &[PathBuf], interfaces: &[String], list: List) -> anyhow::Result<u8> {
    let mut lines = Lines::new(list);
    let Captures { read: captures, unreadable } = files::read(files, interfaces, 0, &mut lines)?;
    lines.finish().context("cannot write to standard output")?;
    for read in &captures {
        let (name, capture) = (read.names(), read.capture.dissection());
        if let Some(cut) = &capture.totals.cut {
            note!("farlun: {name} was read up to a cut: {cut}");
        }
        if capture.connections.iter().any(|connection| !connection.also_at.is_empty()) {
            note!(
                "farlun: connections of {name} passed several interfaces, and rows of all of them are listed: the last \
                 column says which, --interface takes one"
            );
        }
        for sentence in read.notes.iter().cloned().chain(again(read, &captures)) {
            note!("farlun: {name}: {sentence}");
        }
    }
    Ok(end(&unreadable))
}

/// Note about a capture whose connections were already seen in other captures.
fn again(read: &Captured, captures: &[Captured]) -> Option<String> {
    let shared = read.shared.iter().map(|Shared { capture, connections }| {
        let name = captures[*capture].names();
        format!("{connections} of its connections are in {name} too: the same traffic at another tap, not more of it")
    });
    let shared: Vec<String> = shared.collect();
    (!shared.is_empty()).then(|| shared.join("\n"))
}

/// The packets of the one capture there is, as a table.
fn table(folder: &Path, captures: &[Captured]) -> anyhow::Result<Table> {
    let [read] = captures else {
        let found = captures.len();
        return Err(Exit::usage(format!(
            "--packets writes the table of one capture, and these files are {found}"
        )));
    };
    packets::write(folder, read)
}

/// The page of a capture; its packets are read a second time.
fn page(read: &Captured, rebuild: &str) -> anyhow::Result<String> {
    let diagram = match DiagramSink::new(read.capture.dissection(), PACKETS) {
        Some(mut sink) => {
            Tapped::again(read, &mut sink)?;
            sink.finish()
        }
        None => None,
    };
    let files = [read.names()];
    Ok(report::capture_html(&read.capture, diagram.as_ref(), read.gaps.as_ref(), &files, rebuild))
}

/// One capture alone is a document of its own; several, and runs, are lists.
fn document(
    captures: &[Captured],
    tours: &[Tour],
    folders: &[PathBuf],
    pages: &[PathBuf],
    table: Option<&Table>,
) -> anyhow::Result<Value> {
    let with = |read: &Captured| {
        let Captured { capture, gaps, shared, notes, .. } = read;
        let mut value = serde_json::to_value(capture)?;
        value["paths"] = json!(read.paths());
        value["notes"] = json!(notes);
        value["gaps"] = json!(gaps.as_ref().and_then(|found| found.gaps.as_ref()));
        value["gaps_of"] = json!(gaps.as_ref().map(|found| &found.of));
        value["shared"] = json!(shared);
        anyhow::Ok(value)
    };
    let told = captures.iter().map(with).collect::<anyhow::Result<Vec<_>>>()?;
    let mut document = match <[Value; 1]>::try_from(told) {
        Ok([alone]) if tours.is_empty() => alone,
        Ok(alone) => json!({"captures": alone}),
        Err(several) => json!({"captures": several}),
    };
    if !tours.is_empty() {
        let runs = folders.iter().zip(tours).map(|(path, tour)| json!({"path": path, "result": tour}));
        document["runs"] = runs.collect();
    }
    if !pages.is_empty() {
        document["pages"] = json!(pages);
    }
    if let Some(table) = table {
        document["packets_table"] = json!(table);
    }
    Ok(document)
}
