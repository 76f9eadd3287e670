//! `farlun compare`: two runs side by side. `analysis::compare` finds the differences.

use std::path::PathBuf;

use analysis::Tour;
use analysis::compare::Comparison;
use report::compare;
use report::terminal::Colour;
use tables::{RunDir, RunError};

use crate::exit::{self, Exit};
use crate::output;

/// Show two runs, or two of their cells, side by side: what differs, by how much, and whether by more than chance.
///
/// Cells are paired by load and place in the matrix; two cells are paired as they are.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  farlun compare runs/monday runs/friday\n  \
                  farlun compare runs/gaps/cells/*-plain/r1 runs/gaps/cells/*-merged/r1 --page paths.html")]
pub(crate) struct CompareArgs {
    /// Run directory, or one of its cells.
    first: PathBuf,
    /// The other one.
    second: PathBuf,
    /// Write a page with figures of both to this file.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: CompareArgs) -> anyhow::Result<u8> {
    let CompareArgs { first, second, page, json } = args;
    let tour = |path: &PathBuf| -> anyhow::Result<Tour> {
        let dir = RunDir::open(path).map_err(|error| match error {
            RunError::NotARun { .. } => Exit::usage(error),
            other => other.into(),
        })?;
        Ok(Tour::collect(&dir)?)
    };
    let (one, other) = (tour(&first)?, tour(&second)?);
    let comparison = Comparison::of([&one, &other]).map_err(Exit::usage)?;
    if let Some(page) = &page {
        let mut words = ["farlun", "compare"].map(str::to_owned).to_vec();
        words.extend([&first, &second].map(|path| path.display().to_string()));
        words.extend(["--page".to_owned(), page.display().to_string()]);
        let html = compare::html(&comparison, &lab::quoted(&words));
        output::write(page, html.as_bytes())?;
    }
    if json {
        say!("{}", serde_json::json!({"page": page, "result": comparison}));
    } else {
        say!("{}", compare::text(&comparison, Colour::on(&std::io::stdout())).trim_end());
        if let Some(page) = page {
            say!("\n{}", page.display());
        }
    }
    Ok(exit::DONE)
}
