//! A capture file as `farlun analyze` reads it: any bytes end in a result or in a sentence.

use analysis::capture::{CommandRow, Listener, PacketRow, PduRow, file};

/// Counts, so that sums can be held against rows.
#[derive(Default)]
struct Rows {
    packets: u64,
    pdus: u64,
    commands: u64,
}

impl Listener for Rows {
    fn packet(&mut self, _: &PacketRow) {
        self.packets += 1;
    }

    fn pdu(&mut self, row: &PduRow) {
        assert!(row.start < row.end && row.first_packet <= row.last_packet, "{row:?}");
        self.pdus += 1;
    }

    fn command(&mut self, row: &CommandRow) {
        assert!(row.request_packet > 0 && row.response_packet > 0, "{row:?}");
        self.commands += 1;
    }
}

/// Reads the file; the sums of its result are those of the rows that were told.
pub(crate) fn capture(data: &[u8]) {
    let mut rows = Rows::default();
    let Ok(capture) = file::read(data, &mut rows, |_| {}) else { return };
    assert_eq!(rows.packets + capture.beyond_packets, capture.tcp_packets);
    for diagnosis in capture.connections.iter().filter_map(|connection| connection.diagnosis.as_ref()) {
        let shares = diagnosis.verdicts.iter().map(|verdict| verdict.share).sum::<f64>();
        assert!((0.0..1.000_001).contains(&shares), "time has an owner, and one only: {diagnosis:?}");
    }
    let iscsi = capture.connections.iter().filter_map(|connection| connection.iscsi.as_ref());
    let (mut pdus, mut commands) = (0, 0);
    for iscsi in iscsi {
        pdus += iscsi.framing.iter().map(|framing| framing.pdus).sum::<u64>();
        commands += iscsi.commands.completed;
    }
    assert!(pdus <= rows.pdus && commands <= rows.commands, "more is summed up than was told");
}
