//! Random PDUs, valid ones and disturbed ones, to either side: an error or an answer, never a panic.

use std::sync::Arc;

use fastrand::Rng;
use sim::{Kind, Order, content};
use wire::iscsi::{Bhs, Opcode};

use crate::pair::{CMD_SN, STAT_SN, Terms};

/// A connection is given up for a new one after so many PDUs, or when it is dropped.
const PDUS: usize = 60;
const CONNECTIONS: u64 = 1500;

fn terms(random: &mut Rng) -> Terms {
    let lens = [512, 600, 4096];
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
    }
}

/// A header of the right kind with plausible fields, some of its bytes disturbed now and then.
fn header(random: &mut Rng, is_request: bool, seen: &[[u8; 48]]) -> [u8; 48] {
    let known: Vec<_> = Opcode::ALL.into_iter().filter(|opcode| opcode.is_request() == is_request).collect();
    let mut header = [0; 48];
    header[0] = known[random.usize(..known.len())].code() | if random.bool() { 0x40 } else { 0 };
    header[1] = [0x80, 0, 0xa0, 0xc1, 0x21, 0x81, 0x40, random.u8(..)][random.usize(..8)];
    let len: u32 = [0, 0, 1, 48, 512, 513, random.u32(0..8192)][random.usize(..7)];
    header[5..8].copy_from_slice(&len.to_be_bytes()[1..]);
    let number = |random: &mut Rng, near: u32| match random.u8(0..10) {
        0 => random.u32(..),
        1 => u32::MAX,
        _ => near.wrapping_add(random.u32(0..6)),
    };
    // A tag that somebody really uses gets furthest; so do numbers that begin where the session does.
    let tag = match seen {
        [] => number(random, 0).to_be_bytes(),
        seen => {
            let from = &seen[random.usize(..seen.len())];
            [from[16], from[17], from[18], from[19]]
        }
    };
    header[16..20].copy_from_slice(&tag);
    let of_transfer = match random.bool() {
        true => u32::MAX,
        false => number(random, 0),
    };
    header[20..24].copy_from_slice(&of_transfer.to_be_bytes());
    if header[0] & 0x3f == 1 {
        let expected: u32 = [0, 1, 512, 5000, random.u32(..)][random.usize(..5)];
        header[20..24].copy_from_slice(&expected.to_be_bytes());
    }
    let near = if is_request { CMD_SN } else { STAT_SN };
    header[24..28].copy_from_slice(&number(random, near).to_be_bytes());
    header[28..32].copy_from_slice(&number(random, CMD_SN).to_be_bytes());
    header[32..36].copy_from_slice(&number(random, CMD_SN).to_be_bytes());
    header[36..40].copy_from_slice(&number(random, 0).to_be_bytes());
    for at in [40, 44] {
        let place = [0, 512, 600, random.u32(0..6000), random.u32(..)][random.usize(..5)];
        header[at..at + 4].copy_from_slice(&place.to_be_bytes());
    }
    if header[0] & 0x3f == 1 {
        let kind = [Kind::Nothing, Kind::Read, Kind::Hand, Kind::Write, Kind::Refuse][random.usize(..5)];
        let order = Order { kind, address: random.u32(0..9), len_bytes: random.u32(0..9000) };
        header[32..48].copy_from_slice(&order.emit());
    }
    if random.u8(0..4) == 0 {
        header[random.usize(..48)] = random.u8(..);
    }
    header
}

/// The data segment that the header announces; nothing that is refused for its length is read.
fn data(random: &mut Rng, header: &[u8; 48]) -> Vec<u8> {
    let len = Bhs::new(header).data_segment_len();
    let mut data = vec![0; if len > 8192 { 0 } else { len }];
    random.fill(&mut data);
    data
}

#[test]
fn a_target_outlives_any_initiator() {
    let mut answers = 0;
    for seed in 0..CONNECTIONS {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let mut far = terms(&mut random).far();
        far.set_slow(random.bool());
        far.set_text_answer(content(random.usize(..3000), 1));
        let mut seen = Vec::new();
        for _ in 0..PDUS {
            let header = match random.u8(0..8) {
                0 if !seen.is_empty() => seen[random.usize(..seen.len())],
                _ => header(&mut random, true, &seen),
            };
            seen.push(header);
            let data = data(&mut random, &header);
            if far.take(&header, &data).is_err() {
                break;
            }
            if random.bool() {
                far.release(random.usize(..));
            }
            // The tags of its R2Ts are worth trying.
            if random.u8(0..3) > 0 {
                let sent = std::iter::from_fn(|| far.next()).collect::<Vec<_>>();
                answers += sent.len();
                seen.extend(sent.iter().map(|sent| sent.header));
            }
        }
        far.session().set_command_window(random.u32(..));
        while far.release(0) || far.next().is_some() {}
    }
    assert!(answers > 10_000, "only {answers} PDUs were answered: the PDUs are not plausible enough");
}

#[test]
fn an_initiator_outlives_any_target() {
    let mut completed = 0;
    for seed in 0..CONNECTIONS {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let mut near = terms(&mut random).near();
        let mut seen = Vec::new();
        for _ in 0..PDUS {
            let len_bytes = random.u32(0..9000);
            let order = Order { kind: Kind::Nothing, address: 0, len_bytes };
            match random.u8(0..12) {
                0 | 1 => drop(near.read(order, len_bytes)),
                2 | 3 => drop(near.write(order, Arc::new(content(len_bytes as usize, 1)))),
                4 => drop(near.command(order)),
                5 => near.session().ping(),
                6 => near.session().send_text(content(random.usize(..100), 1)),
                7 => near.session().logout(),
                _ => {}
            }
            let polled = random.usize(0..8);
            seen.extend(std::iter::from_fn(|| near.next()).take(polled).map(|sent| sent.header));
            let header = header(&mut random, false, &seen);
            let data = data(&mut random, &header);
            if near.take(&header, &data).is_err() {
                break;
            }
            completed += std::iter::from_fn(|| near.done()).count();
            while near.event().is_some() {}
        }
        while near.next().is_some() {}
    }
    assert!(completed > 500, "only {completed} commands completed: the PDUs are not plausible enough");
}
