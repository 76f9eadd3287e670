//! Throughput of a cell: application bytes per second that arrived during its window, all initiators together.

use tables::{CellDir, TableError};

use super::initiators;

pub use super::arrivals::{Arrivals, Source, Throughput, window};

/// Throughput of a cell over its window, all initiators together, in bits per second; `None` without documents or
/// tables.
pub fn of_cell(dir: &CellDir) -> Result<Option<f64>, TableError> {
    let (Ok(Some(load)), Ok(others)) = (dir.cell.load(), dir.cell.other_loads()) else { return Ok(None) };
    let all = initiators::gather(dir, load, &others)?;
    let mut arrivals = Arrivals::of(&all.load, all.sockets.as_ref(), all.io.as_ref());
    if arrivals.is_none() && all.load.kind == "command" {
        arrivals = Arrivals::handed_over(&dir.path, &all.load)?;
    }
    let figure = arrivals.and_then(|arrivals| arrivals.over(window(&dir.cell, &all.load)));
    Ok(figure.map(|figure| figure.bits_per_s))
}
