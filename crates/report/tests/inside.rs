//! Pictures of the inside of cells: they are in the page, draw without error, and answer when one zooms, points
//! and clicks.

mod browser;
mod synthetic {
    pub(crate) mod inside;
}

use std::path::{Path, PathBuf};

use analysis::Tour;
use analysis::layers::{ConnectionFlight, LayerFlight, SessionFlight};
use browser::View;
use synthetic::inside;

const REBUILD: &str = "farlun report runs/layers";
/// The contract's bound.
const MOST_BYTES: usize = 6_000_000;
const VIEW: View = View { width_pixels: 1280, height_pixels: 900, dark: false };

fn tour(folder: &Path, depths: &[u64], requests: u64) -> Tour {
    Tour::collect(&inside::write(&folder.join("run"), depths, requests)).unwrap()
}

#[test]
fn the_gate_is_named_and_the_figures_are_metrics() {
    let temp = tempfile::tempdir().unwrap();
    let tour = tour(temp.path(), &[64, 112], inside::REQUESTS);
    let metrics = tour.metrics();
    let at =
        |depth: &str, name: &str| metrics.value(&[("depth".to_owned(), depth.to_owned())], name).unwrap();
    assert_eq!(at("112", "calls.in_flight_max.queued"), 112.0);
    assert_eq!(at("112", "calls.in_flight_max.granted"), 100.0);
    assert_eq!((at("112", "calls.gate.granted"), at("64", "calls.gate.granted")), (1.0, 0.0));
    let packets = at("64", "calls.packets_per_read");
    assert!((packets - 10.0).abs() < 0.1, "{packets}");
    assert!(at("112", "calls.calls_per_s") > 1.3 * at("64", "calls.calls_per_s"));
    let page = report::html(&tour, REBUILD);
    assert!(page.contains("Parallelism stops at “iSCSI: window granted”: 100 of 112 go on."));
    assert!(page.contains("No layer holds requests back: all 64 are on their way."));
    for id in ["fig-in-flight-1", "fig-request-2", "fig-packets-1", "table-layers-2", "fig-against-1"] {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
}

#[test]
fn a_plan_may_say_what_to_draw() {
    let temp = tempfile::tempdir().unwrap();
    let mut tour = tour(temp.path(), &[64, 112], 3_000);
    tour.run.plan = serde_json::json!({"draw": ["rate", "packets", "latency_p99 by depth"]});
    let page = report::html(&tour, REBUILD);
    assert!(page.contains("latency_p99 against depth") && !page.contains("Throughput against parallelism"));
    assert!(page.contains("id=\"fig-packets-1\"") && !page.contains("id=\"fig-in-flight-1\""));
    assert!(!page.contains("id=\"fig-request-1\""));
}

#[test]
fn what_is_doubtful_is_said_and_what_is_of_one_session_is_told_from_the_sum() {
    let temp = tempfile::tempdir().unwrap();
    let mut tour = tour(temp.path(), &[64], 3_000);
    let page = report::html(&tour, REBUILD);
    for words in ["no time of leaving", "known to one host only", "numbers are scaled up", "of all sessions"]
    {
        assert!(!page.contains(words), "{words}");
    }
    let stack = tour.cells[0].repeats[0].stack.as_mut().unwrap();
    (stack.all[2].unended, stack.all[8].alone) = (7, 11);
    (stack.sample_near, stack.sample_far) = (1, 8);
    let layers = stack.all.clone();
    let session = |session| SessionFlight { session, layers: layers.clone() };
    stack.sessions = vec![session(9), session(8)];
    let connection = |session, connection| ConnectionFlight { session, connection, layers: layers.clone() };
    stack.connections = vec![connection(9, 0), connection(9, 1), connection(8, 2)];
    let page = report::html(&tour, REBUILD);
    for words in [
        "7 requests have no time of leaving some layer",
        "11 requests of the window are known to one host only",
        "One request in 1 was recorded at the initiator, one in 8 at the target",
        "The table is of all sessions together; the picture above it is of what is chosen there.",
        "\"session 1, which has most requests\"",
        "\"all sessions\"",
        "\"session 1, connection 1\"",
        "\"session 2, connection 2\"",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn chromium_draws_zooms_and_points() {
    let temp = tempfile::tempdir().unwrap();
    let mut tour = tour(temp.path(), &[64, 112], inside::REQUESTS);
    let stack = tour.cells[0].repeats[0].stack.as_mut().unwrap();
    let session = |session, layers: &[LayerFlight]| SessionFlight { session, layers: layers.to_vec() };
    stack.sessions = vec![session(9, &stack.all), session(8, &stack.all[..4])];
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let page = kept.join("inside.html");
    let html = report::html(&tour, REBUILD);
    assert!(html.len() <= MOST_BYTES, "{} bytes", html.len());
    std::fs::write(&page, &html).unwrap();
    // The same page with a scripted reader: zoom to 40 µs, point at a packet, click a request.
    let reader = include_str!("reader.js");
    let acted = kept.join("inside-acted.html");
    std::fs::write(&acted, html.replace("</body>", &format!("<script>{reader}</script></body>"))).unwrap();
    let dom = match browser::dom_at(&acted, "#all", VIEW) {
        Ok(dom) => dom,
        Err(reason) => return println!("skipped: chromium_draws_zooms_and_points: {reason}"),
    };
    let attribute =
        |name: &str| dom.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
    assert_eq!(attribute("data-errors"), None);
    assert_eq!(attribute("data-ready"), Some("1"));
    assert_eq!((attribute("data-figures"), attribute("data-later")), (Some("7"), Some("0")));
    assert_eq!(attribute("data-acted"), Some("1"), "the reader came to the end");
    // A request takes 32 ms and a little, and is shown whole with room around it.
    let opened: f64 = attribute("data-opened-us").unwrap().parse().unwrap();
    assert!((32_000.0 * 1.12..40_000.0 * 1.12).contains(&opened), "{opened}");
    assert_eq!(attribute("data-svg"), Some("&lt;svg"));
    let csv = attribute("data-csv").unwrap();
    assert!(csv.starts_with("series,") && csv.contains("calls, block 8KiB"), "{csv}");
    let zoomed: f64 = attribute("data-zoomed-us").unwrap().parse().unwrap();
    assert!((zoomed - 40.0).abs() < 0.1, "{zoomed}");
    let pointed = attribute("data-pointed").unwrap();
    for part in ["stream", "PDU", "cmd_sn", "bytes of IP"] {
        assert!(pointed.contains(part), "{part} is not in {pointed}");
    }
    let stages: f64 = attribute("data-stages-us").unwrap().parse().unwrap();
    let latency: f64 = attribute("data-latency-us").unwrap().parse().unwrap();
    assert!((stages / latency - 1.0).abs() < 0.01, "stages sum to {stages} of {latency}");
    // The second of two sessions was chosen, of which four layers are known, and of them the last.
    assert_eq!(attribute("data-inside"), Some("iSCSI: window granted at the end of 4"));
    let issued: f64 = attribute("data-issued").unwrap().parse().unwrap();
    assert!((issued / inside::REQUESTS as f64 - 1.0).abs() < 0.01, "{issued} requests are in the steps");
    let dom = browser::dom(&page, VIEW).unwrap();
    assert!(dom.contains("data-figures=\"4\"") && dom.contains("data-later=\"3\""), "closed cells wait");
    for (name, view) in [("inside-light", VIEW), ("inside-dark", View { dark: true, ..VIEW })] {
        let png = kept.join(format!("{name}.png"));
        let tall = View { height_pixels: 3200, ..view };
        browser::screenshot(&page, tall, &png).unwrap();
        assert!(std::fs::metadata(&png).unwrap().len() > 20_000, "{}", png.display());
    }
}
