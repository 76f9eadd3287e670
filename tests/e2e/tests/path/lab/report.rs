//! The report of a run: it opens in a browser, and it is drawn again from the run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use e2e::{farlun, need, path, report, run};

const REPORT_BYTES_MAX: u64 = 6 << 20;

/// The folder of a smoke run of the tour, shared by the tests of this file.
fn tour() -> &'static Path {
    static TOUR: OnceLock<PathBuf> = OnceLock::new();
    TOUR.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tour-smoke");
        let _ = fs::remove_dir_all(&folder);
        run(farlun(["lab", "--smoke", "--out"]).arg(&folder), Duration::from_secs(600)).expect_code(0);
        folder
    })
}

#[test]
fn report_opens_in_a_browser() {
    need!(path::available(), report::available());
    let html = tour().join("report.html");
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
    assert!(page.drawn("trace scatter") >= 3, "stream, read and write are drawn");
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
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tour-copy");
    let _ = fs::remove_dir_all(&copy);
    copy_tree(tour(), &copy);
    fs::remove_file(copy.join("report.html")).expect("the report is there");
    run(farlun(["report"]).arg(&copy), Duration::from_secs(120)).expect_code(0);
    assert!(copy.join("report.html").exists(), "the report is back");
    fs::remove_dir_all(&copy).expect("the copy can go");
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
