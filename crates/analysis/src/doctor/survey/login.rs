//! Parameters of the sessions, from `sessions`.

use std::path::PathBuf;

use diagnosis::Facts;
use diagnosis::facts::Negotiated;
use event::{Host, Login};
use tables::{Logins, TableError};

/// Adds the negotiated parameters, and the socket options of both ends.
pub(super) fn fill(dirs: &[PathBuf], sender: Host, facts: &mut Facts) -> Result<(), TableError> {
    for dir in dirs {
        let Some(table) = tables::read_optional::<Login>(dir)? else { continue };
        for row in 0..table.host.len() {
            let host = table.host[row];
            facts.agreed = facts.agreed.or_else(|| Some(negotiated(&table, row, facts.is_write)));
            if host == Host::Near {
                facts.outstanding.caller_follows = table.caller_depth[row] == 0;
                let limit = Some(table.queue_limit[row]).filter(|limit| *limit > 0);
                facts.outstanding.queue_limit = limit.map(f64::from);
            }
            if host == sender {
                if let Some(sender) = &mut facts.sender {
                    let nagle = table.has_nagle[row] != 0;
                    sender.socket.has_nagle = Some(sender.socket.has_nagle.unwrap_or(false) || nagle);
                    sender.socket.buffer_most_bytes = Some(table.send_buffer_max_bytes[row] as f64);
                }
            } else {
                facts.receiver.buffer_most_bytes = Some(table.receive_buffer_max_bytes[row] as f64);
            }
        }
    }
    Ok(())
}

fn negotiated(table: &Logins, row: usize, is_write: bool) -> Negotiated {
    let segment = if is_write { table.far_segment_bytes[row] } else { table.near_segment_bytes[row] };
    Negotiated {
        immediate_data: table.immediate_data[row] != 0,
        initial_r2t: table.initial_r2t[row] != 0,
        first_burst_bytes: table.first_burst_bytes[row].into(),
        max_burst_bytes: table.max_burst_bytes[row].into(),
        max_outstanding_r2t: table.max_outstanding_r2t[row].into(),
        segment_bytes: segment.into(),
    }
}
