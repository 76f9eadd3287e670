//! Results as one self-contained HTML page and as terminal tables.
//!
//! Everything shown was computed by `analysis`; here it is only scaled to a unit, rounded, thinned out for
//! drawing and laid out. Nothing is read from disk and no other file or address is needed by the page.

mod against;
mod capture;
pub mod compare;
mod decimate;
mod doctor;
mod ends;
mod figure;
mod format;
mod gaps;
mod headline;
mod looking;
mod over_time;
mod page;
mod steps;
mod stroke;
mod table;
mod tables;
pub mod terminal;
mod top;

pub use capture::html as capture_html;
pub use doctor::{examined, lines as limits, text as doctor};
pub use headline::{headline, standing};
pub use page::html;
pub use steps::text as steps;
