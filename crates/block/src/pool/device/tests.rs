//! Devices that are dropped while a call of their store hangs.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, RwLock};

use net::{Events, Interest, Poll};

use super::*;
use crate::buffer::Buffers;
use crate::composite::{ByteRange, CompositeAction};
use crate::error::BlockError;

const LEN_BYTES: u64 = 4 << 20;

/// A store whose writes hang while the test holds `held`.
#[derive(Debug)]
struct Hanging {
    began: Sender<()>,
    held: Arc<Mutex<()>>,
    gate: RwLock<()>,
}

impl BlockingStore for Hanging {
    fn len_bytes(&self) -> u64 {
        LEN_BYTES
    }

    fn read_at(&self, _offset_bytes: u64, into: &mut [u8]) -> Result<(), BlockError> {
        into.fill(0);
        Ok(())
    }

    fn write_at(&self, _offset_bytes: u64, _from: &[u8]) -> Result<(), BlockError> {
        // A test that has failed does not listen.
        let _ = self.began.send(());
        drop(self.held.lock());
        Ok(())
    }

    fn piece_bytes(&self) -> usize {
        64 << 10
    }

    fn sync(&self) -> Result<(), BlockError> {
        Ok(())
    }

    fn gate(&self) -> &RwLock<()> {
        &self.gate
    }

    fn has_write_cache(&self) -> bool {
        false
    }

    fn physical_block_bytes(&self) -> u32 {
        1
    }

    fn granularity_bytes(&self) -> u32 {
        1
    }
}

/// A device on such a store, and the begins of its writes.
fn hanging(pool: &Rc<Pool>, held: &Arc<Mutex<()>>) -> (PooledDevice, Receiver<()>) {
    let (began, begun) = channel();
    let store = Hanging { began, held: Arc::clone(held), gate: RwLock::default() };
    (PooledDevice::from_store(Arc::new(store), 512, false, pool), begun)
}

fn submit(device: &mut PooledDevice, id: u64, op: BlockOp) {
    let request = BlockRequest { id: Token(id), owner: Owner(id % 3), op, fua: false, is_timed: false };
    device.submit(request, clock::now());
}

fn fill(value: u8) -> BlockOp {
    let span = ByteRange { offset_bytes: 0, len_bytes: 1 << 20 };
    BlockOp::Composite(CompositeAction::Fill { span, pattern: vec![value; 512] })
}

/// Collects until `is_done`.
fn collect(pool: &Pool, is_done: impl Fn() -> bool) {
    let (poll, mut events) = (Poll::new().unwrap(), Events::new());
    poll.add(pool.as_fd(), 0, Interest::READ).unwrap();
    while !is_done() {
        poll.wait(&mut events, None).unwrap();
        pool.collect();
    }
}

#[test]
fn nothing_begins_after_its_device_was_dropped() {
    let buffers = Buffers::new(0);
    let write = || BlockOp::Write { offset_bytes: 0, data: buffers.take(4096) };
    for makes_write in [true, false] {
        let (pool, held) = (Pool::start(1).unwrap(), Arc::new(Mutex::new(())));
        let hangs = held.lock().unwrap();
        let (mut device, begun) = hanging(&pool, &held);
        for id in 0..8 {
            submit(&mut device, id, if makes_write { write() } else { fill(7) });
        }
        begun.recv().unwrap();
        drop(device);
        assert_eq!(buffers.held_bytes(), if makes_write { 4096 } else { 0 }, "the one that was begun");
        assert_eq!(pool.pending(), 1);
        drop(hangs);
        drop(pool);
        assert_eq!(begun.iter().count(), 0, "no other write, and no other piece");
    }
    assert_eq!(buffers.held_bytes(), 0);
}

#[test]
fn a_number_is_free_when_the_last_call_of_its_store_has_returned() {
    let (pool, held) = (Pool::start(2).unwrap(), Arc::new(Mutex::new(())));
    let hangs = held.lock().unwrap();
    let (mut first, begun) = hanging(&pool, &held);
    let number = first.inbox;
    submit(&mut first, 1, fill(7));
    begun.recv().unwrap();
    drop(first);
    let (second, _begun) = hanging(&pool, &held);
    assert_ne!(second.inbox, number, "its call hangs");
    drop(hangs);
    collect(&pool, || pool.inboxes.borrow().len() == 1);
    let (third, _begun) = hanging(&pool, &held);
    assert_eq!((third.inbox, pool.pending()), (number, 0));
    drop(second);
    assert_eq!(pool.inboxes.borrow().len(), 1, "a device without calls frees its number at once");
}

/// Without it the drop would wait for a call that hangs, and the test for ever.
#[test]
fn an_abandoned_pool_ends_without_its_calls() {
    let (pool, held) = (Pool::start(1).unwrap(), Arc::new(Mutex::new(())));
    let hangs = held.lock().unwrap();
    let (mut device, begun) = hanging(&pool, &held);
    submit(&mut device, 1, fill(7));
    begun.recv().unwrap();
    assert_eq!(pool.pending(), 1);
    Pool::abandon(pool);
    drop(device);
    drop(hangs);
}
