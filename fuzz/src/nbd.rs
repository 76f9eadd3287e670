//! The targets `nbd_server` and `nbd_client`: one machine and the bytes of its peer.
//!
//! The first byte picks what the machine offers or wants; the rest is the peer's stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use proto::nbd::client::{NbdClient, NbdClientConfig, NbdClientEvent};
use proto::nbd::server::{NbdExport, NbdServer, NbdServerConfig, NbdServerEvent, TlsPolicy};
use proto::nbd::{ExportFacts, NbdBlockSizes, NbdCommand, NbdError, NbdOp, PAYLOAD_MAX_BYTES, Receive};
use wire::nbd::{
    ChunkHeader, ExportNameReply, OptionReplyHeader, RequestHeader, SimpleReply, StatusExtent, command,
    state_flag,
};

/// Size of the export.
const DISK_BYTES: u64 = 1 << 20;
/// Requests of the client; a server that goes on answering is one that we keep asking.
const REQUESTS_MAX: u64 = 64;

/// The bytes of a peer: what is not there ends the connection.
struct Stream<'a>(&'a [u8]);

impl<'a> Stream<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (now, later) = self.0.split_at_checked(len)?;
        self.0 = later;
        Some(now)
    }

    /// Payload: as much as there is, a piece at a time.
    fn payload(&mut self, len_bytes: u32) -> Option<u32> {
        let len = self.0.len().min(len_bytes as usize).min(700);
        self.take(len).filter(|piece| !piece.is_empty()).map(|piece| piece.len() as u32)
    }
}

/// Answers of a server, compared with the requests that it took: a request has one answer, under its cookie.
#[derive(Default)]
struct Answers {
    /// Requests less answers, by cookie.
    missing: BTreeMap<u64, i64>,
}

impl Answers {
    /// Counts a request.
    fn ask(&mut self, header: &[u8]) {
        let request =
            header.try_into().map(RequestHeader::parse).expect("a header of the transmission phase");
        let Ok(RequestHeader { command, cookie, .. }) = request else { return };
        if command != command::DISC {
            *self.missing.entry(cookie).or_default() += 1;
        }
    }

    /// Counts a reply: a simple one, or the last chunk.
    fn answer(&mut self, header: &[u8]) {
        let magic = header[..4].try_into().map(u32::from_be_bytes).expect("a magic number");
        let cookie = if magic == ChunkHeader::MAGIC {
            let chunk = header[..ChunkHeader::LEN].try_into().map(ChunkHeader::parse);
            let chunk = chunk.expect("a header").expect("a chunk");
            if !chunk.is_done() {
                return;
            }
            chunk.cookie
        } else {
            let reply = header.try_into().map(SimpleReply::parse);
            reply.expect("a reply of its length").expect("a simple reply").cookie
        };
        let missing = self.missing.entry(cookie).or_default();
        *missing -= 1;
        assert!(*missing >= 0, "a reply to no request of cookie {cookie:#x}");
    }

    /// Requests without an answer.
    fn missing(&self) -> i64 {
        self.missing.values().sum()
    }
}

/// A server's configuration from the first byte of the input.
fn server_config(pick: u8) -> NbdServerConfig {
    let facts = ExportFacts {
        size_bytes: DISK_BYTES,
        flags: if pick & 2 != 0 { 0x0003 } else { 0x0dec },
        blocks: NbdBlockSizes {
            minimum: if pick & 1 != 0 { 512 } else { 1 },
            preferred: 4096,
            maximum: PAYLOAD_MAX_BYTES,
        },
    };
    let export =
        NbdExport { name: "disk".to_owned(), description: "a disk".to_owned(), facts, has_allocation: true };
    let tls = [TlsPolicy::Unsupported, TlsPolicy::Forbidden, TlsPolicy::Offered, TlsPolicy::Required];
    NbdServerConfig {
        exports: vec![export],
        default_export: Some(0),
        tls: tls[usize::from(pick >> 2 & 3)],
        lists: pick & 16 == 0,
        requests_max: 8,
        queue_max_bytes: 1 << 16,
    }
}

/// A client's bytes against a server that answers at once. Each request that it takes is answered once.
pub(crate) fn server(data: &[u8]) {
    let Some((&pick, rest)) = data.split_first() else { return };
    let mut server = NbdServer::new(Arc::new(server_config(pick)));
    let mut answers = Answers::default();
    let has_fault = serve(&mut server, pick, &mut Stream(rest), &mut answers);
    // One write may wait for its data, or have too many of them.
    let may_wait = matches!(server.expects(), Receive::Payload { .. } | Receive::Discard { .. });
    let missing = answers.missing();
    assert!(missing <= i64::from(has_fault || may_wait), "{missing} requests without an answer");
}

/// Runs a server to the end of the client's bytes. Returns true after a fault.
fn serve(server: &mut NbdServer, pick: u8, stream: &mut Stream<'_>, answers: &mut Answers) -> bool {
    let minimum = if pick & 1 != 0 { 512 } else { 1 };
    loop {
        while let Some(transmit) = server.poll_transmit() {
            if server.chosen().is_some() && !is_negotiation(&transmit.header) {
                answers.answer(&transmit.header);
            }
        }
        match server.expects() {
            Receive::Header { len_bytes } => {
                let Some(header) = stream.take(len_bytes) else { return false };
                if server.chosen().is_some() {
                    answers.ask(header);
                }
                if server.handle(header).is_err() {
                    assert_eq!(server.expects(), Receive::Closed, "a fault ends the connection");
                    return true;
                }
            }
            Receive::Payload { len_bytes, .. } | Receive::Discard { len_bytes } => {
                assert!(len_bytes <= PAYLOAD_MAX_BYTES);
                let Some(bytes) = stream.payload(len_bytes) else { return false };
                server.received(bytes);
            }
            Receive::Tls => {
                let is_injected = pick & 128 != 0;
                assert_eq!(server.start_tls(usize::from(is_injected)).is_err(), is_injected);
                if is_injected {
                    return true;
                }
            }
            Receive::Closed => {
                assert!(server.is_finished(), "an end in good order");
                return false;
            }
            Receive::Wait => panic!("everything is answered and sent"),
        }
        while let Some(event) = server.poll_event() {
            match event {
                NbdServerEvent::Request { key, command } => {
                    let end = command.offset_bytes + u64::from(command.len_bytes);
                    assert!(end <= DISK_BYTES && command.offset_bytes.is_multiple_of(minimum));
                    execute(server, pick, key, command);
                }
                NbdServerEvent::Received { key } => server.complete(key),
                NbdServerEvent::StartTls | NbdServerEvent::Chosen { .. } | NbdServerEvent::Disconnected => {}
            }
        }
    }
}

/// True for a message that is no reply to a request: the answer to an option, or to NBD_OPT_EXPORT_NAME.
fn is_negotiation(header: &[u8]) -> bool {
    let magic = OptionReplyHeader::MAGIC.to_be_bytes();
    let export_lens = [ExportNameReply::LEN, ExportNameReply::LEN + ExportNameReply::PADDING_LEN];
    header.starts_with(&magic) || export_lens.contains(&header.len())
}

/// Answers a request; a write waits for its data, or fails before they come.
fn execute(server: &mut NbdServer, pick: u8, key: u64, NbdCommand { op, flags, len_bytes, .. }: NbdCommand) {
    match op {
        NbdOp::Write if len_bytes & 512 != 0 && pick & 32 != 0 => server.fail(key, NbdError::Eio, None),
        NbdOp::Write => {}
        _ if pick & 64 != 0 => server.fail(key, NbdError::Eio, None),
        NbdOp::BlockStatus => {
            let extent = StatusExtent { len_bytes: 4096, flags: state_flag::HOLE };
            server.complete_status(key, &[extent; 3]);
        }
        NbdOp::Read if server.is_structured() && flags == 0 && len_bytes > 1 => {
            server.put_hole(key, 1, len_bytes - 1);
            server.put_data(key, 0, 1);
            server.complete(key);
        }
        _ => server.complete(key),
    }
}

/// A server's bytes against a client that keeps asking.
pub(crate) fn client(data: &[u8]) {
    let Some((pick, rest)) = data.split_first() else { return };
    let mut client = NbdClient::new(NbdClientConfig {
        export: "disk".to_owned(),
        wants_structured: pick & 1 != 0,
        wants_allocation: pick & 2 != 0,
    });
    let mut stream = Stream(rest);
    let mut lens = Vec::new();
    let mut ended = 0;
    loop {
        while client.poll_transmit().is_some() {}
        let result = match client.expects() {
            Receive::Header { len_bytes } => {
                let Some(header) = stream.take(len_bytes) else { break };
                client.handle(header)
            }
            Receive::Payload { token, offset_bytes, len_bytes } => {
                assert!(offset_bytes + len_bytes <= lens[token as usize], "data inside of the buffer");
                let Some(bytes) = stream.payload(len_bytes) else { break };
                client.received(bytes)
            }
            Receive::Discard { len_bytes } => {
                let Some(bytes) = stream.payload(len_bytes) else { break };
                client.received(bytes)
            }
            Receive::Closed => {
                assert!(client.is_finished(), "an end in good order");
                break;
            }
            Receive::Wait | Receive::Tls => panic!("a client always reads, without TLS"),
        };
        if result.is_err() {
            assert_eq!(client.expects(), Receive::Closed, "a fault ends the connection");
            ask(&mut client, &mut lens);
            assert_eq!(lens.last(), Some(&u32::MAX), "nothing is sent after a fault");
            break;
        }
        while let Some(event) = client.poll_event() {
            match event {
                NbdClientEvent::Ready(_) => (0..4).for_each(|_| ask(&mut client, &mut lens)),
                NbdClientEvent::Zeros { token, offset_bytes, len_bytes } => {
                    assert!(offset_bytes + len_bytes <= lens[token as usize], "zeros inside of the buffer");
                }
                NbdClientEvent::Completed(completion) => {
                    ended += 1;
                    let bytes: u32 = completion.extents.iter().map(|extent| extent.len_bytes).sum();
                    assert!(bytes <= lens[completion.token as usize]);
                    if lens.len() as u64 >= REQUESTS_MAX {
                        client.disconnect();
                    } else {
                        ask(&mut client, &mut lens);
                    }
                }
            }
        }
    }
    let submitted = lens.iter().filter(|len| **len != u32::MAX).count();
    assert_eq!(client.open_tokens().count(), submitted - ended, "each request ends once or is open");
}

/// Submits the next of a fixed order of commands. `lens` keeps their lengths by token, `u32::MAX` for those not sent.
fn ask(client: &mut NbdClient, lens: &mut Vec<u32>) {
    let token = lens.len() as u64;
    let ops = [NbdOp::Read, NbdOp::BlockStatus, NbdOp::Write, NbdOp::Read, NbdOp::Flush];
    let op = ops[token as usize % ops.len()];
    let (offset_bytes, len_bytes) = if op == NbdOp::Flush { (0, 0) } else { (512 * (token % 4), 512) };
    let command = NbdCommand { op, flags: 0, offset_bytes, len_bytes };
    let is_sent = client.submit(token, command).is_ok();
    lens.push(if is_sent { len_bytes } else { u32::MAX });
}
