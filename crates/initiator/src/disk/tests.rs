//! Requests of a disk: sizes, VPD pages, limits.

use std::io::{Read, Write};
use std::net::TcpStream;

use proto::params::Params;
use wire::iscsi::{BHS_LEN, ScsiCommand};
use wire::scsi::{Sense, Status};

use super::*;
use crate::client::tests::session;
use crate::error::Failure;

#[test]
fn a_page_that_is_longer_than_was_asked_for() {
    let page = |announced: u16, len: usize| {
        let mut data = vec![0; len];
        data[2..4].copy_from_slice(&announced.to_be_bytes());
        longer_page(&data)
    };
    assert_eq!(page(251, 255), None);
    assert_eq!(page(252, 255), Some(256));
    assert_eq!(page(u16::MAX, 255), Some(u16::MAX));
    assert_eq!((page(8, 12), longer_page(&[0, 0x83, 1])), (None, None));
}

#[test]
fn an_unmap_is_no_longer_than_64_gib() {
    let blocks_max = |unmap_max, block_len_bytes| blocks_of_unmap(unmap_max, block_len_bytes);
    assert_eq!([blocks_max(u32::MAX, 512), blocks_max(u32::MAX, 4_096)], [1 << 27, 1 << 24]);
    assert_eq!([blocks_max(8_192, 512), blocks_max(8_192, 1 << 20)], [8_192; 2]);
}

#[test]
fn the_size_is_asked_for_in_the_short_form_where_the_long_one_is_unknown() {
    let failed = |sense: Sense| {
        let (status, sense) = (Status::CHECK_CONDITION, Some(sense));
        let failure = Failure { status, response: 0, sense, short_bytes: None, overflow_bytes: None };
        Err(Error::Command { command: "READ CAPACITY", failure })
    };
    let long =
        |last_lba, block_len| Ok(Capacity16 { last_lba, block_len, ..Capacity16::default() }.emit().to_vec());
    let short = |last_lba, block_len| Ok(Capacity10 { last_lba, block_len }.emit().to_vec());
    let unknown = || failed(Sense::INVALID_OPCODE);
    type Size = (u64, u32, BlockForm);
    let check = |long: Result<Vec<u8>, Error>, short: Option<Result<Vec<u8>, Error>>, size: Option<Size>| {
        let what = format!("{long:?} {short:?}");
        let (mut long, mut short) = (Some(long), short);
        let found = capacity_by(|cdb, _, name| match cdb {
            Cdb::ReadCapacity16 { .. } => long.take().expect("once"),
            Cdb::ReadCapacity10 => short.take().unwrap_or_else(|| panic!("{name} after {what}")),
            _ => panic!("{name}"),
        });
        assert!(short.is_none(), "the answer to the short form counts: {what}");
        let found = found.ok().map(|found| (found.blocks, found.block_len_bytes, found.form));
        assert_eq!(found, size, "{what}");
    };
    let large = u64::from(u32::MAX) + 5;
    check(long(large, 4096), None, Some((large + 1, 4096, BlockForm::Sixteen)));
    check(unknown(), Some(short(99, 512)), Some((100, 512, BlockForm::Ten)));
    check(failed(Sense::invalid_field(1, None)), Some(short(99, 512)), Some((100, 512, BlockForm::Ten)));
    check(unknown(), Some(failed(Sense::MEDIUM_NOT_PRESENT)), None);
    // More blocks than READ CAPACITY (10) can report.
    check(unknown(), Some(short(u32::MAX, 512)), None);
    check(failed(Sense::MEDIUM_NOT_PRESENT), None, None);
    // Impossible sizes.
    for (last_lba, block_len) in
        [(99, 0), (99, 256), (99, 520), (99, 2 << 20), (u64::MAX, 512), (1 << 60, 512)]
    {
        check(long(last_lba, block_len), None, None);
    }
}

/// Answers a write of one block with immediate data, and a read of it, as a target; returns both CDBs.
fn keep_one_block(mut peer: TcpStream, block_bytes: usize) -> [[u8; 16]; 2] {
    let mut block = vec![0; block_bytes];
    let mut answer = |stat_sn: u8, opcode: u8, flags: u8, block: Result<&mut [u8], &[u8]>| {
        let mut header = [0; BHS_LEN];
        peer.read_exact(&mut header).expect("a command");
        let command = ScsiCommand::parse(&header).expect("a command");
        let mut answer = [0; BHS_LEN];
        (answer[0], answer[1], answer[27]) = (opcode, flags, stat_sn);
        answer[16..20].copy_from_slice(&command.itt.to_be_bytes());
        answer[28..32].copy_from_slice(&(command.cmd_sn + 1).to_be_bytes());
        answer[32..36].copy_from_slice(&(command.cmd_sn + 128).to_be_bytes());
        match block {
            Ok(block) => {
                assert_eq!(command.data_segment_len as usize, block.len());
                peer.read_exact(block).expect("immediate data");
                peer.write_all(&answer).expect("the initiator reads");
            }
            Err(block) => {
                answer[5..8].copy_from_slice(&(block.len() as u32).to_be_bytes()[1..]);
                answer[20..24].fill(0xff);
                peer.write_all(&[&answer[..], block].concat()).expect("the initiator reads");
            }
        }
        command.cdb
    };
    // A SCSI Response, and Data-In with the status.
    [answer(1, 0x21, 0x80, Ok(&mut block[..])), answer(2, 0x25, 0x81, Err(&block[..]))]
}

#[test]
fn one_block_is_written_and_read_at_its_offset() {
    const BLOCK: usize = 4096;
    let (client, peer) = session(&Options::plain(), Params::default());
    let identity = Identity {
        device_type: 0,
        vendor: String::new(),
        product: String::new(),
        revision: String::new(),
        serial: None,
    };
    let form = BlockForm::Ten;
    let block_len_bytes = BLOCK as u32;
    let mut disk = Disk { client, identity, block_len_bytes, blocks: 64, form, transfer_max_bytes: 1 << 20 };
    let target = std::thread::spawn(move || keep_one_block(peer, BLOCK));
    let block: Vec<u8> = (0..BLOCK).map(|n| (n / 9) as u8).collect();
    disk.write_block(5 * BLOCK as u64, &block).expect("it is answered");
    assert!(disk.read_block(5 * BLOCK as u64).expect("it is answered") == block);
    let at_five = |cdb: Cdb| cdb.emit();
    let (lba, blocks, dpo, fua) = (5, 1, false, false);
    let expected = [Cdb::Write { form, lba, blocks, dpo, fua }, Cdb::Read { form, lba, blocks, dpo, fua }];
    assert_eq!(target.join().expect("no panic"), expected.map(at_five));
}
