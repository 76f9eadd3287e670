//! One machine and whole messages of a scripted peer.

use std::sync::Arc;

use fastrand::Rng;
use proto::nbd::client::{NbdClient, NbdClientConfig, NbdClientEvent};
use proto::nbd::server::{NbdServer, NbdServerConfig, NbdServerEvent, TlsPolicy};
use proto::nbd::{NbdCommand, NbdFault, NbdOp, Receive};
use wire::nbd::{
    ChunkHeader, ClientFlags, ErrorChunk, Info, MetaQuery, NewstyleGreeting, OptionReplyHeader,
    OptionRequest, RequestHeader, option_code, reply_type,
};

use crate::far::config;

/// Bytes of these hexadecimal digits.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        digits.chars().filter(|digit| *digit != ' ').map(|digit| digit.to_digit(16).expect("hex")).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Feeds a server whole messages; payload is thrown away.
pub(crate) fn feed_server(server: &mut NbdServer, mut bytes: &[u8]) -> Result<(), NbdFault> {
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

/// Feeds a client whole messages; payload is thrown away.
pub(crate) fn feed_client(client: &mut NbdClient, mut bytes: &[u8]) -> Result<(), NbdFault> {
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

/// An option of a client.
pub(crate) fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OptionRequest { option, len_bytes: data.len() as u32 }.to_bytes().to_vec();
    bytes.extend_from_slice(data);
    bytes
}

/// A request of a client.
pub(crate) fn request(command: u16, flags: u16, cookie: u64, offset_bytes: u64, len_bytes: u32) -> Vec<u8> {
    RequestHeader { flags, command, cookie, offset_bytes, len_bytes }.to_bytes().to_vec()
}

/// A reply of a server to an option.
pub(crate) fn option_reply(option: u32, reply: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OptionReplyHeader { option, reply, len_bytes: data.len() as u32 }.to_bytes().to_vec();
    bytes.extend_from_slice(data);
    bytes
}

/// A chunk of a server.
pub(crate) fn chunk(flags: u16, kind: u16, cookie: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = ChunkHeader { flags, kind, cookie, len_bytes: body.len() as u32 }.to_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// The payload of a data chunk.
pub(crate) fn data(offset: u64, len: usize) -> Vec<u8> {
    [&offset.to_be_bytes()[..], &vec![7; len]].concat()
}

/// The payload of a hole chunk.
pub(crate) fn hole(offset: u64, len: u32) -> Vec<u8> {
    [&offset.to_be_bytes()[..], &len.to_be_bytes()].concat()
}

/// The payload of a block status.
pub(crate) fn status(id: u32, lens: &[u32]) -> Vec<u8> {
    let extents: Vec<u8> = lens.iter().flat_map(|len| [len.to_be_bytes(), [0; 4]].concat()).collect();
    [&id.to_be_bytes()[..], &extents].concat()
}

/// The payload of an error chunk.
pub(crate) fn error(error: u32, offset_bytes: Option<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    ErrorChunk { error, message: b"", offset_bytes }.put(&mut bytes);
    bytes
}

/// A server in negotiation; `change` adapts its configuration.
pub(crate) fn server(change: impl FnOnce(&mut NbdServerConfig)) -> NbdServer {
    let mut config = (*config(&mut Rng::with_seed(1))).clone();
    (config.tls, config.requests_max, config.queue_max_bytes) = (TlsPolicy::Unsupported, 2000, 1 << 30);
    config.exports[1].has_allocation = true;
    change(&mut config);
    let mut server = NbdServer::new(Arc::new(config));
    server.poll_transmit().expect("a greeting");
    feed_server(&mut server, &ClientFlags { flags: 3 }.to_bytes()).expect("flags");
    server
}

/// A server in the transmission phase of "disk", with structured replies and `base:allocation`.
pub(crate) fn serving(change: impl FnOnce(&mut NbdServerConfig)) -> NbdServer {
    let mut server = server(change);
    let mut query = Vec::new();
    MetaQuery::put(&mut query, b"disk", &[b"base:allocation"]);
    for (number, data) in [
        (option_code::STRUCTURED_REPLY, &b""[..]),
        (option_code::SET_META_CONTEXT, &query),
        (option_code::EXPORT_NAME, b"disk"),
    ] {
        feed_server(&mut server, &option(number, data)).expect("an option");
        while server.poll_transmit().is_some() {}
    }
    assert_eq!(server.poll_event(), Some(NbdServerEvent::Chosen { export: 1 }));
    server
}

/// The key of the request that the server shows next.
pub(crate) fn shown(server: &mut NbdServer) -> u64 {
    match server.poll_event() {
        Some(NbdServerEvent::Request { key, .. }) => key,
        other => panic!("{other:?} where a request was expected"),
    }
}

/// The types of all replies to options that wait.
pub(crate) fn replies(server: &mut NbdServer) -> Vec<u32> {
    std::iter::from_fn(|| server.poll_transmit())
        .map(|transmit| {
            let header = transmit.header[..20].try_into().expect("a header");
            OptionReplyHeader::parse(header).expect("a reply").reply
        })
        .collect()
}

/// A client that wants everything.
pub(crate) fn new_client() -> NbdClient {
    NbdClient::new(NbdClientConfig { export: String::new(), wants_structured: true, wants_allocation: true })
}

/// The messages of a server to [`new_client`], for each message of the client. The payload maximum is optional.
pub(crate) fn negotiation(flags: u16, maximum: Option<u32>) -> Vec<Vec<u8>> {
    let (mut export, mut blocks) = (Vec::new(), Vec::new());
    Info::Export { size_bytes: 1 << 20, flags }.put(&mut export);
    let mut go = option_reply(option_code::GO, reply_type::INFO, &export);
    if let Some(maximum) = maximum {
        Info::BlockSize { minimum: 512, preferred: 512, maximum }.put(&mut blocks);
        go.extend(option_reply(option_code::GO, reply_type::INFO, &blocks));
    }
    go.extend(option_reply(option_code::GO, reply_type::ACK, &[]));
    let context = b"\0\0\0\x07base:allocation";
    let mut set = option_reply(option_code::SET_META_CONTEXT, reply_type::META_CONTEXT, context);
    set.extend(option_reply(option_code::SET_META_CONTEXT, reply_type::ACK, &[]));
    vec![
        NewstyleGreeting { flags: 3 }.to_bytes().to_vec(),
        option_reply(option_code::STRUCTURED_REPLY, reply_type::ACK, &[]),
        set,
        go,
    ]
}

/// A client in the transmission phase of an export with these flags, with structured replies and context 7.
pub(crate) fn client(flags: u16, maximum: Option<u32>) -> NbdClient {
    let mut client = new_client();
    for message in negotiation(flags, maximum) {
        feed_client(&mut client, &message).expect("a negotiation");
        while client.poll_transmit().is_some() {}
    }
    assert!(matches!(client.poll_event(), Some(NbdClientEvent::Ready(_))));
    client
}

/// Submits and sends a command on 1024 bytes at 512. Returns its bytes.
pub(crate) fn send(client: &mut NbdClient, token: u64, op: NbdOp, flags: u16) -> Vec<u8> {
    let command = NbdCommand { op, flags, offset_bytes: 512, len_bytes: 1024 };
    client.submit(token, command).expect("a command");
    client.poll_transmit().expect("its bytes").header
}
