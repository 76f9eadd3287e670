//! Options of a client and the answers of a server.

use proto::nbd::server::TlsPolicy;
use proto::nbd::{NbdFault, Receive};
use wire::nbd::{ExportQuery, MetaQuery, OptionRequest, option_code, reply_type};

use crate::feed::{feed_server, hex, option, replies, server, shown};

#[test]
fn options_and_their_answers() {
    let (mut go, mut bare) = (Vec::new(), Vec::new());
    ExportQuery::put(&mut go, b"nobody", &[3]);
    ExportQuery::put(&mut bare, b"disk", &[]);
    #[rustfmt::skip]
    let table: [(u32, &[u8], &[u32]); 12] = [
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
        (option_code::ABORT, b"bye", &[reply_type::ACK]),
    ];
    for (number, data, expected) in table {
        let mut server = server(|_| ());
        feed_server(&mut server, &option(number, data)).expect("an option");
        assert_eq!(replies(&mut server), expected, "option {number}");
    }
}

#[test]
fn a_list_names_each_export() {
    let mut listing = server(|_| ());
    feed_server(&mut listing, &option(option_code::LIST, b"")).expect("an option");
    // Magic, option, reply, length; length of the name, name, description.
    for expected in [
        "0003e889045565a9 00000003 00000002 0000000f 00000005 6f74686572 61206469736b",
        "0003e889045565a9 00000003 00000002 0000000e 00000004 6469736b 61206469736b",
        "0003e889045565a9 00000003 00000001 00000000",
    ] {
        assert_eq!(listing.poll_transmit().expect("a reply").header, hex(expected));
    }
    let mut silent = server(|config| config.lists = false);
    feed_server(&mut silent, &option(option_code::LIST, b"")).expect("an option");
    assert_eq!(replies(&mut silent), [reply_type::ERR_POLICY]);
}

/// Data of 9000 bytes, which are not read, get the answer that the option's rules give without them.
#[test]
fn options_that_are_too_long() {
    let long = vec![0; 9000];
    let answer = |tls, number| {
        let mut server = server(|config| config.tls = tls);
        feed_server(&mut server, &option(number, &long)).expect("an option");
        let answer = replies(&mut server);
        if number != option_code::ABORT {
            feed_server(&mut server, &option(77, b"")).expect("the next option");
            assert_eq!(replies(&mut server).len(), 1, "behind option {number}");
        }
        (answer, server.expects() == Receive::Closed)
    };
    for (tls, number, expected) in [
        (TlsPolicy::Unsupported, option_code::ABORT, reply_type::ACK),
        (TlsPolicy::Unsupported, option_code::LIST, reply_type::ERR_INVALID),
        (TlsPolicy::Unsupported, option_code::STARTTLS, reply_type::ERR_UNSUP),
        (TlsPolicy::Unsupported, option_code::INFO, reply_type::ERR_TOO_BIG),
        (TlsPolicy::Unsupported, option_code::GO, reply_type::ERR_TOO_BIG),
        (TlsPolicy::Unsupported, option_code::STRUCTURED_REPLY, reply_type::ERR_INVALID),
        // Structured replies come first, however long the query is.
        (TlsPolicy::Unsupported, option_code::SET_META_CONTEXT, reply_type::ERR_INVALID),
        (TlsPolicy::Unsupported, 77, reply_type::ERR_UNSUP),
        (TlsPolicy::Forbidden, option_code::STARTTLS, reply_type::ERR_POLICY),
        (TlsPolicy::Offered, option_code::STARTTLS, reply_type::ERR_INVALID),
        (TlsPolicy::Required, option_code::STARTTLS, reply_type::ERR_INVALID),
        (TlsPolicy::Required, option_code::ABORT, reply_type::ACK),
        (TlsPolicy::Required, option_code::GO, reply_type::ERR_TLS_REQD),
        (TlsPolicy::Required, option_code::SET_META_CONTEXT, reply_type::ERR_TLS_REQD),
        (TlsPolicy::Required, 77, reply_type::ERR_TLS_REQD),
    ] {
        let is_abort = number == option_code::ABORT;
        assert_eq!(answer(tls, number), (vec![expected], is_abort), "{tls:?}, option {number}");
    }
}

#[test]
fn a_context_query_that_is_too_long_clears_the_contexts() {
    for (long, error) in [(true, Some(reply_type::ERR_TOO_BIG)), (false, None)] {
        let mut server = server(|_| ());
        let mut query = Vec::new();
        MetaQuery::put(&mut query, b"disk", &[b"base:allocation"]);
        let mut bytes = option(option_code::STRUCTURED_REPLY, b"");
        bytes.extend(option(option_code::SET_META_CONTEXT, &query));
        if long {
            bytes.extend(option(option_code::SET_META_CONTEXT, &[0; 9000]));
        }
        feed_server(&mut server, &bytes).expect("options");
        let mut expected = vec![reply_type::ACK, reply_type::META_CONTEXT, reply_type::ACK];
        expected.extend(error);
        assert_eq!(replies(&mut server), expected);
        feed_server(&mut server, &option(option_code::EXPORT_NAME, b"disk")).expect("an option");
        server.poll_transmit().expect("the export");
        server.poll_event().expect("the choice");
        feed_server(&mut server, &hex("25609513 0000 0007 0000000000000009 0000000000000000 00000200"))
            .expect("a block status");
        if long {
            // Magic, DONE, ERROR, cookie, length; EINVAL, no text.
            let refusal = hex("668e33ef 0001 8001 0000000000000009 00000006 00000016 0000");
            assert_eq!(server.poll_transmit().expect("a refusal").header, refusal);
        } else {
            shown(&mut server);
        }
    }
}

#[test]
fn the_length_of_options_is_bounded() {
    for (number, len_bytes, limit_bytes) in [
        (option_code::EXPORT_NAME, 4097, 4096),
        (option_code::GO, 65_537, 65_536),
        (option_code::ABORT, 1 << 20, 65_536),
        (option_code::SET_META_CONTEXT, u32::MAX, 65_536),
        (77, u32::MAX, 65_536),
    ] {
        let mut server = server(|_| ());
        let bytes = OptionRequest { option: number, len_bytes }.to_bytes();
        let expected = NbdFault::TooLong { what: "an option", found_bytes: len_bytes, limit_bytes };
        assert_eq!(feed_server(&mut server, &bytes), Err(expected), "option {number}");
        assert_eq!(server.expects(), Receive::Closed);
    }
}
