//! Cuts of the congestion window by the sending host itself: its device refused a packet, nothing was lost on the path.
//!
//! The kernel has no counter for it, and the state CWR lasts about a round trip, which samples may miss. What stays is
//! that the threshold was set below the window and the window fell while nothing was retransmitted and no loss was being
//! repaired, on a connection that had data under way: one that was idle shrinks its window without any signal. Samples
//! do not tell of marks (ECN), which cut in the same way; neither the hosts nor the line of an emulated path make any.

use event::CongestionState;
use store::tables::Sockets;

/// How many of the steps between samples (`rows` of one connection, in order) are such cuts.
pub fn count(table: &Sockets, rows: &[usize]) -> u64 {
    rows.windows(2).filter(|step| is_local(table, step[0], step[1])).count() as u64
}

fn is_local(table: &Sockets, before: usize, after: usize) -> bool {
    let repairs = |row: usize| matches!(table.state[row], CongestionState::Recovery | CongestionState::Loss);
    let (was, is) = (table.cwnd_packets[before], table.cwnd_packets[after]);
    let threshold = table.ssthresh_packets[after];
    let cut = is < was && threshold < was && threshold != table.ssthresh_packets[before];
    let busy = table.unacked_packets[before] > 0 && table.unacked_packets[after] > 0;
    let lost = table.retransmitted_packets[after] != table.retransmitted_packets[before];
    cut && busy && !lost && !repairs(before) && !repairs(after)
}

#[cfg(test)]
mod tests {
    use event::{CongestionState, Host, SocketSample};
    use store::tables::Row;

    use super::*;
    use crate::sockets::tests::sample;

    const OPEN: CongestionState = CongestionState::Open;
    const NONE: u32 = i32::MAX as u32;

    /// Samples as (cwnd, ssthresh, unacked, retransmitted, state); the cuts that are local.
    fn check(samples: &[(u32, u32, u32, u32, CongestionState)], expected: u64) {
        let mut table = Sockets::default();
        for (at, (cwnd, ssthresh, unacked, retransmitted, state)) in samples.iter().enumerate() {
            let sample = SocketSample {
                cwnd_packets: *cwnd,
                ssthresh_packets: *ssthresh,
                unacked_packets: *unacked,
                retransmitted_packets: *retransmitted,
                state: *state,
                ..sample(at as u64, Host::Near, 0)
            };
            sample.push(&mut table);
        }
        let rows: Vec<usize> = (0..samples.len()).collect();
        assert_eq!(count(&table, &rows), expected, "{samples:?}");
    }

    #[test]
    fn a_window_that_falls_while_nothing_is_sent_again_was_cut_here() {
        check(&[(400, NONE, 400, 0, OPEN), (290, 280, 250, 0, OPEN), (300, 280, 300, 0, OPEN)], 1);
        // Twice, once caught in the act.
        let sawtooth = [
            (400, NONE, 400, 3, OPEN),
            (390, 280, 390, 3, CongestionState::Cwr),
            (350, 280, 350, 3, OPEN),
            (250, 245, 240, 3, OPEN),
        ];
        check(&sawtooth, 2);
    }

    #[test]
    fn losses_idleness_and_the_end_of_slow_start_are_something_else() {
        // A loss that was repaired between two samples, and one that is still being repaired.
        check(&[(400, NONE, 400, 0, OPEN), (280, 280, 280, 9, OPEN)], 0);
        check(
            &[
                (400, NONE, 400, 0, OPEN),
                (390, 280, 400, 0, CongestionState::Recovery),
                (280, 279, 280, 0, OPEN),
            ],
            0,
        );
        check(&[(400, NONE, 400, 0, OPEN), (1, 200, 400, 0, CongestionState::Loss)], 0);
        // Nothing was under way.
        check(&[(400, 500, 0, 0, OPEN), (10, 300, 4, 0, OPEN)], 0);
        // The window stops growing fast, or is only used less.
        check(&[(400, NONE, 400, 0, OPEN), (402, 399, 400, 0, OPEN)], 0);
        check(&[(400, 300, 400, 0, OPEN), (380, 300, 380, 0, OPEN)], 0);
        check(&[], 0);
    }
}
