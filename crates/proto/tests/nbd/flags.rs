//! Flags of commands at both ends: NBD_CMD_FLAG_DF, NBD_CMD_FLAG_REQ_ONE and NBD_CMD_FLAG_FAST_ZERO.

use proto::nbd::client::{NbdClientEvent, NbdCompletion};
use proto::nbd::{NbdCommand, NbdError, NbdFault, NbdOp, NbdSubmitError, NbdTransmit, NbdViolation};
use wire::nbd::{
    StatusExtent, chunk_type, command, command_flag, option_code, state_flag, transmission_flag,
};

use crate::feed::{
    chunk, client, data, error, feed_client, feed_server, hex, hole, option, request, send, server, serving,
    shown, status,
};

/// HAS_FLAGS, SEND_WRITE_ZEROES, SEND_DF and SEND_FAST_ZERO.
const FLAGS: u16 = 0x08c1;

#[test]
fn a_server_answers_df_with_one_chunk() {
    let mut server = serving(|_| ());
    feed_server(&mut server, &request(command::READ, command_flag::DF, 9, 512, 1024)).expect("a read");
    let key = shown(&mut server);
    server.complete(key);
    let NbdTransmit { header, payload, releases } = server.poll_transmit().expect("a reply");
    // Magic, DONE, OFFSET_DATA, cookie, length, offset.
    assert_eq!(header, hex("668e33ef 0001 0001 0000000000000009 00000408 0000000000000200"));
    assert_eq!((payload.map(|part| part.len_bytes), releases), (Some(1024), Some(key)));
    assert_eq!(server.poll_transmit(), None);
}

#[test]
fn df_needs_structured_replies() {
    let mut server = server(|_| ());
    feed_server(&mut server, &option(option_code::EXPORT_NAME, b"disk")).expect("an option");
    let reply = server.poll_transmit().expect("an export").header;
    assert_eq!(reply, hex("0000000000010000 0d6d"), "size, and flags without SEND_DF");
    feed_server(&mut server, &request(command::READ, command_flag::DF, 9, 512, 1024)).expect("a read");
    assert_eq!(server.open_requests(), 0);
    assert_eq!(server.poll_transmit().expect("a refusal").header, hex("67446698 00000016 0000000000000009"));
}

#[test]
fn a_server_answers_req_one_with_one_extent() {
    let extent = |len_bytes| StatusExtent { len_bytes, flags: state_flag::HOLE | state_flag::ZERO };
    for (flags, lens, expected) in [
        (command_flag::REQ_ONE, vec![512, 512], "0000000c 00000001 00000200 00000003"),
        (command_flag::REQ_ONE, vec![9999], "0000000c 00000001 00000400 00000003"),
        (0, vec![512, 9999], "00000014 00000001 00000200 00000003 00000200 00000003"),
    ] {
        let mut server = serving(|_| ());
        feed_server(&mut server, &request(command::BLOCK_STATUS, flags, 9, 512, 1024)).expect("a request");
        let key = shown(&mut server);
        server.complete_status(key, &lens.into_iter().map(extent).collect::<Vec<_>>());
        // Magic, DONE, BLOCK_STATUS, cookie; length, context, length and flags of each extent.
        let reply = hex(&format!("668e33ef 0001 0005 0000000000000009 {expected}"));
        assert_eq!(server.poll_transmit().expect("a reply").header, reply, "{expected}");
    }
}

#[test]
fn a_server_caps_its_block_status() {
    for (maximum, extents) in [(1 << 25, 131_072), (1 << 20, 131_072), (4096, 512)] {
        let mut server = serving(|config| {
            let facts = &mut config.exports[1].facts;
            (facts.size_bytes, facts.blocks.maximum) = (1 << 32, maximum);
        });
        feed_server(&mut server, &request(command::BLOCK_STATUS, 0, 9, 0, 1 << 31)).expect("a request");
        let key = shown(&mut server);
        server.complete_status(key, &vec![StatusExtent { len_bytes: 512, flags: 0 }; 200_000]);
        let reply = server.poll_transmit().expect("a reply").header;
        assert_eq!(reply.len(), 20 + 4 + 8 * extents, "maximum {maximum}");
    }
}

#[test]
fn a_server_passes_fast_zero_on() {
    let mut server = serving(|_| ());
    let flags = command_flag::FAST_ZERO | command_flag::NO_HOLE;
    let bytes = request(command::WRITE_ZEROES, flags, 9, 512, 1024);
    assert_eq!(bytes, hex("25609513 0012 0006 0000000000000009 0000000000000200 00000400"));
    feed_server(&mut server, &bytes).expect("a request");
    let key = shown(&mut server);
    server.fail(key, NbdError::Enotsup, None);
    assert_eq!(server.poll_transmit().expect("a reply").header, hex("67446698 0000005f 0000000000000009"));
    let mut slow = serving(|config| config.exports[1].facts.flags &= !transmission_flag::SEND_FAST_ZERO);
    feed_server(&mut slow, &bytes).expect("a request");
    assert_eq!((slow.open_requests(), slow.poll_event()), (0, None), "it is not shown");
    assert_eq!(slow.poll_transmit().expect("a reply").header, hex("67446698 00000016 0000000000000009"));
}

#[test]
fn a_client_takes_one_content_chunk_for_df() {
    let halves = |second: Vec<u8>| [chunk(0, chunk_type::OFFSET_DATA, 1, &data(512, 512)), second].concat();
    let table = [
        (halves(chunk(1, chunk_type::OFFSET_DATA, 1, &data(1024, 512))), Some(NbdViolation::Fragmented)),
        (halves(chunk(1, chunk_type::OFFSET_HOLE, 1, &hole(1024, 512))), Some(NbdViolation::Fragmented)),
        (halves(chunk(1, chunk_type::NONE, 1, &[])), Some(NbdViolation::Incomplete)),
        (halves(chunk(1, chunk_type::ERROR, 1, &error(5, None))), None),
        (chunk(1, chunk_type::OFFSET_DATA, 1, &data(512, 1024)), None),
        (chunk(1, chunk_type::OFFSET_HOLE, 1, &hole(512, 1024)), None),
    ];
    for (bytes, expected) in table {
        let mut client = client(FLAGS, None);
        let sent = send(&mut client, 7, NbdOp::Read, command_flag::DF);
        assert_eq!(sent, hex("25609513 0004 0000 0000000000000001 0000000000000200 00000400"));
        assert_eq!(feed_client(&mut client, &bytes).err(), expected.map(NbdFault::Violation));
        assert_eq!(client.open_requests(), usize::from(expected.is_some()));
    }
}

#[test]
fn a_client_takes_one_extent_for_req_one() {
    let long = NbdViolation::LongExtent { found_bytes: 1025, limit_bytes: 1024 };
    let two = NbdFault::TooLong { what: "a block status", found_bytes: 20, limit_bytes: 12 };
    for (lens, expected) in [
        (vec![512, 512], Some(two)),
        (vec![1025], Some(NbdFault::Violation(long))),
        (vec![1024], None),
        (vec![512], None),
    ] {
        let mut client = client(FLAGS, None);
        let sent = send(&mut client, 7, NbdOp::BlockStatus, command_flag::REQ_ONE);
        assert_eq!(sent, hex("25609513 0008 0007 0000000000000001 0000000000000200 00000400"));
        let reply = chunk(1, chunk_type::BLOCK_STATUS, 1, &status(7, &lens));
        assert_eq!(feed_client(&mut client, &reply).err(), expected, "{lens:?}");
    }
}

#[test]
fn a_client_bounds_a_block_status() {
    // An extent for each byte of the request, and extents of the payload maximum.
    for (maximum, limit_bytes) in [(None, 4 + 8 * 1024), (Some(4096), 4 + 4096)] {
        let mut client = client(FLAGS, maximum);
        send(&mut client, 7, NbdOp::BlockStatus, 0);
        let lens = vec![1; (limit_bytes as usize - 4) / 8 + 1];
        let fault = feed_client(&mut client, &chunk(1, chunk_type::BLOCK_STATUS, 1, &status(7, &lens)));
        let found_bytes = limit_bytes + 8;
        let expected = NbdFault::TooLong { what: "a block status", found_bytes, limit_bytes };
        assert_eq!(fault, Err(expected), "{maximum:?}");
    }
    let mut client = client(FLAGS, None);
    send(&mut client, 7, NbdOp::BlockStatus, 0);
    let reply = chunk(1, chunk_type::BLOCK_STATUS, 1, &status(7, &[1; 1024]));
    feed_client(&mut client, &reply).expect("an extent for each byte");
}

#[test]
fn a_client_takes_the_refusal_of_fast_zero() {
    let mut client = client(FLAGS, None);
    let flags = command_flag::FAST_ZERO;
    let sent = send(&mut client, 7, NbdOp::WriteZeroes, flags);
    assert_eq!(sent, hex("25609513 0010 0006 0000000000000001 0000000000000200 00000400"));
    feed_client(&mut client, &hex("67446698 0000005f 0000000000000001")).expect("a reply");
    let completion = NbdCompletion { token: 7, result: Err(NbdError::Enotsup), extents: Vec::new() };
    assert_eq!(client.poll_event(), Some(NbdClientEvent::Completed(completion)));
}

#[test]
fn a_client_keeps_to_the_flags_of_the_export() {
    let mut client = client(transmission_flag::HAS_FLAGS | transmission_flag::SEND_WRITE_ZEROES, None);
    for (op, flags) in [
        (NbdOp::Read, command_flag::DF),
        (NbdOp::WriteZeroes, command_flag::FAST_ZERO),
        (NbdOp::Write, command_flag::FUA),
        (NbdOp::Read, command_flag::REQ_ONE),
    ] {
        let command = NbdCommand { op, flags, offset_bytes: 512, len_bytes: 1024 };
        assert_eq!(client.submit(1, command), Err(NbdSubmitError::Refused(NbdError::Einval)), "{command:?}");
    }
    assert_eq!((client.poll_transmit(), client.open_requests()), (None, 0));
}
