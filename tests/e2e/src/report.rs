//! A report as a browser sees it: headless Chromium loads the page and hands back what became of it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::{process, skip};

/// Runs in the page after everything else and writes down, in the page, what a reader of the page cannot see.
const PROBE: &str = r#"<script>
window.addEventListener("load", function () {
    var probe = document.createElement("pre");
    probe.id = "probe";
    probe.textContent = JSON.stringify({
        ready: document.body.dataset.ready || null,
        errors: window.farlunErrors || [],
        plots: document.querySelectorAll(".js-plotly-plot .main-svg").length,
        curves: document.querySelectorAll(".js-plotly-plot .scatterlayer .trace").length
    });
    document.body.appendChild(probe);
});
</script>"#;

/// What a page turned into.
#[derive(Debug)]
pub struct Page {
    /// The document after its scripts ran.
    pub dom: String,
    /// What the probe saw: `ready`, `errors`, `plots`, `curves`.
    pub probe: serde_json::Value,
    /// Script errors that the browser logged.
    pub console_errors: Vec<String>,
}

/// Loads the page at `path` in headless Chromium.
#[track_caller]
pub fn open(path: &Path) -> Page {
    let scratch = tempfile::Builder::new().prefix("farlun-page-").tempdir().expect("a temporary folder");
    let probed = scratch.path().join("page.html");
    let html = fs::read_to_string(path).expect("a report");
    fs::write(&probed, html + PROBE).expect("room for a copy of the report");
    let mut command = Command::new("chromium");
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .args(["--virtual-time-budget=20000", "--window-size=1400,1000"])
        .arg(format!("--user-data-dir={}", scratch.path().join("profile").display()))
        .arg(format!("file://{}", probed.display()));
    let finished = process::run(&mut command, Duration::from_secs(120)).expect_code(0);
    let console_errors =
        finished.stderr.lines().filter(|line| line.contains("CONSOLE") && line.contains("Error"));
    let console_errors = console_errors.map(str::to_owned).collect();
    let text =
        finished.stdout.split("<pre id=\"probe\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let text = text.unwrap_or_else(|| panic!("the page never finished loading\n{}", finished.stderr));
    let probe =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("the probe wrote {text:?}: {error}"));
    Page { dom: finished.stdout, probe, console_errors }
}

/// Whether the browser is there.
pub fn available() -> Result<(), String> {
    skip::program("chromium")
}
