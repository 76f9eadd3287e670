//! `farlun doctor RUN`: the limits of the loads of a run, found by `analysis`.

use std::io::stdout;
use std::path::Path;

use analysis::Point;
use analysis::doctor::{Question, survey};
use analysis::limits::{self, Found};
use diagnosis::judge;
use report::terminal::Colour;
use serde_json::{Value, json};
use tables::{RunDir, RunError};

use crate::exit::{self, Exit};

pub(super) fn run(path: &Path, is_json: bool) -> anyhow::Result<u8> {
    let (found, cases, title) = match RunDir::open(path) {
        Ok(dir) => {
            let title = dir.manifest()?.plan["title"].as_str().map(str::to_owned);
            (limits::of_run(&dir)?, lab::doctor::judged_again(&dir)?, title)
        }
        Err(RunError::NotARun { .. }) => (of_tables(path)?, None, None),
        Err(error) => return Err(error.into()),
    };
    if found.is_empty() {
        return Err(Exit::usage(format!(
            "{}: no table io with requests that ended well; expected a run, one of its cells, or what --trace wrote",
            path.display()
        )));
    }
    if is_json {
        let document = |found: &Found| json!({"dir": found.dir, "load": found.load, "point": found.point, "unvalidated": found.unvalidated, "facts": found.facts, "diagnosis": found.diagnosis});
        let cells: Vec<Value> = found.iter().map(document).collect();
        let cases = cases.map(|cases| cases.json);
        say!("{}", json!({ "cells": cells, "cases": cases }));
        return Ok(exit::DONE);
    }
    let colour = Colour::on(&stdout());
    if let Some(title) = title {
        say!("{title}\n");
    }
    if found.len() > 1 {
        say!("{}", report::limits(found.iter().map(Found::examined), colour));
    }
    let text = |found: &Found| {
        report::doctor(&found.diagnosis, &report::examined(&found.examined(), &found.dir), colour)
    };
    let texts: Vec<String> = found.iter().map(text).collect();
    say!("{}", texts.join("\n").trim_end());
    if let Some(cases) = cases {
        say!("\n{}", cases.text.trim_end());
    }
    Ok(exit::DONE)
}

/// A directory with tables and nothing else.
fn of_tables(path: &Path) -> anyhow::Result<Vec<Found>> {
    if !path.is_dir() {
        return Err(Exit::usage(format!(
            "'{}' is neither the URL of a LUN nor a directory: expected iscsi://HOST[:PORT]/IQN/LUN, which `farlun ls \
             iscsi://HOST` lists, or what a run or --trace wrote",
            path.display()
        )));
    }
    let Some(facts) = survey(path, Question::default())? else { return Ok(Vec::new()) };
    let dir = path.to_string_lossy().into_owned();
    let diagnosis = judge(&facts);
    Ok(vec![Found { load: dir.clone(), dir, point: Point::new(), unvalidated: false, facts, diagnosis }])
}
