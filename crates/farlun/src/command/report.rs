//! `farlun report`: draws the page of a run directory again. What it shows is `report`'s business.

use std::path::PathBuf;

use analysis::Tour;
use report::terminal::{self, Colour};
use store::{RunDir, RunError};

use crate::exit::{self, Exit};

/// Draw the report of a run again, from its tables.
///
/// Writes report.html into RUN and prints the verdict and the tables.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: farlun report runs/tour")]
pub(crate) struct ReportArgs {
    /// Run directory, or one of its cells.
    run: PathBuf,
    /// Print everything that was found as one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: ReportArgs) -> anyhow::Result<u8> {
    let ReportArgs { run: path, json } = args;
    let dir = RunDir::open(&path).map_err(|error| match error {
        RunError::NotARun { .. } => Exit::usage(error),
        other => other.into(),
    })?;
    let tour = Tour::collect(&dir)?;
    let words = ["farlun", "report", &path.to_string_lossy()].map(str::to_owned);
    let rebuild = lab::quoted(&words);
    let page = dir.write(store::REPORT_FILE, report::html(&tour, &rebuild).as_bytes())?;
    if json {
        say!("{}", serde_json::json!({"report": page, "result": tour}));
    } else {
        say!("{}", terminal::summary(&tour, Colour::on(&std::io::stdout())).trim_end());
        say!("\n{}", page.display());
    }
    Ok(exit::DONE)
}
