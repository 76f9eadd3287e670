//! The beginning of TLS, and ends of connections: soft disconnects, refusals, faults.

use proto::nbd::client::NbdClientEvent;
use proto::nbd::server::{NbdServerEvent, TlsPolicy};
use proto::nbd::{NbdCommand, NbdFault, NbdOp, NbdSubmitError, NbdViolation, Receive};
use wire::nbd::{NewstyleGreeting, SimpleReply, option_code, reply_type};

use crate::feed::{
    client, feed_client, feed_server, hex, negotiation, new_client, option, option_reply, replies, send,
    server,
};

/// NBD_OPT_ABORT without data.
const ABORT: &str = "49484156454f5054 00000002 00000000";
/// NBD_CMD_DISC.
const DISC: &str = "25609513 0000 0002 0000000000000000 0000000000000000 00000000";
const READ: NbdCommand = NbdCommand { op: NbdOp::Read, flags: 0, offset_bytes: 0, len_bytes: 512 };

#[test]
fn a_server_that_requires_tls() {
    let mut server = server(|config| config.tls = TlsPolicy::Required);
    for number in [option_code::LIST, option_code::STRUCTURED_REPLY, 77] {
        feed_server(&mut server, &option(number, b"")).expect("an option");
        assert_eq!(replies(&mut server), [reply_type::ERR_TLS_REQD]);
    }
    feed_server(&mut server, &option(option_code::STARTTLS, b"")).expect("an option");
    assert_eq!((replies(&mut server), server.expects()), (vec![reply_type::ACK], Receive::Tls));
    assert_eq!(server.poll_event(), Some(NbdServerEvent::StartTls));
    server.start_tls(0).expect("TLS");
    feed_server(&mut server, &option(option_code::LIST, b"")).expect("an option");
    assert_eq!(replies(&mut server).len(), 3);
    feed_server(&mut server, &option(option_code::STARTTLS, b"")).expect("an option");
    assert_eq!(replies(&mut server), [reply_type::ERR_INVALID], "TLS is in use");
}

#[test]
fn an_export_name_without_tls_ends_the_connection() {
    let mut server = server(|config| config.tls = TlsPolicy::Required);
    let fault = feed_server(&mut server, &option(option_code::EXPORT_NAME, b"disk"));
    assert_eq!(fault, Err(NbdViolation::NoTls.into()));
}

#[test]
fn tls_discards_the_state_before_it() {
    let mut server = server(|config| config.tls = TlsPolicy::Offered);
    feed_server(&mut server, &option(option_code::STRUCTURED_REPLY, b"")).expect("an option");
    feed_server(&mut server, &option(option_code::STARTTLS, b"")).expect("an option");
    assert_eq!((replies(&mut server).len(), server.is_structured()), (2, true));
    server.start_tls(0).expect("TLS");
    assert!(!server.is_structured());
}

/// Somebody on the path puts an option behind NBD_OPT_STARTTLS: it must not count as one that came under TLS.
#[test]
fn plaintext_behind_starttls_is_no_option() {
    let injected = option(option_code::STRUCTURED_REPLY, b"");
    let begin = || {
        let mut server = server(|config| config.tls = TlsPolicy::Required);
        let bytes = [option(option_code::STARTTLS, b""), injected.clone()].concat();
        feed_server(&mut server, &bytes).expect("the option that may come");
        assert_eq!(replies(&mut server), [reply_type::ACK], "the injected option is not answered");
        server
    };
    let mut server = begin();
    assert_eq!(server.start_tls(injected.len()), Err(NbdViolation::Plaintext { bytes: 16 }.into()));
    assert_eq!((server.expects(), server.is_structured()), (Receive::Closed, false));
    let mut server = begin();
    assert_eq!(server.handle(&injected), Err(NbdFault::Over), "before TLS");
    assert_eq!(server.expects(), Receive::Closed);
}

/// The client ends the connection behind each message of the server. NBD_OPT_ABORT follows in place of the next option,
/// and NBD_CMD_DISC behind the acceptance of NBD_OPT_GO.
#[test]
fn a_client_that_ends_its_negotiation() {
    let messages = negotiation(1, None);
    for ended in 0..messages.len() {
        let mut client = new_client();
        for message in &messages[..ended] {
            feed_client(&mut client, message).expect("a message");
            while client.poll_transmit().is_some() {}
        }
        client.disconnect();
        assert_eq!(client.poll_transmit(), None, "an option waits for its reply");
        assert!(!client.is_finished(), "after {ended} messages");
        assert_eq!(client.submit(1, READ), Err(NbdSubmitError::Closed));
        feed_client(&mut client, &messages[ended]).expect("the next message");
        assert_eq!(client.poll_event(), None, "the export is of no use");
        let flags = client.poll_transmit().expect("a message").header;
        let last = if ended == 0 { client.poll_transmit().expect("an option").header } else { flags };
        assert_eq!(
            last,
            hex(if ended + 1 < messages.len() { ABORT } else { DISC }),
            "after {ended} messages"
        );
        assert!(client.is_finished() && client.expects() == Receive::Closed);
    }
}

#[test]
fn a_client_leaves_a_server_without_options() {
    let mut client = new_client();
    client.disconnect();
    feed_client(&mut client, &NewstyleGreeting { flags: 0 }.to_bytes()).expect("a greeting");
    assert_eq!(client.poll_transmit(), None, "it knows no NBD_OPT_ABORT");
    assert!(client.is_finished());
}

#[test]
fn a_client_leaves_a_server_that_refuses() {
    let options = [option_code::STRUCTURED_REPLY, option_code::SET_META_CONTEXT, option_code::GO];
    for (step, number) in options.into_iter().enumerate() {
        for (reply, ends) in [
            (reply_type::ERR_SHUTDOWN, true),
            (reply_type::ERR_TLS_REQD, true),
            (reply_type::ERR_UNKNOWN, number == option_code::GO),
            (reply_type::ERR_UNSUP, false),
        ] {
            let mut client = new_client();
            for message in &negotiation(1, None)[..=step] {
                feed_client(&mut client, message).expect("a message");
                while client.poll_transmit().is_some() {}
            }
            let result = feed_client(&mut client, &option_reply(number, reply, b"no\n"));
            let next = client.poll_transmit().expect("an option").header;
            assert_eq!(next == hex(ABORT), ends, "option {number}, reply {reply:#x}");
            if ends {
                let text = "no\\n".to_owned();
                assert_eq!(result, Err(NbdFault::Refused { option: number, reply, text }));
                assert!(client.is_finished(), "NBD_OPT_ABORT needs no reply");
                assert_eq!(client.submit(1, READ), Err(NbdSubmitError::Closed));
            } else {
                assert_eq!((result, client.is_finished()), (Ok(()), false));
            }
        }
    }
}

#[test]
fn a_client_submits_between_ready_and_the_end() {
    let mut early = new_client();
    assert_eq!(early.submit(1, READ), Err(NbdSubmitError::NotReady));
    assert_eq!(early.poll_transmit(), None);

    let mut leaving = client(1, None);
    leaving.submit(1, READ).expect("a read");
    leaving.disconnect();
    leaving.disconnect();
    assert_eq!(leaving.submit(2, READ), Err(NbdSubmitError::Closed));
    leaving.poll_transmit().expect("the read");
    assert_eq!(leaving.poll_transmit().expect("the end").header, hex(DISC));
    assert_eq!((leaving.poll_transmit(), leaving.is_finished()), (None, false), "a read is not answered");
}

#[test]
fn nothing_is_sent_after_a_fault() {
    let mut client = client(1, None);
    send(&mut client, 1, NbdOp::Read, 0);
    client.submit(2, READ).expect("a read");
    let fault = feed_client(&mut client, &SimpleReply { error: 0, cookie: 1 }.to_bytes());
    assert_eq!(fault, Err(NbdViolation::SimpleReply.into()));
    assert_eq!(client.submit(3, READ), Err(NbdSubmitError::Closed));
    client.disconnect();
    assert_eq!((client.poll_transmit(), client.poll_event()), (None, None));
    assert_eq!(client.open_tokens().collect::<Vec<_>>(), [1, 2], "requests that are over");
    assert_eq!((client.expects(), client.is_finished()), (Receive::Closed, true));
    assert_eq!(client.handle(&[0; 16]), Err(NbdFault::Over));
}

#[test]
fn a_ready_client_says_so_once() {
    let mut client = new_client();
    for message in negotiation(1, None) {
        assert_eq!(client.poll_event(), None);
        feed_client(&mut client, &message).expect("a message");
    }
    assert!(matches!(client.poll_event(), Some(NbdClientEvent::Ready(_))));
    assert_eq!(client.poll_event(), None);
}
