//! Evidence that a capture holds of its connections: the head of the result, before any verdict.

use std::fmt::Write;

use analysis::capture::{DiagnosedConnection, Shortage};
use dissect::{Confidence, ConnectionSummary, Count, IscsiSummary};

use crate::format::{escape, fixed, percent};
use crate::page;

/// Limit on connections in the head of the text.
const HEAD: usize = 4;

/// Sentences for the head of the text: the evidence of each connection, and the missing evidence.
pub(super) fn text(shown: &[(usize, DiagnosedConnection<'_>)]) -> String {
    let mut out = String::new();
    for (number, connection) in shown.iter().take(HEAD) {
        if let Some(iscsi) = &connection.summary.iscsi {
            let _ = writeln!(out, "connection {number}, seen: {}", evidence(connection.summary, iscsi));
        }
        if let Some(shortage) = connection.shortage {
            let _ = writeln!(out, "connection {number}: {}", sentence(shortage));
            shortage.commands.iter().for_each(|command| {
                let _ = writeln!(out, "    {command}");
            });
        }
    }
    out
}

/// Sentences about the evidence for the head of the page.
pub(super) fn html(shown: &[(usize, DiagnosedConnection<'_>)]) -> String {
    let mut out = String::new();
    for (number, connection) in shown.iter().take(HEAD) {
        if let Some(iscsi) = &connection.summary.iscsi {
            let text = format!("connection {number}, seen: {}", evidence(connection.summary, iscsi));
            let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&text));
        }
        if let Some(shortage) = connection.shortage {
            let text = format!("connection {number}: {}", sentence(shortage));
            let _ = writeln!(out, "<p>{}</p>", escape(&text));
            shortage.commands.iter().for_each(|command| out.push_str(&page::command(command)));
        }
    }
    out
}

/// Headline of a connection without enough evidence.
pub(super) const TITLE: &str = "not enough seen to name a limiter";

fn sentence(shortage: &Shortage) -> String {
    format!("{TITLE}: {}; capture with one of", shortage.reasons.join("; "))
}

/// Evidence of a connection in words.
fn evidence(connection: &ConnectionSummary, iscsi: &IscsiSummary) -> String {
    let confidence @ Confidence { lost_share, inferred_share, refuted_share, .. } = &iscsi.confidence;
    let mut said = vec![match confidence.snap_bytes {
        Some(bytes) => format!("{} bytes of a packet", fixed(bytes as f64, 0)),
        None => "whole packets".to_owned(),
    }];
    said.push(if iscsi.login { "with the login" } else { "without the login" }.to_owned());
    if connection.one_direction {
        said.push("one direction alone".to_owned());
    }
    if *inferred_share > 0.0 || *refuted_share > 0.0 {
        said.push(format!(
            "{} of the PDUs inferred, {} refuted",
            percent(*inferred_share),
            percent(*refuted_share)
        ));
    }
    if *lost_share > 0.0 {
        said.push(format!("{} of the bytes in no PDU", percent(*lost_share)));
    }
    if confidence.missing_bytes > 0 {
        let bytes = fixed(confidence.missing_bytes as f64, 0);
        said.push(format!("{bytes} bytes missing ({})", percent(confidence.missing_share)));
    }
    if confidence.unseen_share > 0.0 {
        said.push(format!(
            "{} of the time without a place in the PDUs or a round trip",
            percent(confidence.unseen_share)
        ));
    }
    if said.len() == 2 && confidence.snap_bytes.is_none() {
        said.push("every PDU".to_owned());
    }
    said.join(", ")
}

/// A number of commands in words.
pub(super) fn count(count: Count) -> String {
    match count {
        Count::Exact(number) => fixed(number as f64, 0),
        Count::Between { least, most } => format!("{} to {}", fixed(least as f64, 0), fixed(most as f64, 0)),
        Count::Unknown => "not counted".to_owned(),
    }
}
