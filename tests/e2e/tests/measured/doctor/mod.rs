//! The doctor: of recorded runs, of live targets, and its proof by intervention.

mod live;
mod matrix;
mod paths;
mod recorded;
