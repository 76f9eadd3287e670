//! `farlun analyze`: what somebody's capture says of its connections. How it is found out is `analysis::capture`'s
//! business.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};

use analysis::capture::file::{self, FileError};
use analysis::capture::{Capture, CommandRow, Listener, PacketRow, PduRow};
use analysis::gaps::capture::Listening;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use report::terminal::{self, Colour};

use crate::exit::{self, Exit};

/// Say what a capture holds: TCP connections, and the iSCSI in them, of whatever stacks.
///
/// Reads pcap and pcapng, whole packets or their beginnings only. A file that is cut off is read up to the cut.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  farlun analyze slow.pcap\n  farlun analyze slow.pcap --list commands > commands.tsv"
)]
pub(crate) struct AnalyzeArgs {
    /// Capture file.
    file: PathBuf,
    /// Print one JSON document instead of tables.
    #[arg(long, conflicts_with = "list")]
    json: bool,
    /// Print one line for each of these instead, fields between tabs.
    #[arg(long, value_name = "WHAT")]
    list: Option<List>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum List {
    /// TCP segments: what each is, in flight, round trip.
    Packets,
    /// PDUs: their bytes of the stream and their packets.
    Pdus,
    /// Commands with a status: service time, packets.
    Commands,
}

pub(crate) fn run(args: AnalyzeArgs) -> anyhow::Result<u8> {
    let AnalyzeArgs { file: path, json, list } = args;
    match list {
        None => {
            let mut listening = Listening::default();
            let capture = read(&path, &mut listening)?;
            let gaps = listening.finish();
            if json {
                let mut document = serde_json::to_value(&capture)?;
                document["gaps"] = serde_json::to_value(&gaps)?;
                say!("{document}");
            } else {
                let colour = Colour::on(&stdout());
                say!("{}", terminal::capture(&capture, colour).trim_end());
                if let Some(gaps) = gaps {
                    say!("\n{}", terminal::gaps(&gaps, colour).trim_end());
                }
            }
        }
        Some(list) => {
            let mut lines = Lines::new(list);
            let capture = read(&path, &mut lines)?;
            lines.finish().context("cannot write to standard output")?;
            if let Some(cut) = capture.cut {
                eprintln!("farlun: {} was read up to a cut: {cut}", path.display());
            }
        }
    }
    Ok(exit::DONE)
}

fn read(path: &Path, listener: &mut dyn Listener) -> anyhow::Result<Capture> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| Exit::usage(format!("{shown}: {error}")))?;
    let about = file.metadata().map_err(|error| Exit::usage(format!("{shown}: {error}")))?;
    if about.is_dir() {
        return Err(Exit::usage(format!("{shown} is a folder, expected a pcap or pcapng file")));
    }
    let bar = bar(about.len());
    let capture = file::read(file, listener, |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    capture.map_err(|error| match error {
        FileError::Io(error) => anyhow::Error::new(error).context(format!("cannot read {shown}")),
        no_capture => Exit::usage(format!("{shown} {no_capture}")),
    })
}

/// Drawn where somebody sees it.
fn bar(bytes: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Rows as lines on standard output. Whoever reads them may have had enough: the rest is then said to nobody.
struct Lines {
    list: List,
    out: BufWriter<std::io::Stdout>,
    failed: Option<std::io::Error>,
}

impl Lines {
    fn new(list: List) -> Lines {
        let mut lines = Lines { list, out: BufWriter::new(stdout()), failed: None };
        lines.line(format_args!(
            "{}",
            match list {
                List::Packets => "packet\tt_ns\tfrom\tto\tseq\tlen\tflags\tkind\tack_rtt_ns\tflight_bytes",
                List::Pdus =>
                    "t_ns\tfrom\tto\topcode\titt\tstart\tend\tfirst_packet\tlast_packet\tinferred",
                List::Commands =>
                    "t_ns\tinitiator\ttarget\titt\tcmd_sn\toperation\tbytes\trequest_packet\tresponse_packet\t\
                     service_ns\tr2ts",
            }
        ));
        lines
    }

    fn line(&mut self, what: std::fmt::Arguments<'_>) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{what}").err();
        }
    }

    fn finish(mut self) -> std::io::Result<()> {
        let error = self.failed.take().or_else(|| self.out.flush().err());
        match error {
            Some(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

impl Listener for Lines {
    fn packet(&mut self, row: &PacketRow) {
        if matches!(self.list, List::Packets) {
            let PacketRow { packet, t_ns, src, dst, seq, len, flags, kind, .. } = row;
            let (kind, rtt, flight) = (kind.name(), maybe(row.ack_rtt_ns), row.flight_bytes);
            self.line(format_args!(
                "{packet}\t{t_ns}\t{src}\t{dst}\t{seq}\t{len}\t{flags:#04x}\t{kind}\t{rtt}\t{flight}"
            ));
        }
    }

    fn pdu(&mut self, row: &PduRow) {
        if matches!(self.list, List::Pdus) {
            let PduRow { t_ns, src, dst, opcode, itt, start, end, first_packet, last_packet, inferred } = row;
            self.line(format_args!(
                "{t_ns}\t{src}\t{dst}\t{opcode:?}\t{itt:#010x}\t{start}\t{end}\t{first_packet}\t{last_packet}\t\
                 {inferred}"
            ));
        }
    }

    fn command(&mut self, row: &CommandRow) {
        if matches!(self.list, List::Commands) {
            let CommandRow { t_ns, initiator, target, itt, bytes, request_packet, response_packet, .. } = row;
            let (cmd_sn, service, r2ts) = (maybe(row.cmd_sn), row.service_ns, row.r2ts);
            let operation = row.operation.map_or_else(String::new, |code| format!("{code:#04x}"));
            self.line(format_args!(
                "{t_ns}\t{initiator}\t{target}\t{itt:#010x}\t{cmd_sn}\t{operation}\t{bytes}\t{request_packet}\t\
                 {response_packet}\t{service}\t{r2ts}"
            ));
        }
    }
}

/// A number, or nothing between two tabs.
fn maybe(number: Option<impl ToString>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}
