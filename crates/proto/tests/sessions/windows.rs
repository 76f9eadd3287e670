//! The command window from both sides, and commands that come before their turn.

use std::sync::Arc;

use proto::Fault;
use proto::params::Params;
use proto::target::ConnectionId;
use sim::{Far, Kind, Order, content};
use wire::iscsi::{DataOut, Lun, NopOut, Pdu, RESERVED_TAG, ScsiCommand, ScsiResponse, TaskAttribute};

use crate::pair::{CMD_SN, Pair, STAT_SN, Terms};

pub(crate) fn command(index: u32, order: Order, expected_bytes: u32) -> ScsiCommand {
    ScsiCommand {
        immediate: false,
        is_final: true,
        read: matches!(order.kind, Kind::Read | Kind::Hand),
        write: order.kind == Kind::Write,
        attribute: TaskAttribute::Simple,
        ahs_len: 0,
        data_segment_len: 0,
        lun: Lun(0),
        itt: index,
        expected_data_transfer_len: expected_bytes,
        cmd_sn: CMD_SN.wrapping_add(index),
        exp_stat_sn: 0,
        cdb: order.emit(),
    }
}

pub(crate) fn take(far: &mut Far, pdu: impl Into<Pdu>, data: &[u8]) -> Result<(), Fault> {
    let pdu = pdu.into();
    assert_eq!(pdu.data_segment_len() as usize, data.len());
    let mut header = [0; 48];
    pdu.emit(&mut header);
    far.take(&header, data)
}

pub(crate) fn answers(far: &mut Far) -> Vec<Pdu> {
    let sent = std::iter::from_fn(|| far.poll_transmit());
    sent.map(|sent| Pdu::parse(&sent.header).expect("a target sends PDUs")).collect()
}

const NOTHING: Order = Order { kind: Kind::Nothing, address: 0, len_bytes: 0 };

#[test]
fn an_initiator_waits_when_the_window_is_used_up() {
    for window in [1, 2, 5] {
        let terms = Terms { window, ..Terms::default() };
        let mut pair = Pair::new(&terms, u64::from(window));
        for _ in 0..20 {
            pair.near.command(NOTHING);
        }
        let mut sent = 0;
        while pair.near_sends() {
            sent += 1;
        }
        assert_eq!(sent, window, "as many as the login allowed");
        assert!(!pair.near.session().wants_transmit(0) && pair.near.session().open_commands() == 20);
        // Immediate PDUs are sent all the same.
        pair.near.session().ping(0);
        assert!(pair.near_sends() && !pair.near_sends());
        assert_eq!(pair.settle().len(), 20);
    }
}

#[test]
fn the_window_follows_what_the_target_says_and_never_shrinks_at_once() {
    let mut pair = Pair::new(&Terms { window: 2, ..Terms::default() }, 1);
    pair.far.set_slow(true);
    for window in [4, 1, 9, 3] {
        pair.far.session().set_command_window(window);
        for _ in 0..12 {
            pair.near.read(Order { kind: Kind::Read, address: 0, len_bytes: 512 }, 512);
        }
        assert_eq!(pair.settle().len(), 12);
    }
    assert_eq!(pair.far.session().open_commands(), 0);
}

#[test]
fn a_command_outside_the_window_is_ignored() {
    let terms = Terms { window: 3, ..Terms::default() };
    for index in [3, 4, 1000, u32::MAX, i32::MAX as u32] {
        let mut far = terms.far();
        take(&mut far, command(index, NOTHING, 0), &[]).expect("ignored in silence");
        assert_eq!((answers(&mut far), far.session().open_commands()), (vec![], 0), "{index}");
    }
    let mut far = terms.far();
    let nop = NopOut {
        immediate: false,
        data_segment_len: 0,
        lun: Lun(0),
        itt: 9,
        ttt: RESERVED_TAG,
        cmd_sn: CMD_SN.wrapping_sub(1),
        exp_stat_sn: 0,
    };
    take(&mut far, nop, &[]).expect("ignored in silence");
    assert_eq!(answers(&mut far), vec![]);
}

#[test]
fn commands_before_their_turn_wait_with_their_data() {
    let write = |address| Order { kind: Kind::Write, address, len_bytes: 300 };
    let data = content(900, 5);
    let mut far = Terms::default().far();
    // The third comes first, with immediate data, and gets unsolicited data too.
    let third = ScsiCommand { is_final: false, data_segment_len: 100, ..command(2, write(600), 300) };
    take(&mut far, third, &data[600..700]).expect("early");
    let rest = DataOut {
        is_final: true,
        data_segment_len: 200,
        lun: Lun(0),
        itt: 2,
        ttt: RESERVED_TAG,
        exp_stat_sn: 0,
        data_sn: 0,
        buffer_offset: 100,
    };
    take(&mut far, rest, &data[700..900]).expect("early data");
    let second = ScsiCommand { data_segment_len: 300, ..command(1, write(300), 300) };
    take(&mut far, second, &data[300..600]).expect("early");
    assert_eq!(answers(&mut far), vec![], "nothing runs before its turn");
    let first = ScsiCommand { data_segment_len: 300, ..command(0, write(0), 300) };
    take(&mut far, first, &data[..300]).expect("in turn");
    let mut tags: Vec<_> = answers(&mut far).iter().map(Pdu::itt).collect();
    tags.sort_unstable();
    assert_eq!((tags, &far.memory()[..900]), (vec![0, 1, 2], &data[..]));
}

#[test]
fn an_early_write_may_get_the_rest_of_its_data_in_turn() {
    let data = content(300, 5);
    let mut far = Terms::default().far();
    let order = Order { kind: Kind::Write, address: 0, len_bytes: 300 };
    let early = ScsiCommand { is_final: false, data_segment_len: 100, ..command(1, order, 300) };
    take(&mut far, early, &data[..100]).expect("early");
    take(&mut far, command(0, NOTHING, 0), &[]).expect("in turn");
    let rest = DataOut {
        is_final: true,
        data_segment_len: 200,
        lun: Lun(0),
        itt: 1,
        ttt: RESERVED_TAG,
        exp_stat_sn: 0,
        data_sn: 0,
        buffer_offset: 100,
    };
    take(&mut far, rest, &data[100..]).expect("its turn has come");
    assert_eq!((answers(&mut far).len(), &far.memory()[..300]), (2, &data[..]));
}

#[test]
fn early_data_has_a_limit_and_what_is_refused_frees_it() {
    // Writes of 64 KiB, each before the command that it waits for: a thousand of them hold 64 MiB in all, but
    // never more than one at a time.
    let mut far = Terms { segment_len: (65_536, 8192), ..Terms::default() }.far();
    let data = vec![7; 65_536];
    for round in 0..500 {
        let refuse = Order { kind: Kind::Refuse, address: 0, len_bytes: 0 };
        let early = command(2 * round + 1, refuse, 65_536);
        let early = ScsiCommand { write: true, data_segment_len: 65_536, ..early };
        take(&mut far, early, &data).expect("early");
        take(&mut far, command(2 * round, NOTHING, 0), &[]).expect("in turn");
        assert_eq!(answers(&mut far).len(), 2, "round {round}");
    }
    // On a single connection missing commands cannot be in flight; on several they may be.
    for (is_alone, taken) in [(true, 1), (false, 256)] {
        let mut far = Terms { segment_len: (65_536, 8192), window: 4096, ..Terms::default() }.far();
        if !is_alone {
            far.session().join(7, Params::RFC_DEFAULT, STAT_SN);
        }
        let write = Order { kind: Kind::Write, address: 0, len_bytes: 65_536 };
        let fault = (1..1000).find_map(|index| {
            let early = ScsiCommand { data_segment_len: 65_536, ..command(index, write, 65_536) };
            let fault = take(&mut far, early, &data).err()?;
            assert_eq!(index, taken + 1, "alone: {is_alone}");
            Some(fault)
        });
        assert!(fault.expect("there is a limit").to_string().contains("too much data"));
        assert_eq!(far.session().early_bytes(), (taken as usize + 1) * 65_536);
        far.lose(ConnectionId::LEADING);
        assert_eq!(far.session().early_bytes(), 0);
    }
}

#[test]
fn the_same_early_number_twice_is_taken_once() {
    let mut far = Terms::default().far();
    take(&mut far, command(1, NOTHING, 0), &[]).expect("early");
    take(&mut far, ScsiCommand { itt: 77, ..command(1, NOTHING, 0) }, &[]).expect("seen already: ignored");
    take(&mut far, command(0, NOTHING, 0), &[]).expect("in turn");
    let tags: Vec<_> = answers(&mut far).iter().map(Pdu::itt).collect();
    assert_eq!((tags, far.session().open_commands()), (vec![0, 1], 0));
}

#[test]
fn immediate_commands_are_outside_the_window_and_limited() {
    let mut far = Terms { window: 1, ..Terms::default() }.far();
    far.set_slow(true);
    let read = Order { kind: Kind::Read, address: 0, len_bytes: 512 };
    take(&mut far, command(0, read, 512), &[]).expect("in turn");
    for index in 1..=64 {
        let immediate = ScsiCommand { immediate: true, ..command(index, read, 512) };
        take(&mut far, immediate, &[]).expect("immediate");
    }
    assert_eq!(far.session().open_commands(), 65);
    take(&mut far, ScsiCommand { immediate: true, ..command(65, read, 512) }, &[]).expect("refused");
    let [Pdu::Reject(reject)] = answers(&mut far)[..] else { panic!("one too many is rejected") };
    assert_eq!(reject.reason, 0x06);
    while far.release(0) {}
    assert_eq!((answers(&mut far).len(), far.session().open_commands()), (65, 0));
}

#[test]
fn an_initiator_ignores_a_window_that_makes_no_sense() {
    // MaxCmdSN below ExpCmdSN - 1, behind and ahead of the window that it knows.
    for (exp, max) in [(1, u32::MAX), (100, 50)] {
        let mut near = Terms { window: 1, ..Terms::default() }.near();
        for _ in 0..4 {
            near.write(Order { kind: Kind::Write, address: 0, len_bytes: 1 }, Arc::new(vec![1]));
        }
        let sent = near.poll_transmit().expect("the window holds one");
        assert!(near.poll_transmit().is_none());
        let response = ScsiResponse {
            bidi_overflow: false,
            bidi_underflow: false,
            overflow: false,
            underflow: false,
            response: 0,
            status: 0,
            data_segment_len: 0,
            itt: Pdu::parse(&sent.header).expect("a PDU").itt(),
            snack_tag: 0,
            stat_sn: 0,
            exp_cmd_sn: CMD_SN.wrapping_add(exp),
            max_cmd_sn: CMD_SN.wrapping_add(max),
            exp_data_sn: 0,
            bidi_residual: 0,
            residual: 0,
        };
        let mut header = [0; 48];
        Pdu::from(response).emit(&mut header);
        near.take(&header, &[]).expect("the status counts, the window does not");
        assert!(near.done().is_some() && near.poll_transmit().is_none(), "{exp} {max}");
    }
}
