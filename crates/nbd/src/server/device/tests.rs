//! The shared device with requests that complete by hand.

use block::{Buffers, Capabilities};

use super::*;
use crate::testing::{ManualDevice, ManualState, profile};

const NOW: Instant = Instant::ZERO;

fn device(write_cache: bool) -> (SharedDevice, ManualState) {
    let plain = profile();
    let profile = Profile { can: Capabilities { write_cache, ..plain.can }, ..plain };
    let (device, state) = ManualDevice::with_state(profile);
    (SharedDevice::new(device), state)
}

fn request(owner: u64, id: u64, op: BlockOp) -> BlockRequest {
    BlockRequest { id: Token(id), owner: Owner(owner), op, fua: false, is_timed: false }
}

fn read(offset_bytes: u64) -> BlockOp {
    BlockOp::Read { offset_bytes, into: Buffers::new(0).take(4096) }
}

fn write(offset_bytes: u64) -> BlockOp {
    BlockOp::Write { offset_bytes, data: Buffers::new(0).take(4096) }
}

#[test]
fn requests_to_blocks_of_a_lost_write_wait_for_it() {
    let (mut device, state) = device(false);
    device.submit(request(1, 1, write(4096)), NOW);
    device.submit(request(1, 2, read(65_536)), NOW);
    device.leave(Owner(1), NOW);
    assert_eq!(state.withdrawn(), [Select::Owner(Owner(1))]);
    let range = |offset_bytes| ByteRange { offset_bytes, len_bytes: 4096 };
    let unmap = BlockOp::Composite(CompositeAction::Unmap(vec![range(0), range(4096)][1..].to_vec()));
    for (id, op) in [(1, read(4096)), (2, write(0)), (3, write(8192)), (4, unmap), (5, read(65_536))] {
        device.submit(request(2, id, op), NOW);
    }
    device.submit(request(2, 6, write(4096 + 512)), NOW);
    device.submit(request(3, 7, read(4096)), NOW);
    assert_eq!(state.outstanding(), [(1, 1), (1, 2), (2, 2), (2, 3), (2, 5)]);
    assert!(!device.is_direct(range(4096)));
    // Requests of a connection that is lost while they wait are gone.
    device.leave(Owner(3), NOW);
    state.complete(1, 1, None);
    assert_eq!(device.poll(NOW).map(|done| done.id), Some(Token(1)));
    assert_eq!(state.outstanding(), [(1, 2), (2, 2), (2, 3), (2, 5), (2, 1), (2, 4), (2, 6)]);
    assert_eq!(device.outstanding(), 7);
}

#[test]
fn a_request_waits_for_all_lost_writes_to_its_blocks() {
    let (mut device, state) = device(false);
    device.submit(request(1, 1, write(0)), NOW);
    device.submit(request(2, 1, write(4096)), NOW);
    device.leave(Owner(1), NOW);
    device.leave(Owner(2), NOW);
    let into = Buffers::new(0).take(8192);
    device.submit(request(3, 1, BlockOp::Read { offset_bytes: 0, into }), NOW);
    for owner in [2, 1] {
        assert_eq!(state.outstanding().len(), owner as usize, "the read waits");
        state.complete(owner, 1, Some(block::ErrorKind::Cancelled));
        device.poll(NOW).expect("a completion");
    }
    assert_eq!(state.outstanding(), [(3, 1)]);
}

#[test]
fn a_flush_covers_the_writes_that_completed_before_it() {
    let (mut device, state) = device(true);
    let complete = |device: &mut SharedDevice, id, error| {
        state.complete(1, id, error);
        device.poll(NOW).expect("a completion");
        device.unflushed_bytes()
    };
    device.submit(request(1, 1, write(0)), NOW);
    device.submit(request(1, 2, write(4096)), NOW);
    assert_eq!(device.unflushed_bytes(), 0, "no write has completed");
    assert_eq!(complete(&mut device, 1, None), 4096);
    device.submit(request(1, 3, BlockOp::Flush), NOW);
    assert_eq!(complete(&mut device, 2, None), 8192);
    assert_eq!(complete(&mut device, 3, None), 4096, "the second write came after the flush");
    device.submit(request(1, 4, BlockOp::Flush), NOW);
    assert_eq!(complete(&mut device, 4, Some(block::ErrorKind::Medium)), 4096);
    device.submit(BlockRequest { fua: true, ..request(1, 5, write(0)) }, NOW);
    assert_eq!(complete(&mut device, 5, None), 4096, "FUA needs no flush");
    device.submit(request(1, 6, BlockOp::Flush), NOW);
    assert_eq!(complete(&mut device, 6, None), 0);
}
