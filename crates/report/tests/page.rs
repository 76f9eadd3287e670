//! A page drawn from a synthetic run has the run's contents, and draws without error in Chromium.

mod browser;
mod synthetic;

use std::path::PathBuf;

use analysis::Tour;
use browser::View;
use report::terminal::{self, Colour};

const REBUILD: &str = "farlun report runs/tour";
/// The contract allows 6 MB; the script alone is 1.2 MB.
const MOST_BYTES: usize = 2_000_000;

fn run(failing: bool) -> (tempfile::TempDir, Tour) {
    let temp = tempfile::tempdir().unwrap();
    let dir = synthetic::write(&temp.path().join("run"), failing);
    let tour = Tour::collect(&dir).unwrap();
    (temp, tour)
}

#[test]
fn the_figures_are_those_of_the_run() {
    let (_temp, tour) = run(false);
    let metrics = tour.metrics();
    let goodput = metrics.value(&[], "line.goodput").unwrap();
    assert_eq!(goodput.round(), 941_482_445.0);
    for delay in ["0", "8ms", "50ms"] {
        let point = [("delay".to_owned(), delay.to_owned())];
        for (load, share) in synthetic::SHARES {
            let found = metrics.value(&point, &format!("{load}.throughput")).unwrap() / goodput;
            assert!((found / share - 1.0).abs() < 0.004, "{load} at {delay}: {found}, expected {share}");
        }
        let excess = metrics.value(&point, "write1m.excess_over_rtt_in_serialisations").unwrap();
        assert!((excess - 1.1).abs() < 0.01, "{delay}: {excess}");
    }
    let far = [("delay".to_owned(), "50ms".to_owned())];
    let ramp = metrics.value(&far, "read.ramp").unwrap();
    assert!((1.5..3.0).contains(&ramp), "{ramp}");
}

#[test]
fn an_invalid_repeat_yields_no_figure_and_says_so() {
    let (_temp, tour) = run(true);
    let point = [("delay".to_owned(), "8ms".to_owned())];
    assert_eq!(tour.metrics().spread(&point, "rand4k.latency_p50").unwrap().repeats, 2);
    let text = terminal::summary(&tour, Colour::Never);
    assert!(text.contains("9 of the plan's 10 checks hold, 1 was not measured."), "{text}");
    assert!(text.contains("1 of 45 measurements is not valid and left out."), "{text}");
    assert!(text.contains("lateness p99 2.4 ms, allowed 0.8 ms"), "{text}");
    assert!(!text.contains('\x1b'));
}

#[test]
fn a_document_of_another_shape_is_named_and_cells_stay_in_the_order_of_the_plan() {
    let temp = tempfile::tempdir().unwrap();
    let dir = synthetic::write(&temp.path().join("run"), false);
    let mut run = dir.manifest().unwrap();
    let mut odd = dir.cells().unwrap()[0].cell.clone();
    odd.near = Some(serde_json::json!({"op": "read", "t_start_ns": "soon"}));
    dir.save_cell(&run.cells[0].dir, &odd).unwrap();
    run.cells.reverse();
    dir.save(&run).unwrap();
    let tour = Tour::collect(&dir).unwrap();
    assert_eq!((tour.cells.len(), tour.cells[0].slug.as_str()), (15, "stream-delay-0"));
    let repeat = &tour.cells[0].repeats[0];
    assert!(
        !repeat.valid && repeat.reasons[0].contains("the load's document in cell.json"),
        "{:?}",
        repeat.reasons
    );
    assert_eq!(tour.cells[0].values["throughput"].repeats, 2);
}

#[test]
fn the_terminal_shows_verdict_tables_and_checks() {
    let (_temp, tour) = run(false);
    let text = terminal::summary(&tour, Colour::Never);
    println!("{text}");
    assert!(
        text.starts_with("Read reaches 97 % and write 96 % of the line at 100 ms round trip.\n"),
        "{text}"
    );
    for part in
        ["throughput, Mb/s", "turnaround, round trips", "✓  read fills the line at delay 50ms", "≥ 0.900"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn the_page_is_self_contained_and_small() {
    let (_temp, mut tour) = run(false);
    tour.cells[0].load = "<script>alert(1)</script>".to_owned();
    tour.run.plan_text = "# </script><img src=https://example.org/x>".to_owned();
    let page = report::html(&tour, REBUILD);
    assert!(page.len() <= MOST_BYTES, "{} bytes", page.len());
    let markup = without_scripts(&page);
    assert!(markup.contains(REBUILD));
    assert!(
        !markup.contains("<img") && !markup.contains("<link") && !markup.contains(" src=\""),
        "nothing to fetch"
    );
    assert_eq!(page.matches("<script").count() - page.matches("</script>").count(), plotly_mentions(&page));
}

#[test]
fn loads_of_one_request_at_a_time_are_drawn_against_delay_where_the_plan_asks_for_it() {
    let (_temp, mut tour) = run(false);
    let names = |tour: &Tour| -> Vec<String> {
        let page = report::html(tour, REBUILD);
        let (_, data) = page.split_once("id=\"figures\">").unwrap();
        let data = data.split_once("</script>").unwrap().0;
        let figures: serde_json::Value = serde_json::from_str(data).unwrap();
        let figure = figures.as_array().unwrap().iter().find(|f| f["id"] == "fig-throughput").unwrap();
        let traces = figure["traces"].as_array().unwrap();
        traces.iter().map(|trace| trace["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&tour), ["line (computed)", "stream", "read", "write"]);
    tour.run.plan = serde_json::json!({"draw": ["throughput by delay"]});
    for cell in tour.cells.iter_mut().filter(|cell| cell.load == "rand4k") {
        cell.point.insert("rand4k.policy".to_owned(), "none".to_owned());
    }
    let expected = ["line (computed)", "stream", "read", "write", "rand4k, rand4k.policy none", "write1m"];
    assert_eq!(names(&tour), expected);
    tour.cells.retain(|cell| !cell.bulk);
    assert_eq!(names(&tour), ["line (computed)", "rand4k, rand4k.policy none", "write1m"]);
}

#[test]
fn chromium_draws_every_figure_without_error() {
    let test = "chromium_draws_every_figure_without_error";
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    for (name, failing) in [("page", false), ("page-failing", true)] {
        let (_temp, tour) = run(failing);
        let page = kept.join(format!("{name}.html"));
        std::fs::write(&page, report::html(&tour, REBUILD)).unwrap();
        for (width_pixels, dark) in [(1280, false), (420, true)] {
            let view = View { width_pixels, height_pixels: 900, dark };
            let dom = match browser::dom(&page, view) {
                Ok(dom) => dom,
                Err(reason) => return println!("skipped: {test}: {reason}"),
            };
            let markup = without_scripts(&dom);
            let head = &markup[..markup.len().min(4000)];
            assert!(markup.contains("data-ready=\"1\""), "{head}");
            assert!(!markup.contains("data-errors"), "{head}");
            assert!(
                markup.contains("data-figures=\"7\""),
                "one throughput figure, and two for each of three delays"
            );
            for id in ["fig-throughput", "fig-rate-1", "fig-rate-2", "fig-rate-3", "fig-cwnd-1", "fig-cwnd-3"]
            {
                let (_, rest) = markup.split_once(&format!("id=\"{id}\"")).expect(id);
                assert!(rest.contains("class=\"main-svg\""), "{id}");
            }
            assert_eq!(markup.matches("js-plotly-plot").count(), 7);
        }
    }
    for (name, width_pixels, height_pixels, dark) in [
        ("page-light", 1280, 3600, false),
        ("page-dark", 1280, 3600, true),
        ("page-failing", 420, 6000, true),
    ] {
        let page = kept.join(if name == "page-failing" { "page-failing.html" } else { "page.html" });
        let png = kept.join(format!("{name}.png"));
        browser::screenshot(&page, View { width_pixels, height_pixels, dark }, &png).unwrap();
        assert!(std::fs::metadata(&png).unwrap().len() > 20_000, "{}", png.display());
    }
}

/// Everything but the contents of script elements.
fn without_scripts(page: &str) -> String {
    let mut rest = page;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once("<script") {
        kept.push_str(before);
        rest = after.split_once("</script>").map_or("", |(_, after)| after);
    }
    kept + rest
}

/// Number of times that plotly's own text has an opening script tag.
fn plotly_mentions(page: &str) -> usize {
    let (_, script) = page.split_once("plotly.js (basic").unwrap();
    let (script, _) = script.split_once("</script>").unwrap();
    script.matches("<script").count()
}
