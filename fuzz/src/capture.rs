//! A capture file as `farlun analyze` reads it: any bytes end in a result or in a sentence.

use analysis::capture::DiagnosedCapture;
use dissect::{CommandRow, Count, Dissector, PacketRow, PduRow, RowSink};

/// Counts of rows, to be compared with the sums of the summary.
#[derive(Default)]
struct Rows {
    packets: u64,
    pdus: u64,
    /// PDUs with a status and a visible header: those of the commands in rows, and those of commands that were not seen.
    statuses: u64,
}

impl RowSink for Rows {
    fn packet(&mut self, _: &PacketRow) {
        self.packets += 1;
    }

    fn pdu(&mut self, row: &PduRow) {
        assert!(row.start < row.end, "{row:?}");
        self.pdus += 1;
        self.statuses += u64::from(row.has_status && !row.inferred);
    }

    fn command(&mut self, row: &CommandRow) {
        assert!(row.request_packet > 0 && row.response_packet > 0, "{row:?}");
    }
}

/// Dissects and diagnoses the file; the sums of the summary are those of the rows.
pub(crate) fn capture(data: &[u8]) {
    let mut rows = Rows::default();
    let Ok(capture) = Dissector::new().read(data, &mut rows, |_| {}) else { return };
    let capture = DiagnosedCapture::new(capture);
    let totals = &capture.dissection().totals;
    assert_eq!(rows.packets + totals.beyond_packets + totals.copies.packets, totals.tcp_packets);
    let others = totals.others.iter().map(|kind| kind.packets).sum::<u64>();
    assert!(totals.tcp_packets + others <= totals.packets, "{totals:?}");
    let connections = capture.dissection().connections.len() as u64;
    for diagnosis in capture.connections().filter_map(|connection| connection.diagnosis) {
        let shares = diagnosis.verdicts.iter().map(|verdict| verdict.share).sum::<f64>();
        assert!((0.0..1.000_001).contains(&shares), "time has one cause: {diagnosis:?}");
    }
    for event in capture.events() {
        assert!(event.count >= event.connections && event.first_s <= event.last_s, "{event:?}");
        assert!((1..=connections).contains(&event.example.connection), "{event:?}");
    }
    let iscsi = capture.connections().filter_map(|connection| connection.summary.iscsi.as_ref());
    let (mut pdus, mut statuses) = (0, 0);
    for iscsi in iscsi {
        pdus += iscsi.framing.iter().map(|framing| framing.pdus).sum::<u64>();
        // A command is sent before it has a status, however many of either are in hidden headers.
        let [sent, completed] = [iscsi.commands.sent, iscsi.commands.completed].map(bounds);
        if let (Some((_, sent)), Some((_, completed))) = (sent, completed) {
            assert!(completed <= sent, "{completed} of {sent} commands have a status");
        }
        // Sequence numbers count the commands with hidden headers too, which have no rows.
        let is_visible = iscsi.framing.iter().all(|framing| framing.inferred + framing.lost_bytes == 0);
        statuses += completed.filter(|_| is_visible).map_or(0, |(least, _)| least);
    }
    assert!(statuses <= rows.statuses, "{statuses} commands have a status, of {} in rows", rows.statuses);
    assert!(pdus <= rows.pdus, "the summary has more than the rows");
}

/// Bounds of a count that has some.
fn bounds(count: Count) -> Option<(u64, u64)> {
    match count {
        Count::Exact(number) => Some((number, number)),
        Count::Between { least, most } => Some((least, most)),
        Count::Unknown => None,
    }
}
