//! Keys of a plan: one file for each section of the TOML, and for the kinds of value that several sections take.

pub(in crate::plan) mod background;
pub(in crate::plan) mod case;
pub(in crate::plan) mod found_rate;
pub(in crate::plan) mod load;
pub(in crate::plan) mod lun;
pub(in crate::plan) mod need;
pub(in crate::plan) mod path;
pub(in crate::plan) mod recording;
pub(in crate::plan) mod shell_line;
pub(in crate::plan) mod target;
pub(in crate::plan) mod time;
