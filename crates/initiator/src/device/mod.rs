//! A LUN of a target behind the device interface: a session in the event loop of the frontend.

mod error;
mod facts;
mod ranges;
mod unflushed;
mod work;

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use block::{
    BlockCompletion, BlockDevice, BlockError, BlockRequest, BlockSizes, Capabilities, Limits, Profile,
    Select, TRANSFER_MAX_BYTES, check,
};
use engine::{Scratch, Turn};
use event::Instant;
use net::{Events, clock};

use crate::client::Client;
use crate::disk::Disk;
use crate::error::Error;
use error::of_session;
use facts::{Facts, facts};
use ranges::RangeLimits;
use work::{Cache, Work};

/// Maximum range of one request, which is divided into commands of at most the target's limit.
const RANGE_MAX_BYTES: u64 = 64 << 30;

/// A LUN as a [`BlockDevice`].
///
/// A lost session is re-established, and outstanding requests are issued again; they wait at most for the timeout of
/// the session. After the session's end every request completes with its error.
pub struct IscsiDevice {
    client: Client,
    work: Work,
    profile: Profile,
    scratch: Scratch,
    events: Events,
    /// Result of the session's last turn.
    next: Turn,
    turned_at: Instant,
    /// Error that ended the session.
    ended: Option<BlockError>,
}

impl IscsiDevice {
    /// Reads the facts that the device announces.
    ///
    /// # Errors
    /// The session ended meanwhile.
    pub fn new(mut disk: Disk) -> Result<IscsiDevice, Error> {
        let facts = facts(&mut disk)?;
        let profile = profile(&disk, &facts);
        let write_same_blocks = facts.write_same_max_blocks.min(u64::from(u32::MAX)) as u32;
        let unmaps_to_zeros = facts.unmaps_to_zeros;
        let limits = RangeLimits { unmap: facts.unmap, write_same_blocks, unmaps_to_zeros };
        let cache = Cache { is_volatile: facts.has_write_cache(), has_fua: facts.has_fua };
        let (mut client, geometry) = disk.into_parts();
        client.side.lun.needs_flush = facts.write_cache == Some(true);
        let work = Work::new(geometry, limits, cache, client.buffers().clone());
        client.start(clock::now());
        let (scratch, events) = (Scratch::new(), Events::new());
        let (next, turned_at) = (Turn::Again, Instant::ZERO);
        Ok(IscsiDevice { client, work, profile, scratch, events, next, turned_at, ended: None })
    }

    /// The session, for statistics.
    pub fn session(&self) -> &Client {
        &self.client
    }

    /// Logs out.
    ///
    /// # Errors
    /// The target did not answer.
    pub fn close(self) -> Result<(), Error> {
        self.client.close().map(drop)
    }

    fn turn(&mut self, now: Instant) -> Result<(), Error> {
        self.turned_at = now;
        self.client.poll.wait(&mut self.events, Some(Duration::ZERO))?;
        self.events.iter().for_each(|ready| self.client.ready(ready));
        self.work.set_depth(commands_max(&self.client));
        self.next = self.client.turn(&mut self.work, &mut self.scratch, now)?;
        Ok(())
    }
}

impl BlockDevice for IscsiDevice {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn submit(&mut self, request: BlockRequest, _now: Instant) {
        if let Err(error) = check(&self.profile, &request) {
            return self.work.done.push_back(request.refused(error));
        }
        self.work.submit(request);
        match &self.ended {
            Some(error) => self.work.fail(error),
            None => self.next = Turn::Again,
        }
    }

    /// One turn of the session per call: a busy session does not delay the others of the loop.
    fn poll(&mut self, now: Instant) -> Option<BlockCompletion> {
        if self.work.done.is_empty()
            && self.ended.is_none()
            && now > self.turned_at
            && let Err(error) = self.turn(now)
        {
            let error = of_session(&error);
            self.work.fail(&error);
            self.ended = Some(error);
        }
        self.work.done.pop_front()
    }

    /// Issued commands are not aborted: the target may have executed them.
    fn cancel(&mut self, select: Select, _now: Instant) {
        self.work.cancel(select);
    }

    fn next_at(&self) -> Instant {
        match self.next {
            _ if !self.work.done.is_empty() => Instant::ZERO,
            _ if self.ended.is_some() => Instant::FAR_FUTURE,
            Turn::Again => Instant::ZERO,
            Turn::WaitUntil(at) => at,
            Turn::Wait | Turn::Stop => Instant::FAR_FUTURE,
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.client.poll.as_fd())
    }
}

impl fmt::Debug for IscsiDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IscsiDevice").field("address", &self.client.address()).finish_non_exhaustive()
    }
}

/// Commands that a session has outstanding at most: its command window, the commands that the LUN accepts, and the
/// user's limit. Further requests wait in the device, where owners take turns and requests can be withdrawn.
fn commands_max(client: &Client) -> usize {
    let window = client.side.session.command_window() as usize;
    let user = client.options.queue_limit.unwrap_or(usize::MAX);
    window.min(client.side.lun.command_limit.commands()).min(user)
}

fn profile(disk: &Disk, facts: &Facts) -> Profile {
    let block_bytes = disk.block_len_bytes();
    let preferred_bytes = preferred_bytes(facts.optimal_blocks, block_bytes);
    Profile {
        len_bytes: disk.len_bytes(),
        blocks: BlockSizes {
            logical_bytes: block_bytes,
            physical_bytes: facts.physical_block_bytes,
            preferred_bytes: preferred_bytes.max(facts.physical_block_bytes),
        },
        limits: Limits {
            transfer_bytes: disk.transfer_max_bytes().min(TRANSFER_MAX_BYTES),
            range_bytes: RANGE_MAX_BYTES,
            atomic_bytes: 0,
        },
        can: Capabilities {
            read_only: facts.is_write_protected,
            write_cache: facts.has_write_cache(),
            fua: facts.has_fua || !facts.has_write_cache(),
            unmap: facts.unmap.is_some() || facts.unmaps_to_zeros,
            unmapped_reads_zero: facts.unmaps_to_zeros,
            fill: facts.write_same_max_blocks > 0,
            compare: false,
            extents: false,
        },
    }
}

/// Granularity of requests from OPTIMAL TRANSFER LENGTH GRANULARITY: a power of two, 1 if the target's number makes no
/// sense.
fn preferred_bytes(optimal_blocks: u16, block_bytes: u32) -> u32 {
    let bytes = u32::from(optimal_blocks).checked_mul(block_bytes);
    bytes.and_then(u32::checked_next_power_of_two).unwrap_or(1)
}

#[cfg(test)]
mod tests;
