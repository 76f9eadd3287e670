//! `cargo xtask bench`: farlun beside other software, beside its own raw stream and beside another build of itself.
//!
//! Sides run in interleaved rounds (`rounds`). Beside others a figure is the median of the ratios within a round, and its
//! bound is part of the row; beside another build the interval of that median decides (`against`). Not a test: it wants a
//! quiet machine and some minutes. Rows are printed as Markdown, for docs/notebook/benchmarks.md.

mod against;
mod args;
mod length;
mod program;
mod rounds;
mod section;
mod sections;

use anyhow::Result;

pub(crate) use args::Request;
pub(crate) use sections::capture::generate;

/// Runs the requested sections; true if every bound holds.
pub(crate) fn run(request: &Request) -> Result<bool> {
    if let Some(asked) = &request.against {
        return against::run(asked, request.length, &request.sections);
    }
    section::ensure_programs(request.sections.iter().map(|section| section.programs))?;
    let mut good = true;
    for section in &request.sections {
        good &= (section.beside)(request.length)?;
    }
    Ok(good)
}
