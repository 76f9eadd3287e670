//! Output of a dissection for one packet: row sink, memory, facts about the tap.

use crate::budget::MemoryBudget;
use crate::rows::{CommandRow, PduRow, RowSink};

/// Row sink and context for the PDUs of one packet.
pub(crate) struct Output<'a> {
    pub(crate) rows: &'a mut dyn RowSink,
    pub(crate) budget: &'a MemoryBudget,
    /// Interface of each direction.
    pub(crate) interfaces: [u32; 2],
    /// Fastest round trip from the tap to the initiator in ns; 0 if unknown.
    pub(crate) initiator_rtt_ns: u64,
}

/// Rows of a connection that is not recognised as iSCSI yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldRows {
    rows: Vec<HeldRow>,
    is_open: bool,
}

#[derive(Clone, Debug)]
enum HeldRow {
    Pdu(PduRow),
    Command(CommandRow),
}

/// Limit of held rows. A connection with more of them and no answer that fits is none of iSCSI.
const HELD_ROWS_MAX: usize = 4_096;

impl HeldRows {
    /// Passes the row of a PDU on, or keeps it.
    pub(crate) fn pdu(&mut self, row: PduRow, output: &mut Output<'_>) {
        match self.is_open {
            true => output.rows.pdu(&row),
            false => self.keep(HeldRow::Pdu(row), output.budget),
        }
    }

    /// Passes the row of a command on, or keeps it.
    pub(crate) fn command(&mut self, row: CommandRow, output: &mut Output<'_>) {
        match self.is_open {
            true => output.rows.command(&row),
            false => self.keep(HeldRow::Command(row), output.budget),
        }
    }

    /// Passes on the kept rows and all later ones.
    pub(crate) fn open(&mut self, output: &mut Output<'_>) {
        if self.is_open {
            return;
        }
        self.is_open = true;
        let rows = std::mem::take(&mut self.rows);
        output.budget.release(rows.len() * 2 * size_of::<HeldRow>());
        for row in rows {
            match row {
                HeldRow::Pdu(row) => output.rows.pdu(&row),
                HeldRow::Command(row) => output.rows.command(&row),
            }
        }
    }

    fn keep(&mut self, row: HeldRow, budget: &MemoryBudget) {
        // A vector may be half empty.
        if self.rows.len() < HELD_ROWS_MAX && budget.reserve(2 * size_of::<HeldRow>()) {
            self.rows.push(row);
        }
    }
}
