//! Data both ways: every size on many terms, each byte exactly once at its place, residuals, statuses.

use std::sync::Arc;

use proto::target::ConnectionId;
use sim::{Done, Kind, Order, content};

use crate::pair::{MEMORY_BYTES, Pair, Terms};

/// A command: the length that it moves itself, and the length that the initiator expects.
#[derive(Clone, Copy, Debug)]
struct Io {
    kind: Kind,
    len_bytes: u32,
    expected_bytes: u32,
}

/// Runs the commands at once, one behind the other in the memory, and checks all results.
fn check(terms: &Terms, ios: &[Io], is_slow: bool, seed: u64) {
    println!("{terms:?} {ios:?} slow: {is_slow}, seed {seed}");
    let mut pair = Pair::new(terms, seed);
    pair.far.set_slow(is_slow);
    let mut memory = pair.far.memory().to_vec();
    let held = memory.clone();
    let mut expected = Vec::new();
    let mut address = 0;
    for (index, io) in ios.iter().enumerate() {
        let order = Order { kind: io.kind, address, len_bytes: io.len_bytes };
        let moved_bytes = io.len_bytes.min(io.expected_bytes);
        let range = address as usize..(address + moved_bytes) as usize;
        let token = match io.kind {
            Kind::Write => {
                let source = Arc::new(content(io.expected_bytes as usize, 100 + index as u64));
                memory[range].copy_from_slice(&source[..moved_bytes as usize]);
                pair.near.write(order, source)
            }
            Kind::Read | Kind::Hand => pair.near.read(order, io.expected_bytes),
            Kind::Nothing | Kind::Refuse => pair.near.command(order),
        };
        expected.push((token, *io));
        address += io.len_bytes;
    }
    let mut done = pair.settle();
    assert_eq!(done.len(), ios.len(), "every command comes back once");
    for (token, io) in expected {
        let index = done.iter().position(|done| done.token == token).expect("each of them does");
        check_one(&done.swap_remove(index), &io, &held);
    }
    assert!(pair.far.memory() == memory, "what was written is there, and nothing else");
    assert_eq!((pair.rules.open_commands(), pair.far.session().open_commands()), (0, 0));
    assert_eq!((pair.near.session().open_commands(), pair.near.session().unsent_payload_bytes(0)), (0, 0));
    assert_eq!(pair.far.session().unsent_payload_bytes(ConnectionId::LEADING), 0);
    assert!(pair.far.most_open() <= terms.window as usize, "no more commands than the window allows");
}

fn check_one(done: &Done, io: &Io, held: &[u8]) {
    let moved_bytes = io.len_bytes.min(io.expected_bytes);
    let completion = &done.completion;
    assert_eq!((completion.response, completion.status, completion.sense.len()), (0, 0, 0), "{io:?}");
    assert_eq!(completion.transferred_bytes, moved_bytes, "{io:?}");
    if matches!(io.kind, Kind::Read | Kind::Hand) {
        assert!(done.placed.is_exactly(moved_bytes), "each byte once: {:?} of {io:?}", done.placed);
        let from = done.order.address as usize;
        assert!(done.buffer[..moved_bytes as usize] == held[from..][..moved_bytes as usize], "{io:?}");
    }
}

fn plain(kind: Kind, len_bytes: u32) -> Io {
    Io { kind, len_bytes, expected_bytes: len_bytes }
}

const SIZES: [u32; 15] =
    [0, 1, 3, 511, 512, 513, 1024, 4095, 4096, 8192, 8193, 65_535, 65_536, 65_537, 100_000];

fn all_terms() -> Vec<Terms> {
    let mut all = Vec::new();
    for (initial_r2t, immediate_data) in [(false, false), (false, true), (true, false), (true, true)] {
        for (first_burst_len, max_burst_len) in [(512, 512), (512, 4096), (4096, 10_000), (65_536, 1 << 24)] {
            for segment_len in [(512, 512), (600, 8192), (8192, 600), (65_536, 65_536)] {
                for max_outstanding_r2t in [1, 4] {
                    let window = 1 + (all.len() as u32 * 7) % 16;
                    let lens = (first_burst_len, max_burst_len.min((1 << 24) - 1));
                    all.push(Terms {
                        initial_r2t,
                        immediate_data,
                        first_burst_len: lens.0,
                        max_burst_len: lens.1,
                        segment_len,
                        max_outstanding_r2t,
                        window,
                        separate_status: all.len() % 3 == 2,
                    });
                }
            }
        }
    }
    all
}

#[test]
fn every_size_on_all_terms() {
    for (index, terms) in all_terms().iter().enumerate() {
        for kind in [Kind::Read, Kind::Hand, Kind::Write] {
            let ios = SIZES.map(|len| plain(kind, len));
            check(terms, &ios, index % 2 == 0, index as u64);
        }
    }
}

#[test]
fn reads_and_writes_mixed_in_any_order() {
    for (index, terms) in all_terms().iter().enumerate() {
        let seed = 1000 + index as u64;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut left = MEMORY_BYTES as u32;
        let mut ios = Vec::new();
        for _ in 0..24 {
            let kinds = [Kind::Read, Kind::Write, Kind::Hand, Kind::Nothing];
            let kind = kinds[random.usize(..kinds.len())];
            let len_bytes = if kind == Kind::Nothing { 0 } else { random.u32(0..40_000).min(left) };
            left -= len_bytes;
            ios.push(plain(kind, len_bytes));
        }
        check(terms, &ios, random.bool(), seed);
    }
}

#[test]
fn the_length_of_the_command_and_the_expected_one_differ() {
    let pairs =
        [(0, 700), (700, 0), (1, 512), (512, 1), (4096, 5000), (5000, 4096), (70_000, 66_000), (3, 70_000)];
    for (index, terms) in all_terms().iter().enumerate() {
        for kind in [Kind::Read, Kind::Hand, Kind::Write] {
            let ios = pairs.map(|(len_bytes, expected_bytes)| Io { kind, len_bytes, expected_bytes });
            check(terms, &ios, index % 2 == 0, index as u64);
        }
    }
}

#[test]
fn a_refused_command_moves_nothing_and_the_next_ones_go_on() {
    for (index, terms) in all_terms().iter().enumerate() {
        println!("{terms:?}, seed {index}");
        let mut pair = Pair::new(terms, index as u64);
        let refuse = Order { kind: Kind::Refuse, address: 0, len_bytes: 0 };
        let held = pair.far.memory().to_vec();
        let mut tokens = Vec::new();
        for len in SIZES {
            // The unsolicited data is already in flight when the command is refused.
            tokens.push(pair.near.write(refuse, Arc::new(content(len as usize, 9))));
            tokens.push(pair.near.read(refuse, len));
        }
        tokens.push(pair.near.command(refuse));
        let done = pair.settle();
        assert_eq!(done.len(), tokens.len());
        for done in done {
            assert_eq!((done.completion.status, done.completion.sense.len()), (2, 18));
            assert_eq!(done.completion.sense[..3], [0x70, 0, 5]);
            assert_eq!((done.completion.transferred_bytes, done.placed.is_exactly(0)), (0, true));
        }
        assert!(pair.far.memory() == held, "nothing was written");
        let read = Order { kind: Kind::Read, address: 7, len_bytes: 9000 };
        pair.near.read(read, 9000);
        let done = pair.settle();
        check_one(&done[0], &plain(Kind::Read, 9000), &held);
    }
}
