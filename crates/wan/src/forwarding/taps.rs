//! Capture taps at the ends of the path: at the sending end when packets arrive, at the receiving one when they are
//! delivered. Segments of super-packets are shown one by one, with headers of their own.

use std::fmt;
use std::ops::Range;

use event::{Host, Instant, Sink, Tapped};
use link::Cutter;
use net::tun::{Cut, HEADER_BYTES};
use wire::inet::Headers;

use crate::buffers::payload_of;

/// Sink for the packets of both ends.
pub struct Taps(Box<dyn for<'a> Sink<Tapped<'a>> + Send>);

impl Taps {
    /// Shows everything to `sink`.
    pub fn new(sink: impl for<'a> Sink<Tapped<'a>> + Send + 'static) -> Taps {
        Taps(Box::new(sink))
    }

    /// Shows a packet that arrived, from its IP header on, in the segments of `cutter` if there is one.
    pub(crate) fn came(&mut self, t: Instant, host: Host, ip: &[u8], cutter: Option<&Cutter>) {
        let Some(cutter) = cutter else { return self.whole(t, host, ip) };
        for piece in 0..cutter.pieces() {
            let headers = cutter.headers(ip, piece..piece + 1);
            let payload = &ip[cutter.payload(piece..piece + 1)];
            self.0.record(&Tapped { t, host, headers: headers.bytes(), payload });
        }
    }

    /// Shows a packet that was delivered, with the device's header, or only `pieces` of it.
    pub(crate) fn went(&mut self, t: Instant, host: Host, packet: &[u8], pieces: Option<Range<u16>>) {
        let ip = &packet[HEADER_BYTES..];
        let cutter = pieces.as_ref().and_then(|_| Cutter::new(ip, Cut::of(packet).payload_bytes as usize));
        let (Some(cutter), Some(pieces)) = (cutter, pieces) else { return self.whole(t, host, ip) };
        for piece in pieces {
            let headers = cutter.headers(ip, piece..piece + 1);
            let payload = payload_of(packet, &cutter, piece..piece + 1);
            self.0.record(&Tapped { t, host, headers: headers.bytes(), payload });
        }
    }

    /// Forwards an idle moment to the sink.
    pub(crate) fn idle(&mut self, now: Instant) {
        self.0.idle(now);
    }

    fn whole(&mut self, t: Instant, host: Host, ip: &[u8]) {
        // A packet that cannot be parsed is all payload: a sink that keeps only headers then marks it as truncated.
        let headers_len =
            Headers::parse(ip).map_or(0, |found| found.ip_header_len + found.transport_header_len);
        let (headers, payload) = ip.split_at(headers_len);
        self.0.record(&Tapped { t, host, headers, payload });
    }
}

impl fmt::Debug for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taps")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::forwarding::headers::{super_packet, tcp_of};

    struct HeaderLens(Arc<Mutex<Vec<usize>>>);

    impl Sink<Tapped<'_>> for HeaderLens {
        fn record(&mut self, packet: &Tapped<'_>) {
            self.0.lock().unwrap().push(packet.headers.len());
        }
    }

    #[test]
    fn what_is_not_understood_is_payload() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut taps = Taps::new(HeaderLens(seen.clone()));
        taps.came(Instant::ZERO, Host::Near, &super_packet(3000)[HEADER_BYTES..], None);
        taps.came(Instant::ZERO, Host::Near, &[0xff; 1400], None);
        assert_eq!(*seen.lock().unwrap(), [52, 0]);
    }

    struct Seen(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Sink<Tapped<'_>> for Seen {
        fn record(&mut self, packet: &Tapped<'_>) {
            self.0.lock().unwrap().push([packet.headers, packet.payload].concat());
        }
    }

    #[test]
    fn both_ends_see_the_same_pieces() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut taps = Taps::new(Seen(seen.clone()));
        let packet = super_packet(3000);
        let ip = &packet[HEADER_BYTES..];
        let cutter = Cutter::new(ip, 1448).expect("a super-packet");
        taps.came(Instant::ZERO, Host::Near, ip, Some(&cutter));
        taps.went(Instant::ZERO, Host::Far, &packet, Some(0..1));
        taps.went(Instant::ZERO, Host::Far, &packet, Some(1..3));
        taps.came(Instant::ZERO, Host::Near, ip, None);
        taps.went(Instant::ZERO, Host::Far, &packet, None);
        let seen = seen.lock().unwrap();
        assert_eq!(
            seen.iter().map(Vec::len).collect::<Vec<_>>(),
            [1500, 1500, 156, 1500, 1500, 156, 3052, 3052]
        );
        assert!(seen[..3] == seen[3..6] && seen[6] == seen[7]);
        let tcp = tcp_of(&[&[0; HEADER_BYTES][..], &seen[1]].concat(), None).expect("a segment");
        assert_eq!((tcp.seq, tcp.payload_bytes), (u32::MAX - 552, 1448));
    }
}
