//! Both machines in the middle of work, with PDUs between them disturbed, doubled, lost and made up: an error
//! or an answer, never a panic.

use std::sync::Arc;

use fastrand::Rng;
use proto::target::ConnectionId;
use sim::{Far, Kind, Near, Order, Sent, content};
use wire::iscsi::{Bhs, Opcode};

use crate::pair::Terms;

const CONNECTIONS: u64 = 3000;
/// A connection ends after so many steps, or when one side drops it.
const STEPS: usize = 200;
/// The longest segment that any of the terms allow.
const SEGMENT_MAX: usize = 4096;

fn random_terms(random: &mut Rng) -> Terms {
    let lens = [512, 600, SEGMENT_MAX as u32];
    let len = |random: &mut Rng| lens[random.usize(..lens.len())];
    let first_burst_len = len(random);
    Terms {
        initial_r2t: random.bool(),
        immediate_data: random.bool(),
        first_burst_len,
        max_burst_len: first_burst_len + random.u32(0..2000),
        segment_len: (len(random), len(random)),
        max_outstanding_r2t: random.u16(1..4),
        window: random.u32(1..40),
        separate_status: random.bool(),
    }
}

/// Something to do for the initiator.
fn ask(random: &mut Rng, near: &mut Near) {
    let len_bytes = random.u32(0..9000);
    let expected_bytes = if random.bool() { len_bytes } else { random.u32(0..9000) };
    let kinds = [Kind::Nothing, Kind::Read, Kind::Hand, Kind::Write, Kind::Refuse];
    let order = Order { kind: kinds[random.usize(..kinds.len())], address: random.u32(0..99), len_bytes };
    match (random.u8(0..24), order.kind) {
        (0, _) => near.session().ping(0),
        (1, _) => near.session().send_text(content(random.usize(..100), 1)),
        (2, _) if random.u8(0..8) == 0 => near.session().logout(),
        (_, Kind::Nothing) => drop(near.command(order)),
        (_, Kind::Read | Kind::Hand) => drop(near.read(order, expected_bytes)),
        (_, _) => drop(near.write(order, Arc::new(content(expected_bytes as usize, 1)))),
    }
}

/// A header of a PDU that this side may get, with the numbers of one that is real.
fn made_up(random: &mut Rng, like: &[u8; 48], is_request: bool) -> [u8; 48] {
    let known: Vec<_> = Opcode::ALL.into_iter().filter(|opcode| opcode.is_request() == is_request).collect();
    let mut header = *like;
    header[0] = known[random.usize(..known.len())].code() | random.u8(..) & 0x40;
    header[1] = [0x80, 0, 0xa0, 0xc1, 0x21, 0x81, 0x40, random.u8(..)][random.usize(..8)];
    let len: u32 = [0, 0, 1, 48, 512, 513, random.u32(0..8192)][random.usize(..7)];
    header[5..8].copy_from_slice(&len.to_be_bytes()[1..]);
    for at in [20, 36, 40, 44] {
        let value = [0, 512, u32::MAX, random.u32(0..6000), random.u32(..)][random.usize(..5)];
        header[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
    header
}

/// PDUs that arrive in place of one PDU: in most cases itself, in 5 of `rarity` cases a disturbed one.
fn disturbed(random: &mut Rng, sent: Sent, is_request: bool, rarity: u16) -> Vec<Sent> {
    let mut changed = sent.clone();
    match random.u16(0..rarity) {
        0 => changed.header[random.usize(..48)] = random.u8(..),
        1 => changed.header[random.usize(..48)] ^= 1 << random.u8(0..8),
        2 => changed.header = made_up(random, &sent.header, is_request),
        3 => return vec![sent.clone(), sent],
        4 => return vec![],
        _ => return vec![sent],
    }
    // The data segment is as long as the header says; one that is refused for its length is never read.
    let len = Bhs::new(&changed.header).data_segment_len();
    changed.data.resize(if len > SEGMENT_MAX { 0 } else { len }, 0xee);
    match random.bool() {
        true => vec![changed, sent],
        false => vec![changed],
    }
}

/// Runs one connection; the commands that completed, and whether a side dropped it.
fn connection(seed: u64) -> (usize, bool) {
    let mut random = Rng::with_seed(seed);
    let terms = random_terms(&mut random);
    let (mut near, mut far): (Near, Far) = (terms.near(), terms.far());
    far.set_slow(random.bool());
    far.set_text_answer(content(random.usize(..3000), 1));
    let rarity = random.u16(20..1000);
    let mut completed = 0;
    for _ in 0..STEPS {
        match random.u8(0..8) {
            0 => ask(&mut random, &mut near),
            1 => drop(far.release(random.usize(..))),
            2 if random.u8(0..20) == 0 => far.session().set_command_window(random.u32(..)),
            3 if random.u8(0..20) == 0 => far.session().notify(ConnectionId::LEADING, 1, &[0; 9]),
            2..=4 => {
                for sent in
                    near.poll_transmit().map_or(vec![], |sent| disturbed(&mut random, sent, true, rarity))
                {
                    if far.take(&sent.header, &sent.data).is_err() {
                        return (completed, true);
                    }
                }
            }
            _ => {
                for sent in
                    far.poll_transmit().map_or(vec![], |sent| disturbed(&mut random, sent, false, rarity))
                {
                    if near.take(&sent.header, &sent.data).is_err() {
                        return (completed, true);
                    }
                }
            }
        }
        completed += std::iter::from_fn(|| near.done()).count();
        while near.event().is_some() {}
    }
    // Whatever state they are in, everything that waits can still be sent.
    while far.release(0) || far.poll_transmit().is_some() {}
    while near.poll_transmit().is_some() {}
    (completed, false)
}

#[test]
fn neither_machine_panics_whatever_comes() {
    let (mut completed, mut dropped) = (0, 0);
    for seed in 0..CONNECTIONS {
        println!("seed {seed}");
        let (commands, is_dropped) = connection(seed);
        completed += commands;
        dropped += u64::from(is_dropped);
    }
    let survived = CONNECTIONS - dropped;
    println!("{completed} commands, {dropped} connections dropped, {survived} not");
    assert!(completed > 10_000, "only {completed} commands completed: too much is disturbed to get anywhere");
    assert!(dropped > CONNECTIONS / 10 && survived > CONNECTIONS / 10, "{dropped} dropped, {survived} not");
}
