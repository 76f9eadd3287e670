//! The command line, and instruments that need no path.

mod bad_input;
mod captures;
mod commands;
mod doctor;
mod recorder;
mod secrets;
mod stream;
mod trace;
