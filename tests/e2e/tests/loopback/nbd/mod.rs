//! `farlun serve-nbd`: against the clients of others, against bytes that are no protocol, and its end.

mod clients;
mod ends;
mod hostile;
mod ranges;
mod raw;
