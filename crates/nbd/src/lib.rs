//! The NBD face: one block device as an export over TCP and Unix sockets.
//!
//! - **One loop, one device.** [`NbdService`] owns the listeners, the connections and a [`block::BlockDevice`]. It knows
//!   the device by that interface alone: memory, a file behind workers and a far LUN are served alike.
//! - **Facts, not constants.** `export` derives size, flags and block sizes from the profile of the device; `error` is the
//!   one table from device errors to NBD errors. All connections share the device, so a flush on one covers all.
//! - **The protocol is in `proto::nbd`.** A connection (`server/client`) feeds its machine, turns requests into requests of
//!   the device, and sends what the machine queues. Requests complete in any order.
//! - **Few system calls.** One read fills 256 KiB, one vectored write takes up to 128 replies. A device that lends its
//!   bytes is sent from and received into without a copy; others get pooled buffers.
//! - **Bounded.** `server/memory` admits requests to one budget and never lets a connection take more than is left for
//!   others; a connection that must wait is not read. A turn has a limit of bytes, requests and time. Connections that
//!   have not ended their negotiation have few slots and little time.
//! - **Lost clients.** Unanswered writes of a closed connection are withdrawn or finish; requests to the same blocks wait
//!   for them (`server/device`).
//! - **The end.** A signal stops accepting and reading; outstanding requests are answered, the device is flushed, each
//!   within its time. The error of [`NbdService::serve`] says what was not flushed.

mod error;
mod export;
mod server;
#[cfg(test)]
mod testing;

pub use server::{NbdService, NbdServiceConfig, NbdServiceError, NbdServiceTotals};
