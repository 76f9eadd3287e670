//! The release binary over emulated paths that carry data, count packets or record: nothing here depends on how fast the
//! machine is, and several paths run side by side.

mod analyze;
mod capture;
mod devices;
mod growth;
mod here;
mod hosts;
mod lab;
mod large_packets;
mod model;
mod notification;
mod proofs;
mod replay;
mod stream;
mod top;
