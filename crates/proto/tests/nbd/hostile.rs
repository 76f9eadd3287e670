//! Bytes that were cut, flipped, doubled and made up: a typed error or an answer, never a panic.

use std::collections::VecDeque;
use std::sync::Arc;

use fastrand::Rng;
use proto::nbd::client::{NbdClient, NbdClientConfig, NbdClientEvent};
use proto::nbd::server::{NbdServer, TlsPolicy};
use proto::nbd::{NbdCommand, NbdFault, NbdOp, Receive};
use wire::nbd::{
    ChunkHeader, ClientFlags, ErrorChunk, ExportQuery, Info, NewstyleGreeting, OptionReplyHeader,
    OptionRequest, RequestHeader, SimpleReply, chunk_type, option_code, reply_type,
};

use crate::far::{DISK_BYTES, config};
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

/// Feeds a server whole messages; payload is thrown away.
fn feed_server(server: &mut NbdServer, mut bytes: &[u8]) -> Result<(), NbdFault> {
    loop {
        match server.expects() {
            Receive::Header { len_bytes } if bytes.len() >= len_bytes && len_bytes > 0 => {
                let (header, rest) = bytes.split_at(len_bytes);
                bytes = rest;
                server.handle(header)?;
            }
            Receive::Payload { len_bytes, .. } | Receive::Discard { len_bytes } if !bytes.is_empty() => {
                let len = bytes.len().min(len_bytes as usize);
                bytes = &bytes[len..];
                server.received(len as u32);
            }
            _ => return Ok(()),
        }
    }
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OptionRequest { option, len_bytes: data.len() as u32 }.to_bytes().to_vec();
    bytes.extend_from_slice(data);
    bytes
}

fn server(tls: TlsPolicy) -> NbdServer {
    let mut config = (*config(&mut Rng::with_seed(1))).clone();
    (config.tls, config.requests_max) = (tls, 2000);
    let mut server = NbdServer::new(Arc::new(config));
    server.poll_transmit().expect("a greeting");
    feed_server(&mut server, &ClientFlags { flags: 3 }.to_bytes()).expect("flags");
    server
}

/// The types of all replies that wait.
fn replies(server: &mut NbdServer) -> Vec<u32> {
    std::iter::from_fn(|| server.poll_transmit())
        .map(|transmit| {
            let header = transmit.header[..20].try_into().expect("a header");
            OptionReplyHeader::parse(header).expect("a reply").reply
        })
        .collect()
}

#[test]
fn options_and_their_answers() {
    let (mut go, mut bare) = (Vec::new(), Vec::new());
    ExportQuery::put(&mut go, b"nobody", &[3]);
    ExportQuery::put(&mut bare, b"disk", &[]);
    let long = vec![0; 9000];
    #[rustfmt::skip]
    let table: [(u32, &[u8], &[u32]); 13] = [
        (option_code::LIST, b"", &[reply_type::SERVER, reply_type::SERVER, reply_type::ACK]),
        (option_code::LIST, b"x", &[reply_type::ERR_INVALID]),
        (option_code::STARTTLS, b"", &[reply_type::ERR_UNSUP]),
        (option_code::EXTENDED_HEADERS, b"", &[reply_type::ERR_UNSUP]),
        (77, b"data", &[reply_type::ERR_UNSUP]),
        (option_code::GO, &go, &[reply_type::ERR_UNKNOWN]),
        (option_code::GO, b"", &[reply_type::ERR_INVALID]),
        (option_code::GO, &bare, &[reply_type::INFO, reply_type::INFO, reply_type::ACK]),
        (option_code::INFO, &bare, &[reply_type::INFO, reply_type::INFO, reply_type::ERR_BLOCK_SIZE_REQD]),
        (option_code::SET_META_CONTEXT, b"", &[reply_type::ERR_INVALID]),
        (option_code::STRUCTURED_REPLY, b"x", &[reply_type::ERR_INVALID]),
        (option_code::GO, &long, &[reply_type::ERR_TOO_BIG]),
        (option_code::ABORT, b"bye", &[reply_type::ACK]),
    ];
    for (number, data, expected) in table {
        let mut server = server(TlsPolicy::Unsupported);
        feed_server(&mut server, &option(number, data)).expect("an option");
        assert_eq!(replies(&mut server), expected, "option {number}");
    }
    let mut closed = server(TlsPolicy::Required);
    feed_server(&mut closed, &option(option_code::LIST, b"")).expect("an option");
    assert_eq!(replies(&mut closed), [reply_type::ERR_TLS_REQD]);
    feed_server(&mut closed, &option(option_code::STARTTLS, b"")).expect("an option");
    assert_eq!((replies(&mut closed), closed.expects()), (vec![reply_type::ACK], Receive::Tls));
    closed.start_tls();
    feed_server(&mut closed, &option(option_code::LIST, b"")).expect("an option");
    assert_eq!(replies(&mut closed).len(), 3);
    let mut forbidden = server(TlsPolicy::Forbidden);
    feed_server(&mut forbidden, &option(option_code::STARTTLS, b"")).expect("an option");
    assert_eq!(replies(&mut forbidden), [reply_type::ERR_POLICY]);
}

#[test]
fn clients_that_lose_their_connection() {
    let many = option(option_code::LIST, b"x").repeat(300);
    let too_long = OptionRequest { option: option_code::GO, len_bytes: 1 << 20 }.to_bytes().to_vec();
    let unknown = option(option_code::EXPORT_NAME, b"nobody");
    let request =
        |command, len_bytes| RequestHeader { flags: 0, command, cookie: 1, offset_bytes: 0, len_bytes };
    let mut write = option(option_code::EXPORT_NAME, b"disk");
    write.extend(request(1, (32 << 20) + 1).to_bytes());
    for (name, bytes) in [("many", many), ("too long", too_long), ("unknown", unknown), ("write", write)] {
        let mut server = server(TlsPolicy::Unsupported);
        let fault = feed_server(&mut server, &bytes).expect_err(name);
        let is_expected = match name {
            "many" => matches!(fault, NbdFault::TooMany { .. }),
            "unknown" => matches!(fault, NbdFault::UnknownExport(_)),
            _ => matches!(fault, NbdFault::TooLong { .. }),
        };
        assert!(is_expected, "{name}: {fault}");
        assert_eq!(server.expects(), Receive::Closed, "{name}");
    }
}

#[test]
fn a_refused_request_is_answered_behind_its_data() {
    let mut server = server(TlsPolicy::Unsupported);
    let mut bytes = option(option_code::EXPORT_NAME, b"disk");
    let header = |command, offset_bytes, len_bytes| {
        RequestHeader { flags: 0, command, cookie: 9, offset_bytes, len_bytes }.to_bytes()
    };
    bytes.extend(header(1, DISK_BYTES as u64, 512));
    bytes.extend([7; 512]);
    bytes.extend(header(99, 0, 512));
    feed_server(&mut server, &bytes).expect("refusals");
    assert!(server.poll_event().is_some_and(|event| format!("{event:?}").starts_with("Chosen")));
    assert_eq!((server.poll_event(), server.open_requests()), (None, 0), "no request is shown");
    server.poll_transmit().expect("the export");
    for error in [28, 22] {
        let header = server.poll_transmit().expect("a reply").header;
        assert_eq!(header, SimpleReply { error, cookie: 9 }.to_bytes());
    }
}

/// A client in the transmission phase with a read of 1024 bytes at 512 and a block status, cookies 1 and 2.
fn client() -> NbdClient {
    let mut client = NbdClient::new(NbdClientConfig {
        export: String::new(),
        wants_structured: true,
        wants_allocation: true,
    });
    let mut bytes = NewstyleGreeting { flags: 3 }.to_bytes().to_vec();
    let mut reply = |option, reply, data: &[u8]| {
        bytes.extend(OptionReplyHeader { option, reply, len_bytes: data.len() as u32 }.to_bytes());
        bytes.extend(data);
    };
    let mut info = Vec::new();
    Info::Export { size_bytes: 1 << 20, flags: 0x81 }.put(&mut info);
    reply(option_code::STRUCTURED_REPLY, reply_type::ACK, &[]);
    reply(option_code::SET_META_CONTEXT, reply_type::META_CONTEXT, b"\0\0\0\x07base:allocation");
    reply(option_code::SET_META_CONTEXT, reply_type::ACK, &[]);
    reply(option_code::GO, reply_type::INFO, &info);
    reply(option_code::GO, reply_type::ACK, &[]);
    feed_client(&mut client, &bytes).expect("a negotiation");
    assert!(matches!(client.poll_event(), Some(NbdClientEvent::Ready(_))));
    for (token, op) in [(1, NbdOp::Read), (2, NbdOp::BlockStatus), (3, NbdOp::Read)] {
        client
            .submit(token, NbdCommand { op, flags: 0, offset_bytes: 512, len_bytes: 1024 })
            .expect("a request");
    }
    // The third is not sent.
    while !client.poll_transmit().expect("a message").header.starts_with(&BLOCK_STATUS) {}
    client
}

/// The beginning of the block status.
const BLOCK_STATUS: [u8; 8] = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, 7];

fn feed_client(client: &mut NbdClient, mut bytes: &[u8]) -> Result<(), NbdFault> {
    loop {
        match client.expects() {
            Receive::Header { len_bytes } if bytes.len() >= len_bytes => {
                let (header, rest) = bytes.split_at(len_bytes);
                bytes = rest;
                client.handle(header)?;
            }
            Receive::Payload { len_bytes, .. } | Receive::Discard { len_bytes } if !bytes.is_empty() => {
                let len = bytes.len().min(len_bytes as usize);
                bytes = &bytes[len..];
                client.received(len as u32)?;
            }
            _ => return Ok(()),
        }
    }
}

fn chunk(flags: u16, kind: u16, cookie: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = ChunkHeader { flags, kind, cookie, len_bytes: body.len() as u32 }.to_bytes().to_vec();
    bytes.extend(body);
    bytes
}

#[test]
fn servers_that_break_the_protocol() {
    let data = |offset: u64, len: usize| [&offset.to_be_bytes()[..], &vec![7; len]].concat();
    let hole = |offset: u64, len: u32| [&offset.to_be_bytes()[..], &len.to_be_bytes()].concat();
    let status = |id: u32, lens: &[u32]| {
        let extents: Vec<u8> = lens.iter().flat_map(|len| [len.to_be_bytes(), [0; 4]].concat()).collect();
        [&id.to_be_bytes()[..], &extents].concat()
    };
    let error = |error, offset_bytes| {
        let mut bytes = Vec::new();
        ErrorChunk { error, message: b"", offset_bytes }.put(&mut bytes);
        bytes
    };
    #[rustfmt::skip]
    let table = [
        ("a simple reply to a read", SimpleReply { error: 0, cookie: 1 }.to_bytes().to_vec()),
        ("a simple reply to a block status", SimpleReply { error: 0, cookie: 2 }.to_bytes().to_vec()),
        ("a cookie of nobody", SimpleReply { error: 5, cookie: 99 }.to_bytes().to_vec()),
        ("a request that was not sent", chunk(1, chunk_type::ERROR, 3, &error(5, None))),
        ("no magic number", vec![0; 20]),
        ("an end before the data", chunk(1, chunk_type::NONE, 1, &[])),
        ("an end before all data", chunk(1, chunk_type::OFFSET_DATA, 1, &data(512, 1023))),
        ("data before the read", chunk(0, chunk_type::OFFSET_DATA, 1, &data(511, 10))),
        ("data behind the read", chunk(0, chunk_type::OFFSET_DATA, 1, &data(1530, 10))),
        ("more data than the read has", chunk(0, chunk_type::OFFSET_DATA, 1, &data(512, 1025))),
        ("data twice", [0, 1023].map(|at| chunk(0, chunk_type::OFFSET_DATA, 1, &data(512 + at, 1024 - at as usize))).concat()),
        ("a hole over data", [chunk(0, chunk_type::OFFSET_DATA, 1, &data(600, 10)), chunk(0, chunk_type::OFFSET_HOLE, 1, &hole(605, 1))].concat()),
        ("an empty hole", chunk(0, chunk_type::OFFSET_HOLE, 1, &hole(512, 0))),
        ("a hole of 4 GiB", chunk(0, chunk_type::OFFSET_HOLE, 1, &hole(512, u32::MAX))),
        ("no data", chunk(0, chunk_type::OFFSET_DATA, 1, &data(512, 0))),
        ("nothing without DONE", chunk(0, chunk_type::NONE, 1, &[])),
        ("an error that is none", chunk(1, chunk_type::ERROR, 1, &error(0, None))),
        ("an error elsewhere", chunk(1, chunk_type::ERROR_OFFSET, 1, &error(5, Some(0)))),
        ("errors without end", chunk(0, chunk_type::ERROR, 1, &error(5, None)).repeat(1025)),
        ("data for a block status", chunk(0, chunk_type::OFFSET_DATA, 2, &data(512, 10))),
        ("a status for a read", chunk(0, chunk_type::BLOCK_STATUS, 1, &status(7, &[512]))),
        ("another context", chunk(1, chunk_type::BLOCK_STATUS, 2, &status(8, &[512]))),
        ("two statuses", chunk(0, chunk_type::BLOCK_STATUS, 2, &status(7, &[512])).repeat(2)),
        ("an extent without length", chunk(1, chunk_type::BLOCK_STATUS, 2, &status(7, &[0]))),
        ("an extent outside", chunk(1, chunk_type::BLOCK_STATUS, 2, &status(7, &[2000, 1]))),
        ("no extent", chunk(1, chunk_type::BLOCK_STATUS, 2, &status(7, &[]))),
        ("a kind of nobody", chunk(1, 99, 1, &[1])),
    ];
    for (name, bytes) in table {
        let mut client = client();
        let result = feed_client(&mut client, &bytes);
        assert!(result.is_err(), "{name}");
        assert_eq!(client.expects(), Receive::Closed, "{name}");
    }
    let mut client = client();
    let good = [
        chunk(0, chunk_type::OFFSET_HOLE, 1, &hole(1024, 512)),
        chunk(1, chunk_type::BLOCK_STATUS, 2, &status(7, &[512, 2000])),
        chunk(1, chunk_type::OFFSET_DATA, 1, &data(512, 512)),
    ];
    feed_client(&mut client, &good.concat()).expect("chunks of two requests");
    let events: Vec<_> = std::iter::from_fn(|| client.poll_event()).collect();
    assert_eq!(events[0], NbdClientEvent::Zeros { token: 1, offset_bytes: 512, len_bytes: 512 });
    assert!(
        matches!(&events[1], NbdClientEvent::Completed(done) if done.token == 2 && done.extents.len() == 2)
    );
    assert!(matches!(&events[2], NbdClientEvent::Completed(done) if done.token == 1 && done.result.is_ok()));
    assert_eq!(client.open_tokens().collect::<Vec<_>>(), [3]);
}
