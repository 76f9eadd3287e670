//! `farlun doctor RUN`: what limits the loads of a run. How it is found out is `analysis::doctor`'s business.

use std::path::Path;

use analysis::doctor::{self, Diagnosis, Facts, Question};
use analysis::throughput;
use event::Op;
use report::terminal::Colour;
use serde_json::{Value, json};
use store::{CellDir, RunDir, RunError};

use crate::exit::{self, Exit};

/// One load and what was found.
struct Found {
    dir: String,
    facts: Facts,
    diagnosis: Diagnosis,
}

pub(super) fn run(path: &Path, is_json: bool) -> anyhow::Result<u8> {
    let found = match RunDir::open(path) {
        Ok(dir) => of_run(&dir)?,
        Err(RunError::NotARun { .. }) => of_tables(path)?,
        Err(error) => return Err(error.into()),
    };
    if found.is_empty() {
        return Err(Exit::usage(format!(
            "{}: no table io with requests that ended well; expected a run, one of its cells, or what --trace wrote",
            path.display()
        )));
    }
    if is_json {
        let document =
            |found: &Found| json!({"dir": found.dir, "facts": found.facts, "diagnosis": found.diagnosis});
        let cells: Vec<Value> = found.iter().map(document).collect();
        say!("{}", json!({ "cells": cells }));
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

/// The time that the cell's other figures are of, and the load's own hosts; nothing else of what it says is looked at.
fn question(cell: &CellDir) -> Question {
    let hosts = Some([cell.cell.initiators, cell.cell.targets]);
    let Some(load) = cell.cell.load().ok().flatten() else {
        return Question { hosts, ..Question::default() };
    };
    let op = [Op::Read, Op::Write].into_iter().find(|op| op.name() == load.op);
    Question { op, window: Some(throughput::window(&cell.cell, &load)), hosts }
}

fn look(path: &Path, name: &str, question: Question) -> anyhow::Result<Option<Found>> {
    let Some(facts) = doctor::survey(path, question)? else { return Ok(None) };
    let diagnosis = doctor::judge(&facts);
    Ok(Some(Found { dir: name.to_owned(), facts, diagnosis }))
}
