//! Connections over loopback.

use std::net::TcpListener;
use std::time::Duration;

use wire::iscsi::BHS_LEN;

use super::*;
use crate::pdu::tx::Outgoing;

/// A PDU to send.
struct Block(Option<Vec<u8>>);

impl Sender for Block {
    type Data = Vec<u8>;

    fn next(&mut self) -> Option<Outgoing<Vec<u8>>> {
        let data = Some(self.0.take()?);
        Some(Outgoing { header: [0; BHS_LEN], data, is_payload: true, mark: None, is_alone: false })
    }

    fn bytes<'a>(&'a self, data: &'a Vec<u8>) -> &'a [u8] {
        data
    }
}

/// A connection with a token, its set, and the listener that it is connected to.
fn connected(token: u64) -> (Connection<(), Vec<u8>>, Poll, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let poll = Poll::new().unwrap();
    (Connection::new(stream, &poll, token, Course::default()).unwrap(), poll, listener)
}

#[test]
fn nothing_of_a_burst_goes_out_before_its_turn() {
    const BYTES: usize = 120_000;
    const BYTES_PER_S: u64 = 1 << 30;
    let (mut connection, poll, _listener) = connected(1);
    assert_eq!(connection.next_burst(BYTES as u64), None, "it is not spaced");
    connection.bucket.set(Some(BYTES_PER_S), 96 << 10, 1);
    let expected = Burst { bytes: BYTES as u64, bytes_per_s: BYTES_PER_S };
    assert_eq!(connection.next_burst(BYTES as u64), Some(expected));
    assert_eq!(connection.next_burst(64 << 10), None, "too short to be one");

    let at = clock::now() + Duration::from_secs(3600);
    connection.burst = Some((BurstStart { at, least_bytes_per_s: 0, keeps_others: false }, BYTES as u64));
    assert_eq!(connection.next_burst(BYTES as u64), None, "it waits for its time");
    let mut block = Block(Some(vec![7; BYTES]));
    let progress = connection.send(&poll, &mut block, 0).unwrap();
    assert_eq!((progress, connection.resume_at()), (Progress::Waits, Some(at)));
    assert_eq!(connection.sent_payload_bytes(), 0);

    let at = clock::now();
    connection.burst = Some((BurstStart { at, least_bytes_per_s: 0, keeps_others: false }, BYTES as u64));
    while connection.has_unsent() {
        connection.send(&poll, &mut block, 0).unwrap();
    }
    assert_eq!(connection.sent_payload_bytes(), BYTES as u64);
    assert!(connection.burst.is_none(), "it has ended");
}

#[test]
fn the_row_of_a_login_names_its_connection_and_what_its_socket_is_set_to() {
    let agreed = Login {
        t: Instant::ZERO,
        host: Host::Near,
        session: 0x1_0000_0002,
        cid: 3,
        connection: 0,
        immediate_data: true,
        initial_r2t: false,
        first_burst_bytes: 262_144,
        max_burst_bytes: 1 << 24,
        max_outstanding_r2t: 1,
        near_segment_bytes: 8192,
        far_segment_bytes: 65_536,
        caller_depth: 4,
        queue_limit: 128,
        has_nagle: false,
        send_buffer_max_bytes: 0,
        receive_buffer_max_bytes: 0,
    };
    let t = Instant::from_nanos(5);
    for (token, has_nagle) in [(7, false), (8, true)] {
        let (connection, _poll, _listener) = connected(token);
        connection.stream.set_nodelay(!has_nagle).unwrap();
        let row = connection.login(t, agreed).unwrap();
        let (receive, send) = (row.receive_buffer_max_bytes, row.send_buffer_max_bytes);
        assert!(receive > 0 && send > 0, "{row:?}");
        let connection = token as u32;
        let expected = Login {
            t,
            connection,
            has_nagle,
            send_buffer_max_bytes: send,
            receive_buffer_max_bytes: receive,
            ..agreed
        };
        assert_eq!(row, expected);
    }
}
