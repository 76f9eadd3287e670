//! Bytes that were cut, flipped, doubled and made up: a typed error or an answer, never a panic.

use std::collections::VecDeque;
use std::sync::Arc;

use fastrand::Rng;
use proto::nbd::client::{NbdClient, NbdClientEvent, NbdCompletion};
use proto::nbd::server::{NbdServer, NbdServerEvent};
use proto::nbd::{NbdCommand, NbdFault, NbdOp, NbdViolation, Receive};
use wire::nbd::{NbdFormatError, SimpleReply, StatusExtent, chunk_type, command, option_code, reply_type};

use crate::far::{DISK_BYTES, config};
use crate::feed::{
    chunk, client, data, error, feed_client, feed_server, hex, hole, negotiation, new_client, option,
    option_reply, request, send, server, status,
};
use crate::walk::Pair;

/// Disturbs bytes in flight: flips, losses, duplicates and inserted bytes.
fn disturb(bytes: &mut VecDeque<u8>, random: &mut Rng) {
    if bytes.is_empty() {
        return;
    }
    let at = random.usize(..bytes.len());
    match random.u8(0..4) {
        0 => bytes[at] ^= 1 << random.u8(0..8),
        1 => drop(bytes.remove(at)),
        2 => bytes.insert(at, bytes[at]),
        _ => bytes[at] = random.u8(..),
    }
}

#[test]
fn disturbed_bytes_end_in_an_error_or_an_answer() {
    let (mut far_faults, mut near_faults) = (0, 0);
    for seed in 0..3000 {
        let mut random = Rng::with_seed(seed);
        let mut pair = Pair::new(&mut random);
        pair.near.is_strict = false;
        for _ in 0..400 {
            if random.u8(..) < 6 {
                let is_far = random.bool();
                disturb(if is_far { &mut pair.to_far } else { &mut pair.to_near }, &mut random);
            }
            if let Err(fault) = pair.step(true, &mut random) {
                assert!(!fault.to_string().is_empty());
                let is_far = pair.far.server.expects() == Receive::Closed;
                far_faults += usize::from(is_far);
                near_faults += usize::from(!is_far);
                break;
            }
        }
    }
    assert!(far_faults > 100 && near_faults > 100, "{far_faults} and {near_faults} faults");
}

#[test]
fn clients_that_lose_their_connection() {
    let many = option(option_code::LIST, b"x").repeat(300);
    let unknown = option(option_code::EXPORT_NAME, b"nobody");
    let mut write = option(option_code::EXPORT_NAME, b"disk");
    write.extend(request(command::WRITE, 0, 1, 0, (32 << 20) + 1));
    let mut late = option(option_code::EXPORT_NAME, b"disk");
    late.extend([0; 28]);
    let magic = NbdFormatError::Magic { message: "RequestHeader", expected: 0x2560_9513, found: 0 };
    let (found_bytes, limit_bytes) = ((32 << 20) + 1, 32 << 20);
    for (name, bytes, expected) in [
        ("many", many, NbdFault::TooMany { what: "options", limit: 256 }),
        ("unknown", unknown, NbdFault::UnknownExport("nobody".to_owned())),
        ("write", write, NbdFault::TooLong { what: "the data of a write", found_bytes, limit_bytes }),
        ("magic", late, NbdFault::Malformed(magic)),
    ] {
        let mut server = server(|_| ());
        assert_eq!(feed_server(&mut server, &bytes), Err(expected), "{name}");
        assert_eq!(server.expects(), Receive::Closed, "{name}");
    }
}

#[test]
fn clients_that_answer_the_greeting_wrongly() {
    let config = config(&mut Rng::with_seed(1));
    let unfixed = [hex("00000002"), option(option_code::GO, b"")].concat();
    for (bytes, expected) in [
        (hex("00000005"), NbdViolation::HandshakeFlags { flags: 5 }),
        (unfixed, NbdViolation::NotFixed { option: option_code::GO }),
    ] {
        let mut server = NbdServer::new(Arc::clone(&config));
        server.poll_transmit().expect("a greeting");
        assert_eq!(feed_server(&mut server, &bytes), Err(expected.into()));
    }
}

#[test]
fn a_refused_request_is_answered_behind_its_data() {
    let mut server = server(|_| ());
    let mut bytes = option(option_code::EXPORT_NAME, b"disk");
    bytes.extend(request(command::WRITE, 0, 9, DISK_BYTES as u64, 512));
    bytes.extend([7; 512]);
    bytes.extend(request(99, 0, 9, 0, 512));
    feed_server(&mut server, &bytes).expect("refusals");
    assert_eq!(server.poll_event(), Some(NbdServerEvent::Chosen { export: 1 }));
    assert_eq!((server.poll_event(), server.open_requests()), (None, 0), "no request is shown");
    server.poll_transmit().expect("the export");
    for error in [28, 22] {
        let header = server.poll_transmit().expect("a reply").header;
        assert_eq!(header, SimpleReply { error, cookie: 9 }.to_bytes());
    }
}

/// A client with a read of 1024 bytes at 512 and a block status, cookies 1 and 2; a third request is not sent.
fn busy_client() -> NbdClient {
    let mut client = client(0x81, None);
    send(&mut client, 1, NbdOp::Read, 0);
    send(&mut client, 2, NbdOp::BlockStatus, 0);
    let command = NbdCommand { op: NbdOp::Read, flags: 0, offset_bytes: 512, len_bytes: 1024 };
    client.submit(3, command).expect("a request");
    client
}

#[test]
fn servers_that_break_the_protocol() {
    use NbdViolation as V;
    let is = NbdFault::Violation;
    let too_long = |what, found_bytes, limit_bytes| NbdFault::TooLong { what, found_bytes, limit_bytes };
    let magic = |found| NbdFormatError::Magic { message: "SimpleReply", expected: 0x6744_6698, found };
    let part = |at: u64, len| chunk(0, chunk_type::OFFSET_DATA, 1, &data(at, len));
    let empty = |at: u64, len| chunk(0, chunk_type::OFFSET_HOLE, 1, &hole(at, len));
    let done = |kind, cookie, body: &[u8]| chunk(1, kind, cookie, body);
    let simple = |error, cookie| SimpleReply { error, cookie }.to_bytes().to_vec();
    let length = |kind, found_bytes, expected_bytes| is(V::ChunkLength { kind, found_bytes, expected_bytes });
    #[rustfmt::skip]
    let table = [
        ("a simple reply to a read", simple(0, 1), is(V::SimpleReply)),
        ("a simple error to a read", simple(5, 1), is(V::SimpleReply)),
        ("a simple reply to a block status", simple(0, 2), is(V::SimpleReply)),
        ("a simple reply behind a chunk", [part(512, 9), simple(5, 1)].concat(), is(V::MixedReplies)),
        ("a cookie of nobody", simple(5, 99), NbdFault::UnknownCookie { cookie: 99 }),
        ("a request that was not sent", done(chunk_type::ERROR, 3, &error(5, None)), NbdFault::UnknownCookie { cookie: 3 }),
        ("no magic number", vec![0; 20], NbdFault::Malformed(magic(0))),
        ("an end before the data", done(chunk_type::NONE, 1, &[]), is(V::Incomplete)),
        ("an end before all data", done(chunk_type::OFFSET_DATA, 1, &data(512, 1023)), is(V::Incomplete)),
        ("an end before the status", done(chunk_type::NONE, 2, &[]), is(V::Incomplete)),
        ("data before the read", part(511, 10), is(V::OutsideRead)),
        ("data behind the read", part(1530, 10), is(V::OutsideRead)),
        ("more data than the read has", part(512, 1025), too_long("a data chunk", 1033, 1032)),
        ("data twice", [part(512, 1024), part(1535, 1)].concat(), is(V::OverlappingRead)),
        ("a hole over data", [part(600, 10), empty(605, 1)].concat(), is(V::OverlappingRead)),
        ("an empty hole", empty(512, 0), is(V::OutsideRead)),
        ("a hole of 4 GiB", empty(512, u32::MAX), is(V::OutsideRead)),
        ("half a hole", done(chunk_type::OFFSET_HOLE, 1, &[0; 11]), length(2, 11, 12)),
        ("more than a hole", done(chunk_type::OFFSET_HOLE, 1, &[0; 13]), too_long("a hole chunk", 13, 12)),
        ("no data", part(512, 0), length(1, 8, 9)),
        ("nothing without DONE", chunk(0, chunk_type::NONE, 1, &[]), is(V::NoneChunk)),
        ("nothing with data", done(chunk_type::NONE, 1, &[0]), is(V::NoneChunk)),
        ("an error that is none", done(chunk_type::ERROR, 1, &error(0, None)), is(V::NoError)),
        ("an error elsewhere", done(chunk_type::ERROR_OFFSET, 1, &error(5, Some(0))), is(V::ErrorOffset { offset_bytes: 0 })),
        ("half an error", done(chunk_type::ERROR, 1, &[0; 5]), length(0x8001, 5, 6)),
        ("an error without an offset", done(chunk_type::ERROR_OFFSET, 1, &error(5, None)), NbdFault::Malformed(NbdFormatError::Length { message: "an error chunk", found: 6 })),
        ("a novel in an error", done(chunk_type::ERROR, 1, &[0; 4111]), too_long("an error chunk", 4111, 4110)),
        ("errors without end", chunk(0, chunk_type::ERROR, 1, &error(5, None)).repeat(1025), NbdFault::TooMany { what: "error chunks", limit: 1024 }),
        ("data for a block status", chunk(0, chunk_type::OFFSET_DATA, 2, &data(512, 10)), is(V::ChunkType { kind: 1 })),
        ("a status for a read", chunk(0, chunk_type::BLOCK_STATUS, 1, &status(7, &[512])), is(V::ChunkType { kind: 5 })),
        ("another context", done(chunk_type::BLOCK_STATUS, 2, &status(8, &[512])), is(V::StatusContext { found: 8 })),
        ("two statuses", chunk(0, chunk_type::BLOCK_STATUS, 2, &status(7, &[512])).repeat(2), is(V::SecondStatus)),
        ("an extent without length", done(chunk_type::BLOCK_STATUS, 2, &status(7, &[0])), is(V::Extent)),
        ("an extent outside", done(chunk_type::BLOCK_STATUS, 2, &status(7, &[1024, 1])), is(V::Extent)),
        ("no extent", done(chunk_type::BLOCK_STATUS, 2, &status(7, &[])), length(5, 4, 12)),
        ("half an extent", done(chunk_type::BLOCK_STATUS, 2, &[0; 16]), NbdFault::Malformed(NbdFormatError::Length { message: "NBD_REPLY_TYPE_BLOCK_STATUS", found: 16 })),
        ("a kind of nobody", done(99, 1, &[1]), is(V::ChunkType { kind: 99 })),
    ];
    for (name, bytes, expected) in table {
        let mut client = busy_client();
        assert_eq!(feed_client(&mut client, &bytes), Err(expected), "{name}");
        assert_eq!(client.expects(), Receive::Closed, "{name}");
    }
}

#[test]
fn servers_that_break_the_negotiation() {
    use NbdViolation as V;
    let bad_sizes = |minimum: u32| {
        let sizes = [minimum, 4096, 1 << 20].iter().flat_map(|size| size.to_be_bytes()).collect::<Vec<_>>();
        [&[0, 3][..], &sizes].concat()
    };
    let go = |reply, data: &[u8]| option_reply(option_code::GO, reply, data);
    for (name, bytes, expected) in [
        ("another option", option_reply(77, 1, &[]), V::OtherOption { found: 77, expected: 7 }),
        ("data of an acknowledgement", go(reply_type::ACK, b"x"), V::AckData),
        ("no size", go(reply_type::ACK, &[]), V::NoExportInfo),
        ("an export of a list", go(reply_type::SERVER, &[]), V::OptionReply { option: 7, reply: 2 }),
        (
            "block sizes",
            go(reply_type::INFO, &bad_sizes(513)),
            V::BlockSizes { minimum: 513, preferred: 4096, maximum: 1 << 20 },
        ),
    ] {
        let mut client = new_client();
        for message in &negotiation(1, None)[..3] {
            feed_client(&mut client, message).expect("a message");
        }
        assert_eq!(feed_client(&mut client, &bytes), Err(expected.into()), "{name}");
        assert_eq!(client.poll_transmit(), None, "no soft disconnect after a breach: {name}");
    }
    let mut client = new_client();
    for message in &negotiation(1, None)[..2] {
        feed_client(&mut client, message).expect("a message");
    }
    let context =
        option_reply(option_code::SET_META_CONTEXT, reply_type::META_CONTEXT, b"\0\0\0\x07qemu:dirty");
    assert_eq!(feed_client(&mut client, &context), Err(V::Context.into()));
}

#[test]
fn chunks_of_two_requests_in_any_order() {
    let mut client = busy_client();
    let good = [
        chunk(0, chunk_type::OFFSET_HOLE, 1, &hole(1024, 512)),
        chunk(1, chunk_type::BLOCK_STATUS, 2, &status(7, &[512, 2000])),
        chunk(1, chunk_type::OFFSET_DATA, 1, &data(512, 512)),
    ];
    feed_client(&mut client, &good.concat()).expect("chunks of two requests");
    let events: Vec<_> = std::iter::from_fn(|| client.poll_event()).collect();
    let extents = [512, 512].map(|len_bytes| StatusExtent { len_bytes, flags: 0 }).to_vec();
    let completed =
        |token, extents| NbdClientEvent::Completed(NbdCompletion { token, result: Ok(()), extents });
    let zeros = NbdClientEvent::Zeros { token: 1, offset_bytes: 512, len_bytes: 512 };
    assert_eq!(events, [zeros, completed(2, extents), completed(1, Vec::new())]);
    assert_eq!(client.open_tokens().collect::<Vec<_>>(), [3]);
}
