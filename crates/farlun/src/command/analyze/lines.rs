//! Rows of a capture as lines on standard output, fields between tabs.

use std::io::{BufWriter, ErrorKind, Write, stdout};

use dissect::{CommandRow, DirectionKey, PacketRow, PduRow, RowSink};

use crate::exit;

/// Kind of row.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum List {
    /// TCP segments: what each is, in flight, round trip.
    Packets,
    /// PDUs: their bytes of the stream and their packets.
    Pdus,
    /// Commands with a status: service time, packets.
    Commands,
}

/// Rows as lines on standard output. A closed pipe ends the process.
pub(super) struct Lines {
    list: List,
    out: BufWriter<std::io::Stdout>,
    failed: Option<std::io::Error>,
}

impl Lines {
    pub(super) fn new(list: List) -> Lines {
        let mut lines = Lines { list, out: BufWriter::new(stdout()), failed: None };
        lines.line(format_args!(
            "{}",
            match list {
                List::Packets => "packet\tt_ns\tfrom\tto\tseq\tlen\tflags\tkind\tack_rtt_ns\tflight_bytes\tinterface",
                List::Pdus =>
                    "t_ns\tfrom\tto\topcode\titt\tstart\tend\tfirst_packet\tlast_packet\tinferred\tinterface",
                List::Commands =>
                    "t_ns\tinitiator\ttarget\titt\tcmd_sn\toperation\tbytes\trequest_packet\tresponse_packet\t\
                     service_ns\tr2ts\tinferred\tinterface",
            }
        ));
        lines
    }

    fn line(&mut self, what: std::fmt::Arguments<'_>) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{what}").err();
            self.end_unread();
        }
    }

    fn end_unread(&self) {
        if self.failed.as_ref().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            std::process::exit(exit::DONE.into());
        }
    }

    pub(super) fn finish(mut self) -> std::io::Result<()> {
        self.failed = self.failed.take().or_else(|| self.out.flush().err());
        self.end_unread();
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl RowSink for Lines {
    fn packet(&mut self, row: &PacketRow) {
        if matches!(self.list, List::Packets) {
            let PacketRow { packet, t_ns, seq, len, flags, kind, .. } = row;
            let DirectionKey { interface, src, dst } = row.direction;
            let (kind, rtt, flight) = (kind.name(), maybe(row.ack_rtt_ns), row.flight_bytes);
            self.line(format_args!(
                "{packet}\t{t_ns}\t{src}\t{dst}\t{seq}\t{len}\t{flags:#04x}\t{kind}\t{rtt}\t{flight}\t\
                 {interface}"
            ));
        }
    }

    fn pdu(&mut self, row: &PduRow) {
        if matches!(self.list, List::Pdus) {
            let PduRow { t_ns, opcode, itt, start, end, first_packet, last_packet, inferred, .. } = row;
            let DirectionKey { interface, src, dst } = row.direction;
            self.line(format_args!(
                "{t_ns}\t{src}\t{dst}\t{opcode:?}\t{itt:#010x}\t{start}\t{end}\t{first_packet}\t{last_packet}\t\
                 {inferred}\t{interface}"
            ));
        }
    }

    fn command(&mut self, row: &CommandRow) {
        if matches!(self.list, List::Commands) {
            let CommandRow { t_ns, initiator, target, itt, bytes, request_packet, response_packet, .. } = row;
            let (cmd_sn, service, r2ts) = (maybe(row.cmd_sn), maybe(row.service_ns), row.r2ts);
            let operation = row.operation.map_or_else(String::new, |code| format!("{code:#04x}"));
            self.line(format_args!(
                "{t_ns}\t{initiator}\t{target}\t{itt:#010x}\t{cmd_sn}\t{operation}\t{bytes}\t{request_packet}\t\
                 {response_packet}\t{service}\t{r2ts}\t{}\t{}",
                row.inferred, row.interface
            ));
        }
    }
}

/// A number, or nothing between two tabs.
fn maybe(number: Option<impl ToString>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}
