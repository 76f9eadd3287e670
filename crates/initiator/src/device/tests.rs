//! A device on a session with a silent peer.

use std::net::TcpStream;

use block::{BlockOp, Buffers, ErrorKind, OperationError, Owner, Token};
use proto::params::Params;
use wire::scsi::BlockForm;

use super::*;
use crate::client::tests::session;
use crate::disk::Geometry;
use crate::options::Options;

/// The command window of the session.
const WINDOW: usize = 128;

fn device(options: &Options) -> (IscsiDevice, TcpStream) {
    let (mut client, peer) = session(options, Params::default());
    let limits = RangeLimits { unmap: None, write_same_blocks: 0, unmaps_to_zeros: false };
    let cache = Cache { is_volatile: true, has_fua: true };
    let work = Work::new(Geometry::of(512, BlockForm::Ten), limits, cache, client.buffers().clone());
    client.start(clock::now());
    let profile = Profile {
        len_bytes: 1 << 30,
        blocks: BlockSizes { logical_bytes: 512, physical_bytes: 512, preferred_bytes: 512 },
        limits: Limits { transfer_bytes: 1 << 20, range_bytes: 0, atomic_bytes: 0 },
        can: Capabilities {
            read_only: false,
            write_cache: true,
            fua: true,
            unmap: false,
            unmapped_reads_zero: false,
            fill: false,
            compare: false,
            extents: false,
        },
    };
    let (scratch, events) = (Scratch::new(), Events::new());
    let (next, turned_at) = (Turn::Again, Instant::ZERO);
    (IscsiDevice { client, work, profile, scratch, events, next, turned_at, ended: None }, peer)
}

/// Requests above the command window wait in the device, where they can be withdrawn.
#[test]
fn the_command_window_limits_the_commands_of_the_session() {
    for (queue_limit, expected) in [(None, WINDOW), (Some(10), 10)] {
        let (mut device, _peer) = device(&Options { queue_limit, ..Options::plain() });
        let buffers = Buffers::new(0);
        let request = |id| BlockRequest {
            id: Token(id),
            owner: Owner(1),
            op: BlockOp::Read { offset_bytes: id * 512, into: buffers.take(512) },
            fua: false,
            is_timed: false,
        };
        (0..300).for_each(|id| device.submit(request(id), clock::now()));
        assert!(device.poll(clock::now()).is_none());
        assert_eq!(device.client.side.open.len(), expected);
        device.cancel(Select::Owner(Owner(1)), clock::now());
        let withdrawn = std::iter::from_fn(|| device.work.done.pop_front()).filter(|done| {
            matches!(&done.result, Err(OperationError::Read(error)) if error.kind == ErrorKind::Cancelled)
        });
        assert_eq!(withdrawn.count(), 300 - expected);
    }
}

#[test]
fn a_granularity_beyond_all_sizes_is_ignored() {
    assert_eq!(preferred_bytes(8, 512), 4096);
    assert_eq!(preferred_bytes(0, 512), 1);
    assert_eq!(preferred_bytes(3, 4096), 16384);
    assert_eq!(preferred_bytes(u16::MAX, 65536), 1);
    assert_eq!(preferred_bytes(u16::MAX, 1 << 20), 1);
}
