//! Provisional PDUs of a direction, and the state before each, to withdraw them.
//!
//! They are applied to the table of commands at once, so that later headers can be inferred from it. Counts, rows and all else
//! wait until they are confirmed.

use crate::budget::MemoryBudget;
use crate::events::response::ResponseData;
use crate::iscsi::commands::counts::CommandCounts;
use crate::iscsi::commands::table::OutstandingCommand;
use crate::iscsi::pdu::FramedPdu;
use crate::rows::CommandRow;

/// A provisional PDU.
#[derive(Clone, Debug)]
pub(super) struct TrialPdu {
    pub(super) pdu: FramedPdu,
    /// Its command before it.
    pub(super) before: Option<OutstandingCommand>,
    /// The command that it completes, and its row.
    pub(super) done: Option<(OutstandingCommand, CommandRow)>,
    /// Content of its data segment.
    pub(super) data: ResponseData,
}

/// Provisional PDUs of a direction, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct TrialPdus {
    pdus: Vec<TrialPdu>,
    /// Their contribution to the counts.
    pub(super) counts: CommandCounts,
    /// Bytes reserved of the budget.
    held: usize,
}

/// Room of the first provisional PDUs.
const FIRST: usize = 8;
/// Memory in bytes of these, a part of the connection's own: a connection that is followed loses none of its first PDUs. While a
/// list grows the old one exists beside it.
pub(crate) const TRIAL_HELD: usize = 2 * FIRST * size_of::<TrialPdu>();

impl TrialPdus {
    /// True if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.pdus.is_empty()
    }

    /// Makes room for another one; false without memory.
    pub(super) fn make_room(&mut self, budget: &MemoryBudget) -> bool {
        if self.pdus.len() < self.pdus.capacity() {
            return true;
        }
        let wanted = (2 * self.pdus.capacity()).max(FIRST);
        let fits = budget.resize(&mut self.held, 2 * wanted * size_of::<TrialPdu>() - TRIAL_HELD);
        if fits {
            self.pdus.reserve_exact(wanted - self.pdus.len());
        }
        fits
    }

    pub(super) fn push(&mut self, pdu: TrialPdu) {
        self.pdus.push(pdu);
    }

    /// Ends the trial: the PDUs, and their contribution to the counts.
    pub(super) fn take(&mut self, budget: &MemoryBudget) -> (Vec<TrialPdu>, CommandCounts) {
        let taken = (std::mem::take(&mut self.pdus), std::mem::take(&mut self.counts));
        budget.resize(&mut self.held, 0);
        taken
    }
}
