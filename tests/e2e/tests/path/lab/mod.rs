//! Plans over emulated paths: those that ship, some of their own, resumed runs and reports.

mod closely;
mod longfat;
mod plans;
mod report;
mod resume;
