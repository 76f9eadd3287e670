//! Limits of a server's queues, in messages and in bytes.

use proto::nbd::Receive;
use proto::nbd::server::NbdServer;
use wire::nbd::{RequestHeader, StatusExtent, command, option_code};

use crate::feed::{feed_server, option, request, server, serving, shown};

const NEXT: Receive = Receive::Header { len_bytes: RequestHeader::LEN };

/// Takes requests until the server waits. Returns their number.
fn fill(server: &mut NbdServer, bytes: &[u8]) -> usize {
    let mut taken = 0;
    while server.expects() != Receive::Wait {
        feed_server(server, bytes).expect("a request");
        taken += 1;
        assert!(taken < 1000, "requests without a limit");
    }
    taken
}

#[test]
fn requests_are_bounded_in_number_and_bytes() {
    let len_bytes = 4096;
    let read = request(command::READ, 0, 1, 0, len_bytes);
    let mut write = request(command::WRITE, 0, 1, 0, len_bytes);
    write.resize(write.len() + len_bytes as usize, 0);
    let flush = request(command::FLUSH, 0, 1, 0, 0);
    for (name, bytes, queue_max_bytes, expected) in [
        ("reads by number", &read, 1 << 30, 10),
        ("reads by bytes", &read, 16_384, 4),
        ("reads by a part of one", &read, 16_385, 5),
        ("one read above the limit", &read, 1, 1),
        ("writes", &write, 16_384, 4),
        ("flushes by number", &flush, 1, 10),
    ] {
        let mut server = serving(|config| {
            (config.requests_max, config.queue_max_bytes) = (10, queue_max_bytes);
        });
        assert_eq!(fill(&mut server, bytes), expected, "{name}");
        assert_eq!(server.open_requests(), expected, "{name}");
    }
}

/// The data of a read are in use until the reply is sent, in one piece or in several.
#[test]
fn a_read_counts_until_it_is_sent() {
    for splits in [false, true] {
        let mut server = serving(|config| config.queue_max_bytes = 1024);
        assert_eq!(fill(&mut server, &request(command::READ, 0, 1, 0, 1024)), 1);
        let key = shown(&mut server);
        if splits {
            server.put_data(key, 0, 512);
            server.put_hole(key, 512, 512);
        }
        server.complete(key);
        while server.open_requests() == 0 && server.expects() == Receive::Wait {
            let transmit = server.poll_transmit().expect("a reply");
            assert_eq!(server.expects() == NEXT, transmit.releases == Some(key));
        }
        assert_eq!((server.expects(), server.poll_transmit()), (NEXT, None));
    }
}

#[test]
fn failed_and_refused_requests_leave_nothing_behind() {
    let mut server = serving(|config| config.queue_max_bytes = 2048);
    for round in 0..10 {
        feed_server(&mut server, &request(command::READ, 0, 1, 0, 1024)).expect("a read");
        let key = shown(&mut server);
        server.fail(key, proto::nbd::NbdError::Eio, None);
        feed_server(&mut server, &request(command::READ, 0, 1, 1, 1024)).expect("a read that is refused");
        while server.poll_transmit().is_some() {}
        assert_eq!(server.expects(), NEXT, "round {round}");
    }
}

/// A block status counts with its longest reply, then with the real one.
#[test]
fn block_statuses_count_with_their_replies() {
    let mut server = serving(|config| config.queue_max_bytes = 1000);
    let bytes = request(command::BLOCK_STATUS, 0, 1, 0, 512);
    assert_eq!(fill(&mut server, &bytes), 1, "512 extents of 8 bytes");
    let key = shown(&mut server);
    server.complete_status(key, &[StatusExtent { len_bytes: 512, flags: 0 }]);
    assert_eq!(server.expects(), NEXT, "a reply of 32 bytes");
    server.poll_transmit().expect("a reply");
    assert_eq!(fill(&mut server, &bytes), 1);
}

#[test]
fn replies_to_options_are_bounded() {
    let mut server = server(|config| config.queue_max_bytes = 200);
    let list = option(option_code::LIST, b"");
    // Two exports of 35 and 34 bytes, and an acknowledgement of 20.
    assert_eq!(fill(&mut server, &list), 3);
    while server.poll_transmit().is_some() {}
    assert_eq!(fill(&mut server, &list), 3);
}
