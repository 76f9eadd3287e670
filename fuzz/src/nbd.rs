//! The targets `nbd_server` and `nbd_client`: one machine and the bytes of its peer.
//!
//! The first byte picks what the machine offers or wants; the rest is the peer's stream.

use std::sync::Arc;

use proto::nbd::client::{NbdClient, NbdClientConfig, NbdClientEvent};
use proto::nbd::server::{NbdExport, NbdServer, NbdServerConfig, NbdServerEvent, TlsPolicy};
use proto::nbd::{ExportFacts, NbdBlockSizes, NbdCommand, NbdOp, PAYLOAD_MAX_BYTES, Receive};
use wire::nbd::{StatusExtent, state_flag};

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

/// A client's bytes against a server that answers at once.
pub(crate) fn server(data: &[u8]) {
    let Some((pick, rest)) = data.split_first() else { return };
    let minimum = if pick & 1 != 0 { 512 } else { 1 };
    let facts = ExportFacts {
        size_bytes: DISK_BYTES,
        flags: if pick & 2 != 0 { 0x0003 } else { 0x0dec },
        blocks: NbdBlockSizes { minimum, preferred: 4096, maximum: PAYLOAD_MAX_BYTES },
    };
    let export =
        NbdExport { name: "disk".to_owned(), description: "a disk".to_owned(), facts, has_allocation: true };
    let tls = [TlsPolicy::Unsupported, TlsPolicy::Forbidden, TlsPolicy::Offered, TlsPolicy::Required];
    let config = NbdServerConfig {
        exports: vec![export],
        default_export: Some(0),
        tls: tls[usize::from(pick >> 2 & 3)],
        lists: pick & 16 == 0,
        requests_max: 8,
    };
    let mut server = NbdServer::new(Arc::new(config));
    let mut stream = Stream(rest);
    let mut open = Vec::new();
    loop {
        match server.expects() {
            Receive::Header { len_bytes } => {
                let Some(header) = stream.take(len_bytes) else { return };
                if server.handle(header).is_err() {
                    assert_eq!(server.expects(), Receive::Closed, "a fault ends the connection");
                    return;
                }
            }
            Receive::Payload { len_bytes, .. } | Receive::Discard { len_bytes } => {
                assert!(len_bytes <= PAYLOAD_MAX_BYTES);
                let Some(bytes) = stream.payload(len_bytes) else { return };
                server.received(bytes);
            }
            Receive::Closed => {
                assert!(server.is_finished(), "an end in good order");
                return;
            }
            Receive::Wait | Receive::Tls => panic!("everything is answered, sent and under TLS"),
        }
        while let Some(event) = server.poll_event() {
            match event {
                NbdServerEvent::StartTls => server.start_tls(),
                NbdServerEvent::Request { key, command } => {
                    let end = command.offset_bytes + u64::from(command.len_bytes);
                    assert!(end <= DISK_BYTES && command.offset_bytes.is_multiple_of(minimum.into()));
                    if command.op != NbdOp::Write {
                        open.push((key, command));
                    } else if command.len_bytes & 512 != 0 && pick & 32 != 0 {
                        server.fail(key, 5, None);
                    }
                }
                NbdServerEvent::Received { key } => server.complete(key),
                NbdServerEvent::Chosen { .. } | NbdServerEvent::Disconnected => {}
            }
        }
        while let Some((key, NbdCommand { op, len_bytes, flags, .. })) = open.pop() {
            match op {
                _ if pick & 64 != 0 => server.fail(key, 5, None),
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
        while server.poll_transmit().is_some() {}
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
