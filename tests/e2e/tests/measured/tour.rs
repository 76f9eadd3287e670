//! The tour: it runs, its checks are evaluated, and its report opens in a browser.
//!
//! Whether the figures are good is the plan's own business: a slow machine must not fail this test, so here its exit
//! code only has to agree with its checks. With `--long` the whole tour must pass.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use e2e::skip::is_long;
use e2e::{Finished, decide, farlun, need, path, report, run};

const REPORT_BYTES_MAX: u64 = 6 << 20;

/// One run of the tour, shared by the tests of this file.
struct Tour {
    folder: PathBuf,
    finished: Finished,
}

fn tour() -> &'static Tour {
    static TOUR: OnceLock<Tour> = OnceLock::new();
    TOUR.get_or_init(|| {
        let _turn = path::turn();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tour");
        let _ = fs::remove_dir_all(&folder);
        let mut command = farlun(["lab", "--json", "--out"]);
        command.arg(&folder);
        if !is_long() {
            command.arg("--quick");
        }
        let limit = Duration::from_secs(if is_long() { 1200 } else { 900 });
        Tour { finished: run(&mut command, limit), folder }
    })
}

#[test]
fn checks_are_evaluated_and_decide_the_exit_code() {
    need!(path::available());
    let tour = tour();
    let document = tour.finished.json();
    let checks = document["checks"].as_array().expect("a list of checks");
    assert!(!checks.is_empty(), "the tour expects something");
    for check in checks {
        for key in ["name", "value", "op", "bound", "unit", "ok"] {
            assert!(check.get(key).is_some(), "a check has no `{key}`: {check}");
        }
        // Shown when this test fails, and by `--nocapture`.
        println!("{check}");
    }
    assert_eq!(document["failed"], serde_json::json!([]), "every command of every cell did its work");
    let invalid = document["invalid"].as_array().is_some_and(|cells| !cells.is_empty());
    let unfulfilled = checks.iter().any(|check| check["ok"] != true);
    let expected = if invalid { 4 } else { i32::from(unfulfilled) };
    assert_eq!(tour.finished.code, expected, "the exit code agrees with the checks\n{document:#}");
    assert!(!is_long() || expected == 0, "the whole tour passes\n{document:#}");
    let stored: Value = serde_json::from_slice(&fs::read(tour.folder.join("run.json")).expect("run.json"))
        .expect("run.json is JSON");
    assert_eq!(stored["checks"], document["checks"], "what is stored is what was printed");
}

#[test]
fn report_opens_in_a_browser() {
    need!(path::available(), report::available());
    let html = tour().folder.join("report.html");
    let bytes = fs::metadata(&html).expect("report.html").len();
    assert!(bytes <= REPORT_BYTES_MAX, "the report has {bytes} bytes, {REPORT_BYTES_MAX} at most");
    let page = report::open(&html);
    assert_eq!(page.attribute("data-errors"), None, "no script error");
    assert_eq!(page.console_errors, Vec::<String>::new(), "no error in the console");
    assert_eq!(page.attribute("data-ready"), Some("1"), "the page drew everything");
    let figures: usize =
        page.attribute("data-figures").and_then(|count| count.parse().ok()).expect("a number of figures");
    assert!(figures >= 1, "there is something to draw");
    // Plotly draws each figure into one element of this class, and each curve into a group.
    assert!(page.drawn("plot-container plotly") >= figures, "every figure is drawn");
    let validity = path::all_valid(&tour().finished.json());
    decide!(page.drawn("trace scatter") >= 3, validity, "stream, read and write are drawn");
    assert!(page.dom.contains("farlun lab"), "the command that rebuilds the page is in it");
    for id in ["fig-in-flight-", "fig-request-", "fig-packets-", "table-layers-"] {
        assert!(
            page.dom.contains(&format!("id=\"{id}")),
            "{id}… is on the page: the tour records its requests"
        );
    }
    assert!(page.drawn("plot packets") >= 1, "packets are drawn");
}

#[test]
fn report_is_drawn_again_from_the_run() {
    need!(path::available());
    let tour = tour();
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tour-copy");
    let _ = fs::remove_dir_all(&copy);
    copy_tree(&tour.folder, &copy);
    fs::remove_file(copy.join("report.html")).expect("the report is there");
    run(farlun(["report"]).arg(&copy), Duration::from_secs(120)).expect_code(0);
    assert!(copy.join("report.html").exists(), "the report is back");
    fs::remove_dir_all(&copy).expect("the copy can go");
}

#[test]
fn a_cell_beside_itself_is_alike_and_beside_nothing_refused() {
    need!(path::available(), report::available());
    let tour = tour();
    let document = |path: &Path| -> Value {
        serde_json::from_slice(&fs::read(path).expect("a document")).expect("JSON")
    };
    let reads: Vec<PathBuf> = document(&tour.folder.join("run.json"))["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .filter(|cell| cell["load"] == "read")
        .map(|cell| tour.folder.join(cell["dir"].as_str().expect("a directory")))
        .collect();
    let limit = Duration::from_secs(120);
    let is_valid = |dir: &&PathBuf| document(&dir.join("cell.json"))["valid"] == true;
    // One that the machine was too busy for is refused.
    if let Some(spoilt) = reads.iter().find(|dir| !is_valid(dir)) {
        run(farlun(["compare"]).arg(spoilt).arg(spoilt), limit).expect_code(2);
    }
    let cell = reads.iter().find(is_valid).expect("one read that was valid");
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compare.html");
    let mut command = farlun(["compare", "--json", "--page"]);
    let found = run(command.arg(&page).arg(cell).arg(cell), limit).expect_code(0).json();
    let rows = found["result"]["pairs"][0]["rows"].as_array().expect("figures of both");
    assert!(rows.iter().any(|row| row["name"] == "throughput"), "{found:#}");
    for row in rows {
        assert!(row["medians"][0].is_number() && row["medians"][0] == row["medians"][1], "{row}");
        assert!(row["outcome"] == "alike" || row["outcome"] == "open", "{row}");
    }
    let page = report::open(&page);
    assert_eq!(page.attribute("data-errors"), None, "no script error");
    assert!(page.dom.contains("farlun compare"), "the command that draws the page again is in it");
    let refused = run(farlun(["compare"]).arg(cell).arg("/nonexistent"), limit).expect_code(2);
    assert!(refused.stderr.contains("/nonexistent"), "{refused:#?}");
}

#[test]
fn shipped_plans_are_listed_and_sound() {
    let listed = run(&mut farlun(["lab", "list"]), Duration::from_secs(60)).expect_code(0);
    let names: Vec<&str> = listed.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"tour"), "{listed:#?}");
    for name in names {
        run(&mut farlun(["lab", "check", name]), Duration::from_secs(60)).expect_code(0);
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let place = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &place);
        } else {
            fs::copy(entry.path(), place).expect("a copy");
        }
    }
}
