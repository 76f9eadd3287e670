//! In which order PDUs leave the initiator, and which PDUs answer a read.

use std::sync::Arc;

use sim::{Kind, Order, Sent, content};
use wire::iscsi::{Pdu, RESERVED_TAG};

use crate::pair::{CMD_SN, Pair, STAT_SN, Terms};

fn sent_by(pair: &mut Pair) -> Vec<Pdu> {
    let sent = std::iter::from_fn(|| pair.near.poll_transmit()).collect::<Vec<_>>();
    for Sent { header, data } in &sent {
        pair.rules.near_sent(header);
        pair.far.take(header, data).expect("our initiator keeps the protocol");
    }
    sent.iter().map(|sent| Pdu::parse(&sent.header).expect("a PDU")).collect()
}

fn answered_by(pair: &mut Pair) -> Vec<Pdu> {
    let sent = std::iter::from_fn(|| pair.far.poll_transmit()).collect::<Vec<_>>();
    for Sent { header, data } in &sent {
        pair.rules.far_sent(header);
        pair.rules.near_takes(header);
        pair.near.take(header, data).expect("our target keeps the protocol");
    }
    sent.iter().map(|sent| Pdu::parse(&sent.header).expect("a PDU")).collect()
}

#[test]
fn commands_without_data_go_before_the_payload_of_writes() {
    let terms = Terms { segment_len: (512, 512), first_burst_len: 1536, ..Terms::default() };
    let mut pair = Pair::new(&terms, 0);
    let write = Order { kind: Kind::Write, address: 0, len_bytes: 1536 };
    let read = Order { kind: Kind::Read, address: 0, len_bytes: 1 };
    pair.near.write(write, Arc::new(content(1536, 1)));
    pair.near.write(write, Arc::new(content(1536, 2)));
    pair.near.read(read, 1);
    pair.near.session().ping(0);
    let names: Vec<_> = sent_by(&mut pair).iter().map(|pdu| format!("{:?}", pdu.opcode())).collect();
    // Each write's unsolicited data follows its command before the next write's command does.
    let write = ["ScsiCommand", "DataOut", "DataOut"];
    assert_eq!(names, [&["NopOut", "ScsiCommand"][..], &write, &write].concat());
}

#[test]
fn the_last_data_in_carries_the_status() {
    let terms = Terms { segment_len: (512, 512), max_burst_len: 1024, ..Terms::default() };
    let mut pair = Pair::new(&terms, 0);
    pair.near.read(Order { kind: Kind::Read, address: 0, len_bytes: 2500 }, 3000);
    sent_by(&mut pair);
    let answers = answered_by(&mut pair);
    let told: Vec<_> = answers
        .iter()
        .map(|pdu| match pdu {
            Pdu::DataIn(data) => {
                (data.data_segment_len, data.is_final, data.status, data.underflow, data.residual)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let plain = |is_final| (512, is_final, None, false, 0);
    assert_eq!(
        told,
        [plain(false), plain(true), plain(false), plain(true), (452, true, Some(0), true, 500)],
        "a sequence of MaxBurstLength ends with F, and no response follows"
    );
    let Some(Pdu::DataIn(last)) = answers.last() else { panic!("data came") };
    assert_eq!((last.stat_sn, last.ttt), (STAT_SN, RESERVED_TAG));
    assert_eq!(
        (last.exp_cmd_sn, last.max_cmd_sn),
        (CMD_SN.wrapping_add(1), CMD_SN.wrapping_add(terms.window))
    );
    // The ExpStatSN of the next request.
    pair.near.session().ping(0);
    let Some(Pdu::NopOut(nop)) = sent_by(&mut pair).pop() else { panic!("a ping was asked for") };
    assert_eq!((nop.cmd_sn, nop.exp_stat_sn), (CMD_SN.wrapping_add(1), STAT_SN.wrapping_add(1)));
}

#[test]
fn r2ts_ask_for_bursts_one_behind_the_other() {
    let terms = Terms {
        initial_r2t: true,
        immediate_data: false,
        max_burst_len: 1000,
        max_outstanding_r2t: 2,
        ..Terms::default()
    };
    let mut pair = Pair::new(&terms, 0);
    let write = Order { kind: Kind::Write, address: 0, len_bytes: 3500 };
    pair.near.write(write, Arc::new(content(3500, 1)));
    let mut told = Vec::new();
    for _ in 0..3 {
        sent_by(&mut pair);
        for pdu in answered_by(&mut pair) {
            match pdu {
                Pdu::R2t(r2t) => {
                    assert_eq!(r2t.stat_sn, STAT_SN, "an R2T has no status of its own");
                    told.push((r2t.r2t_sn, r2t.buffer_offset, r2t.desired_len));
                }
                Pdu::ScsiResponse(response) => {
                    assert_eq!((response.stat_sn, response.exp_data_sn), (STAT_SN, 4));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(told, [(0, 0, 1000), (1, 1000, 1000), (2, 2000, 1000), (3, 3000, 500)]);
    assert_eq!(pair.near.done().map(|done| done.completion.transferred_bytes), Some(3500));
}
