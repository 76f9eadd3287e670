//! Retransmissions of a load's sender over the window of the figures, and changes of its congestion control.

use std::collections::BTreeMap;

use event::Host;
use tables::Sockets;

use crate::Span;

/// Losses of all connections of one end.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Losses {
    /// Retransmitted packets ÷ packets sent, over the window; `None` if nothing was sent.
    pub retransmitted_share: Option<f64>,
    /// Changes of a congestion control that policies decided, from the beginning of the table on.
    pub congestion_changes: u64,
}

/// Losses of `sender`, a process of its own.
pub(crate) fn losses(table: &Sockets, sender: Host, window: Span) -> Losses {
    let decided = &table.steered.decided;
    let mut changes = 0;
    let mut choices = BTreeMap::new();
    let mut connections: BTreeMap<u32, [usize; 2]> = BTreeMap::new();
    for row in (0..table.t_ns.len()).filter(|row| table.host[*row] == sender) {
        let connection = table.connection[row];
        // The last row of a connection has no decision.
        if decided.decided_outstanding_bytes[row] > 0 {
            let choice = decided.congestion.decided_congestion[row];
            changes += u64::from(choices.insert(connection, choice).unwrap_or_default() != choice);
        }
        if (window.start_ns..=window.end_ns).contains(&table.t_ns[row]) {
            connections.entry(connection).or_insert([row, row])[1] = row;
        }
    }
    let grown = |column: &[u32]| -> u64 {
        let rows = connections.values();
        rows.map(|&[first, last]| u64::from(column[last].wrapping_sub(column[first]))).sum()
    };
    let retransmitted = grown(&table.retransmitted_packets);
    // Each loss is sent again.
    let sent = grown(&table.delivered_packets) + retransmitted;
    Losses {
        retransmitted_share: (sent > 0).then(|| retransmitted as f64 / sent as f64),
        congestion_changes: changes,
    }
}

#[cfg(test)]
mod tests {
    use event::{CongestionChoice, SocketSample, Steered};
    use tables::Row;

    use super::*;
    use crate::tcp::sockets::tests::sample;

    #[test]
    fn shares_are_those_of_the_window_and_changes_those_of_all() {
        let mut table = Sockets::default();
        let steered = |choice| {
            let mut steered = Steered::default();
            steered.decided.outstanding_bytes = 1;
            steered.decided.congestion.choice = choice;
            steered
        };
        for i in 0..=10u32 {
            let choice =
                if (2..5).contains(&i) { CongestionChoice::RateBased } else { CongestionChoice::Hosts };
            let base = sample(u64::from(i) * 1000, Host::Near, 0);
            let row = SocketSample {
                // Wraps.
                delivered_packets: (i * 99).wrapping_sub(300),
                // Nine tenths of the losses come before the window.
                retransmitted_packets: if i < 4 { i * 300 } else { 900 + i },
                steered: (i < 10).then(|| steered(choice)),
                ..base
            };
            row.push(&mut table);
            SocketSample { host: Host::Far, retransmitted_packets: i * 7, ..base }.push(&mut table);
        }
        let found = losses(&table, Host::Near, Span { start_ns: 5000, end_ns: 10_000 });
        assert_eq!(found, Losses { retransmitted_share: Some(0.01), congestion_changes: 2 });
        let nothing = losses(&table, Host::Near, Span { start_ns: 20_000, end_ns: 30_000 });
        assert_eq!(nothing.retransmitted_share, None);
    }
}
