//! Opens a page in headless Chromium, with a profile of its own and no network.

use std::path::Path;
use std::process::Command;

/// View of a page.
#[derive(Clone, Copy)]
pub(crate) struct View {
    /// Viewport.
    pub(crate) width_pixels: u32,
    /// Viewport.
    pub(crate) height_pixels: u32,
    /// The reader prefers a dark page.
    pub(crate) dark: bool,
}

/// The page's DOM after its scripts ran, or why there is no browser to ask.
pub(crate) fn dom(page: &Path, view: View) -> Result<String, String> {
    dom_at(page, "", view)
}

/// Likewise, with something behind the page's address, such as `#all`.
pub(crate) fn dom_at(page: &Path, behind: &str, view: View) -> Result<String, String> {
    chromium(&format!("{}{behind}", page.display()), view, &["--dump-dom".to_owned()])
}

/// A picture of the page, as PNG. The page stands in a frame, since a window cannot be as narrow as a phone.
pub(crate) fn screenshot(page: &Path, view: View, png: &Path) -> Result<(), String> {
    let frame = tempfile::Builder::new().suffix(".html").tempfile().map_err(|e| e.to_string())?;
    let size = format!("width={} height={}", view.width_pixels, view.height_pixels);
    let text = format!(
        "<style>body{{margin:0}}</style><iframe {size} frameborder=0 src=\"file://{}\"></iframe>",
        page.display()
    );
    std::fs::write(frame.path(), text).map_err(|e| e.to_string())?;
    chromium(
        &frame.path().display().to_string(),
        view,
        &[format!("--screenshot={}", png.display()), "--hide-scrollbars".to_owned()],
    )
    .map(drop)
}

fn chromium(address: &str, view: View, what: &[String]) -> Result<String, String> {
    let profile = tempfile::tempdir().map_err(|e| e.to_string())?;
    let output = Command::new("timeout")
        .args(["120", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={},{}", view.width_pixels, view.height_pixels))
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!view.dark)))
        // A wait of a page for work of another thread is a loop of timers, which uses up the budget on a busy machine.
        .arg("--virtual-time-budget=120000")
        .args(what)
        .arg(format!("file://{address}"))
        .output()
        .map_err(|error| format!("timeout: {error}"))?;
    match output.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Some(127) => Err("chromium is not installed".to_owned()),
        code => panic!("chromium ended with {code:?}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}
