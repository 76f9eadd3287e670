//! `farlun doctor`: what limits a load, and what to change. How it is found out is `analysis::doctor`'s business.

use std::path::{Path, PathBuf};

use analysis::doctor::{self, Diagnosis, Facts, Question};
use analysis::throughput;
use event::Op;
use report::terminal::Colour;
use serde_json::Value;
use store::{CellDir, RunDir, RunError};

use crate::exit::{self, Exit};

/// Say what limits a load, what shows it, what to change and what that would gain.
///
/// Looks at the tables of a run and at nothing else.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  farlun doctor runs/tour
  farlun doctor runs/layers/cells/003-calls/r1
  farlun bench iscsi://10.0.0.7/iqn.2026-11.io.farlun:store/0 --trace /tmp/t && farlun doctor /tmp/t")]
pub(crate) struct DoctorArgs {
    /// Run directory, one of its cells, or a directory that --trace wrote to.
    run: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// One load and what was found.
struct Found {
    dir: String,
    facts: Facts,
    diagnosis: Diagnosis,
}

pub(crate) fn run(args: DoctorArgs) -> anyhow::Result<u8> {
    let DoctorArgs { run: path, json } = args;
    let found = match RunDir::open(&path) {
        Ok(dir) => of_run(&dir)?,
        Err(RunError::NotARun { .. }) => of_tables(&path)?,
        Err(error) => return Err(error.into()),
    };
    if found.is_empty() {
        return Err(Exit::usage(format!(
            "{}: no table io with requests that ended well; expected a run, one of its cells, or what --trace wrote",
            path.display()
        )));
    }
    if json {
        let document = |found: &Found| serde_json::json!({"dir": found.dir, "facts": found.facts, "diagnosis": found.diagnosis});
        let cells: Vec<Value> = found.iter().map(document).collect();
        say!("{}", serde_json::json!({ "cells": cells }));
    } else {
        let text =
            |found: &Found| report::doctor(&found.diagnosis, &found.dir, Colour::on(&std::io::stdout()));
        let texts: Vec<String> = found.iter().map(text).collect();
        say!("{}", texts.join("\n").trim_end());
    }
    Ok(exit::DONE)
}

/// Every repeat of every cell that is valid and has requests.
fn of_run(dir: &RunDir) -> anyhow::Result<Vec<Found>> {
    let run = dir.manifest()?;
    let mut found = Vec::new();
    for entry in &run.cells {
        let cell = dir.cell(&entry.dir)?;
        if cell.cell.valid {
            found.extend(look(&cell.path, &entry.dir, question(&cell))?);
        }
    }
    Ok(found)
}

/// A directory with tables and nothing else.
fn of_tables(path: &Path) -> anyhow::Result<Vec<Found>> {
    if !path.is_dir() {
        return Err(Exit::usage(format!("{}: expected a directory with tables", path.display())));
    }
    Ok(look(path, &path.to_string_lossy(), Question::default())?.into_iter().collect())
}

/// The time that the cell's other figures are of; nothing else of what it says is looked at.
fn question(cell: &CellDir) -> Question {
    let Some(load) = cell.cell.load().ok().flatten() else { return Question::default() };
    let op = [Op::Read, Op::Write].into_iter().find(|op| op.name() == load.op);
    Question { op, window: Some(throughput::window(&cell.cell, &load)) }
}

fn look(path: &Path, name: &str, question: Question) -> anyhow::Result<Option<Found>> {
    let Some(facts) = doctor::survey(path, question)? else { return Ok(None) };
    let diagnosis = doctor::judge(&facts);
    Ok(Some(Found { dir: name.to_owned(), facts, diagnosis }))
}
