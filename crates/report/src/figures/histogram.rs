//! Histogram as a line of steps.

use analysis::gaps::Histogram;
use serde_json::{Value, json};

use super::figure::short;

/// Drawn value of a class without packets: a logarithmic axis has no zero.
const EMPTY: f64 = 0.5;

/// Classes of a histogram as a line of steps.
pub(crate) fn steps(name: &str, colour: &str, histogram: &Histogram) -> Value {
    let y = histogram.packets.iter().map(|n| if *n > 0 { *n as f64 } else { EMPTY });
    json!({
        "type": "scatter", "mode": "lines", "name": name,
        "x": histogram.from_s.iter().map(|s| short(s * 1e6)).collect::<Vec<_>>(),
        "y": y.collect::<Vec<_>>(), "text": histogram.packets,
        "line": {"color": colour, "width": 1.4, "shape": "hv"},
        "hovertemplate": format!("%{{text}} packets from %{{x:.4~g}} µs<extra>{name}</extra>"),
    })
}
