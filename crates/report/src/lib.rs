//! Results as one self-contained HTML page and as terminal tables.
//!
//! Everything shown was computed by `analysis`; here it is only scaled to a unit, rounded, thinned out for
//! drawing and laid out. Nothing is read from disk and no other file or address is needed by the page.

mod capture;
pub mod compare;
mod doctor;
mod figures;
mod format;
mod gaps;
mod headline;
mod interactive;
mod page;
mod tables;
pub mod terminal;

pub use capture::html as capture_html;
pub use doctor::{examined, lines as limits, text as doctor};
pub use headline::{headline, standing};
pub use page::html;
pub use terminal::steps::text as steps;
