//! Sentences about the packets of a capture: their order, copies, tunnels, and everything that is not TCP.

use dissect::{CaptureTotals, Dissection, PacketCount};

use crate::format::{duration, fixed};

/// Kinds of packets that are listed.
const LISTED: usize = 8;

/// Facts that limit nothing: tunnels, and packets that are not TCP.
pub(super) fn all(totals: &CaptureTotals) -> Vec<String> {
    let mut said = Vec::new();
    if !totals.tunnels.is_empty() {
        said.push(format!("TCP packets inside tunnels: {}", list(&totals.tunnels)));
    }
    if !totals.others.is_empty() {
        said.push(format!("packets that are not TCP: {}", list(&totals.others)));
    }
    said
}

/// Reason that a capture has no connection, beside the packets that are not TCP.
pub(super) fn nothing(capture: &Dissection) -> Option<String> {
    let totals = &capture.totals;
    match () {
        () if !capture.connections.is_empty() => None,
        () if totals.packets == 0 => Some("the file has no packet".to_owned()),
        () if totals.others.iter().any(|kind| kind.name.contains("encrypted")) => Some(
            "no TCP packet can be read, and some packets are encrypted: capture at a host, above the encryption".to_owned(),
        ),
        () if totals.tcp_packets == 0 => Some("no packet is a TCP packet that can be read".to_owned()),
        () => None,
    }
}

/// Packets out of the order of their stamps.
pub(super) fn disorder(totals: &CaptureTotals) -> Vec<String> {
    let order = &totals.order;
    let mut said = Vec::new();
    if order.late > 0 {
        said.push(format!(
            "{} packets stood behind later ones in the file, by {} places and {} at most, and were put in the order of their \
             stamps",
            count(order.late),
            count(order.most_places),
            duration(order.most_s)
        ));
    }
    if order.beyond > 0 {
        said.push(format!(
            "at {} packets the stamps go further back than packets are sorted, as where a clock was set: they stay in the \
             order of the file",
            count(order.beyond)
        ));
    }
    said
}

/// Copies of packets, and how they were made.
pub(super) fn copies(totals: &CaptureTotals) -> Vec<String> {
    let copies = &totals.copies;
    let mut said = Vec::new();
    if copies.packets > 0 {
        let causes = [
            (copies.identical, "the same in every byte, as two ports of a mirror make them"),
            (copies.other_link, "with another link layer or tag, as two devices of one host make them"),
            (copies.other_ttl, "with another TTL, from before and behind a router"),
            (copies.other_tunnel, "inside and outside of a tunnel"),
        ];
        let causes = causes.iter().filter(|(packets, _)| *packets > 0);
        let causes: Vec<String> =
            causes.map(|(packets, cause)| format!("{} {cause}", count(*packets))).collect();
        said.push(format!(
            "{} packets are copies of others within 1 ms and count once: {}",
            count(copies.packets),
            causes.join(", ")
        ));
    }
    if copies.other_interface > 0 {
        said.push(format!(
            "{} packets were seen at another interface within 1 ms: each interface is a tap of its own",
            count(copies.other_interface)
        ));
    }
    said
}

/// Connections of which one direction is in the capture.
pub(super) fn one_direction(capture: &Dissection) -> Option<String> {
    let one = capture.connections.iter().filter(|connection| connection.one_direction).count();
    (one > 0).then(|| {
        format!(
            "of {one} of {} connections only one direction is in the capture: a filter or a mirror port left the other one \
             out",
            capture.connections.len()
        )
    })
}

fn list(kinds: &[PacketCount]) -> String {
    let mut listed: Vec<String> =
        kinds.iter().take(LISTED).map(|kind| format!("{} {}", kind.name, count(kind.packets))).collect();
    let rest = kinds.iter().skip(LISTED).map(|kind| kind.packets).sum::<u64>();
    if rest > 0 {
        listed.push(format!("others {}", count(rest)));
    }
    listed.join(", ")
}

fn count(number: u64) -> String {
    fixed(number as f64, 0)
}

#[cfg(test)]
mod tests {
    use dissect::{CopyCounts, Dissector, OrderSummary};

    use super::*;

    #[test]
    fn a_capture_without_tcp_says_its_contents() {
        let mut capture = Dissector::new().finish(0, None, &mut ());
        assert_eq!(nothing(&capture).as_deref(), Some("the file has no packet"));
        capture.totals.packets = 5_000;
        assert_eq!(nothing(&capture).as_deref(), Some("no packet is a TCP packet that can be read"));
        let kind = |name: &str, packets| PacketCount { name: name.to_owned(), packets };
        capture.totals.others = vec![kind("ESP (encrypted)", 4_900), kind("ARP", 100)];
        assert!(nothing(&capture).is_some_and(|text| text.contains("above the encryption")));
        let said = all(&capture.totals).join("\n").replace('\u{202f}', " ");
        assert_eq!(said, "packets that are not TCP: ESP (encrypted) 4 900, ARP 100");
        capture.totals.others = (0..10).map(|n| kind("x", n)).collect();
        assert!(all(&capture.totals)[0].ends_with("others 17"));
    }

    #[test]
    fn disorder_and_copies_are_sentences() {
        let mut capture = Dissector::new().finish(0, None, &mut ());
        assert!(disorder(&capture.totals).is_empty() && copies(&capture.totals).is_empty());
        capture.totals.order = OrderSummary { late: 123, most_places: 5, most_s: 0.002, beyond: 1 };
        let said = disorder(&capture.totals);
        assert!(
            said[0].starts_with("123 packets stood behind later ones in the file, by 5 places and 2"),
            "{said:?}"
        );
        assert!(said[1].starts_with("at 1 packets"));
        capture.totals.copies = CopyCounts {
            packets: 692,
            identical: 690,
            other_ttl: 2,
            other_interface: 4,
            ..CopyCounts::default()
        };
        let said = copies(&capture.totals);
        assert!(
            said[0].contains("690 the same in every byte") && said[0].contains("2 with another TTL"),
            "{said:?}"
        );
        assert!(said[1].starts_with("4 packets were seen at another interface"));
    }
}
