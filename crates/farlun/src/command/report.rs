//! `farlun report`: draws the page of a run directory again. The crate `report` makes the page.

use std::path::PathBuf;

use analysis::Tour;
use report::terminal::{self, Colour};
use tables::{RunDir, RunError};

use crate::exit::{self, Exit};

/// Draw the report of a run again, from its tables.
///
/// Writes report.html into RUN and prints the verdict and the tables.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  farlun report runs/tour\n  \
                  farlun report runs/tour/cells/*-random-delay-8ms/r1 --request 4711")]
pub(crate) struct ReportArgs {
    /// Run directory, or one of its cells.
    run: PathBuf,
    /// Show the request of this CmdSN too, in every cell that recorded it.
    #[arg(long, value_name = "CMD_SN")]
    request: Option<u32>,
    /// Print everything that was found as one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: ReportArgs) -> anyhow::Result<u8> {
    let ReportArgs { run: path, request, json } = args;
    let dir = RunDir::open(&path).map_err(|error| match error {
        RunError::NotARun { .. } => Exit::usage(error),
        other => other.into(),
    })?;
    let tour = Tour::collect_with(&dir, request)?;
    let mut words = ["farlun", "report", &path.to_string_lossy()].map(str::to_owned).to_vec();
    words.extend(request.into_iter().flat_map(|cmd_sn| ["--request".to_owned(), cmd_sn.to_string()]));
    let rebuild = lab::quoted(&words);
    let page = dir.write(tables::REPORT_FILE, report::html(&tour, &rebuild).as_bytes())?;
    if json {
        say!("{}", serde_json::json!({"report": page, "result": tour}));
    } else {
        say!("{}", terminal::summary(&tour, Colour::on(&std::io::stdout())).trim_end());
        say!("\n{}", page.display());
    }
    Ok(exit::DONE)
}
