//! A report as a browser sees it: headless Chromium loads the page, runs its scripts and hands back the document.
//!
//! The page itself says what became of it: `data-figures` and `data-ready` on the body, `data-errors` on the root.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::{process, skip};

/// What a page turned into.
#[derive(Debug)]
pub struct Page {
    /// The document after its scripts ran, without the scripts themselves.
    pub dom: String,
    /// Script errors that the browser logged.
    pub console_errors: Vec<String>,
}

impl Page {
    /// The value of the first attribute of this name in the document.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let rest = self.dom.split(&format!(" {name}=\"")).nth(1)?;
        rest.split('"').next()
    }

    /// How often an element of this class occurs among those that the scripts drew.
    pub fn drawn(&self, class: &str) -> usize {
        self.dom.matches(&format!("class=\"{class}")).count()
    }
}

/// Loads the page at `path` in headless Chromium.
#[track_caller]
pub fn open(path: &Path) -> Page {
    let profile = tempfile::Builder::new().prefix("farlun-page-").tempdir().expect("a temporary folder");
    let path = path.canonicalize().expect("a report");
    let mut command = Command::new("chromium");
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args(["--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--dump-dom"])
        .args(["--virtual-time-budget=20000", "--window-size=1400,1000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", path.display()));
    let finished = process::run(&mut command, Duration::from_secs(120)).expect_code(0);
    let logged = finished.stderr.lines().filter(|line| line.contains("CONSOLE"));
    let errors =
        logged.filter(|line| line.contains("Uncaught") || line.contains("Error") || line.contains("Refused"));
    Page { console_errors: errors.map(str::to_owned).collect(), dom: without_scripts(&finished.stdout) }
}

/// What a reader sees, so that nothing is found in a script's own text.
fn without_scripts(html: &str) -> String {
    let mut parts = html.split("<script");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(part.split_once("</script>").map_or("", |(_, after)| after));
    }
    kept
}

/// Whether the browser is there.
pub fn available() -> Result<(), String> {
    skip::program("chromium")
}
