//! Rates that depend on other cells: throughput of those cells, kept with the run.
//!
//! A figure is taken once, from the first valid repeat, and holds for the whole run, however often that is
//! interrupted: cells at two different rates could not be compared.

use std::collections::BTreeSet;

use analysis::throughput;
use tables::RunDir;
use tables::manifest::Run;

use crate::plan::{Cell, FoundRate, Point};
use crate::run::error::LabError;

/// Loads that the rates of other loads depend on.
pub(in crate::run) fn followed(cells: &[Cell]) -> BTreeSet<&str> {
    cells.iter().filter_map(|cell| cell.path.found_rate.as_ref()).flat_map(FoundRate::loads).collect()
}

/// The cell with its rate; the reason if that is not known.
pub(in crate::run) fn settled(
    cell: &Cell,
    cells: &[Cell],
    dir: &RunDir,
    run: &mut Run,
) -> Result<Result<Cell, String>, LabError> {
    let Some(rate) = &cell.path.found_rate else { return Ok(Ok(cell.clone())) };
    let mut trouble = None;
    let found = rate.value(&cell.point, |load, point| match carried(load, point, cells, dir, run) {
        Ok(figure) => figure,
        Err(error) => {
            trouble = Some(error);
            None
        }
    });
    match (trouble, found) {
        (Some(error), _) => Err(error),
        (None, Some(rate)) => Ok(Ok(Cell { path: cell.path.with_found(rate), ..cell.clone() })),
        (None, None) => Ok(Err(format!(
            "stopped, since the rate of {} is {rate}, and that was not found: see the reasons of the cell it names",
            cell.words()
        ))),
    }
}

/// Throughput of a load at a point; `None` if none of its repeats is valid.
fn carried(
    load: &str,
    point: &Point,
    cells: &[Cell],
    dir: &RunDir,
    run: &mut Run,
) -> Result<Option<f64>, LabError> {
    let is_meant = |cell: &&Cell| cell.load.name == load && cell.point.agrees(point);
    let Some(slug) = cells.iter().find(is_meant).map(Cell::slug) else { return Ok(None) };
    if let Some(figure) = run.found.get(&slug) {
        return Ok(Some(*figure));
    }
    for entry in run.cells.iter().filter(|entry| entry.slug == slug) {
        let repeat = dir.cell(&entry.dir)?;
        if repeat.cell.valid
            && let Some(figure) = throughput::of_cell(&repeat)?
        {
            run.found.insert(slug.clone(), figure);
            return Ok(Some(figure));
        }
    }
    Ok(None)
}
