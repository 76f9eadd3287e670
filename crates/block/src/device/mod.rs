//! The device interface: requests go in, completions come out, in any order.
//!
//! A device lives in a loop. It never blocks and never calls back: the loop polls it when its descriptor is readable or
//! its time has come. Requests own their buffers, since a borrowed one cannot outlast a worker or a far round trip.
//!
//! There is no order among outstanding requests. A flush covers the writes that completed before it was submitted, of
//! all owners. A device that has lost acknowledged writes with its cache fails a flush with [`crate::ErrorKind::Lost`]: the
//! open ones, the next one of any owner, and the next one of each owner that lost writes, each once. Devices bound no
//! load: a face submits no more than its own memory budget permits.

mod check;
mod extent;
mod profile;
mod request;

use std::fmt;
use std::os::fd::BorrowedFd;

use event::Instant;

use crate::lent::Lent;

pub use extent::Extent;
pub use profile::{BlockSizes, Capabilities, Limits, Profile};
pub use request::{BlockCompletion, BlockOp, BlockRequest, Owner, Select, Token};

pub use check::check;

#[cfg(test)]
mod tests;

/// A block device in a loop.
pub trait BlockDevice: fmt::Debug {
    /// Size, limits and capabilities.
    fn profile(&self) -> &Profile;

    /// Takes a request. It completes once, through [`BlockDevice::poll`]; an error is a completion too.
    fn submit(&mut self, request: BlockRequest, now: Instant);

    /// The next completion; `None` until the descriptor is readable or [`BlockDevice::next_at`] has come.
    fn poll(&mut self, now: Instant) -> Option<BlockCompletion>;

    /// Withdraws requests. Each still completes: as cancelled if it was not begun, between two pieces, or as it ends.
    fn cancel(&mut self, select: Select, now: Instant);

    /// Time of the next poll without a readable descriptor; [`Instant::FAR_FUTURE`] for none.
    fn next_at(&self) -> Instant;

    /// Descriptor that is readable when a poll has something. `None` for a device that needs time alone, or whose worker
    /// pool the loop waits for.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Bytes in memory, for a face that sends from them and receives into them without a copy. The face checks place,
    /// length and permission of such a transfer itself.
    fn lent(&mut self) -> Option<&mut Lent> {
        None
    }
}
