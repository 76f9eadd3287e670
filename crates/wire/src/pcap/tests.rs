//! Files of every kind, whole, in pieces and damaged.

use super::*;

/// Time, link layer, length and kept bytes of a packet.
#[derive(Clone, Debug, PartialEq)]
struct Kept(u64, u32, usize, Vec<u8>);

/// All items of a file that is decoded one byte more at a time, and the error at its end.
fn read(file: &[u8]) -> (Vec<Kept>, Option<Error>, u64) {
    let (mut decoder, mut at, mut packets) = (Decoder::new(), 0, Vec::new());
    let mut shown = 0;
    loop {
        match decoder.decode(&file[at..at + shown]) {
            Err(error) => return (packets, Some(error), decoder.dropped()),
            Ok(Found::More(needed)) => {
                assert!(needed > shown, "{needed} bytes are asked for where {shown} were shown");
                if at + shown == file.len() {
                    return (packets, None, decoder.dropped());
                }
                shown += 1;
            }
            Ok(Found::Other(len)) => (at, shown) = (at + len, 0),
            Ok(Found::Packet { len, packet }) => {
                packets.push(Kept(packet.t_ns, packet.link, packet.len, packet.bytes.to_vec()));
                (at, shown) = (at + len, 0);
            }
        }
    }
}

fn u32s(big: bool, values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() }).collect()
}

fn u16s(big: bool, values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() }).collect()
}

fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = body.len() as u32 + 12;
    [u32s(big, &[kind, len]), body, u32s(big, &[len])].concat()
}

fn section(big: bool) -> Vec<u8> {
    block(big, 0x0a0d_0d0a, &[u32s(big, &[0x1a2b_3c4d]), u16s(big, &[1, 0]), vec![0xff; 8]].concat())
}

fn interface(big: bool, link: u16, options: &[u8]) -> Vec<u8> {
    block(big, 1, &[u16s(big, &[link, 0]), u32s(big, &[96]), options.to_vec()].concat())
}

#[test]
fn pcap_in_both_orders_and_both_resolutions() {
    for (big, magic, fraction) in [
        (true, 0xa1b2_c3d4, 5_000),
        (false, 0xa1b2_c3d4, 5_000),
        (true, 0xa1b2_3c4d, 5),
        (false, 0xa1b2_3c4d, 5),
    ] {
        let header = u32s(big, &[magic, 0x0002_0004, 0, 0, 65_535, 0x1000_0071]);
        let packet = [u32s(big, &[7, 5, 3, 1500]), vec![1, 2, 3]].concat();
        let file = [header, packet.clone(), packet].concat();
        let expected = Kept(7_000_000_000 + fraction, 113, 1500, vec![1, 2, 3]);
        assert_eq!(read(&file), (vec![expected.clone(), expected], None, 0));
    }
}

#[test]
fn pcapng_with_interfaces_of_different_resolution_and_a_second_section() {
    let resolution = |big, code: u8| [u16s(big, &[9, 1]), vec![code, 0, 0, 0], u16s(big, &[0, 0])].concat();
    let enhanced = |big, number: u32, units: u64| {
        let head = u32s(big, &[number, (units >> 32) as u32, units as u32, 5, 60]);
        block(big, 6, &[head, vec![9; 5]].concat())
    };
    let drops = |big, n: u32| {
        let value = if big { u32s(big, &[0, n]) } else { u32s(big, &[n, 0]) };
        block(big, 5, &[u32s(big, &[0, 0, 0]), u16s(big, &[5, 8]), value].concat())
    };
    let mut file = Vec::new();
    for big in [true, false] {
        file.extend(section(big));
        file.extend(interface(big, 1, &[]));
        file.extend(interface(big, 276, &resolution(big, 9)));
        file.extend(interface(big, 101, &resolution(big, 0x80 | 20)));
        file.extend(block(big, 4, b"names"));
        file.extend(enhanced(big, 0, 3_000_001));
        file.extend(enhanced(big, 1, 5_000_000_007));
        file.extend(enhanced(big, 2, 3 << 19));
        file.extend(drops(big, 3));
        file.extend(drops(big, 4));
    }
    let once = [(3_000_001_000, 1), (5_000_000_007, 276), (1_500_000_000, 101)];
    let packets =
        once.into_iter().chain(once).map(|(t, link)| Kept(t, link, 60, vec![9; 5])).collect::<Vec<_>>();
    assert_eq!(read(&file), (packets, None, 8));
}

#[test]
fn packets_are_known_by_their_interface() {
    let named = |text: &str| {
        let mut option = [u16s(true, &[2, text.len() as u16]), text.as_bytes().to_vec()].concat();
        option.resize(option.len().next_multiple_of(4), 0);
        interface(true, 1, &option)
    };
    let packet = |number: u32| block(true, 6, &u32s(true, &[number, 0, 0, 0, 60]));
    let long = "x".repeat(100);
    let first = [section(true), named("near"), named("far\0"), interface(true, 1, &[])].concat();
    let packets = [packet(1), packet(2), packet(0)].concat();
    let second = [section(true), named(&long), packet(0)].concat();
    let (file, mut decoder, mut at) = ([first, packets, second].concat(), Decoder::new(), 0);
    let mut seen = Vec::new();
    while at < file.len() {
        at += match decoder.decode(&file[at..]).expect("a good file") {
            Found::More(needed) => panic!("{needed} bytes are asked for"),
            Found::Other(len) => len,
            Found::Packet { len, packet } => {
                seen.push((packet.interface, decoder.interface_name(packet.interface).to_owned()));
                len
            }
        };
    }
    let expected = [(1, "far"), (2, ""), (0, "near"), (0, &long[..64])];
    assert_eq!(seen, expected.map(|(number, name)| (number, name.to_owned())));
    assert_eq!(decoder.interface_name(7), "");
}

#[test]
fn simple_and_obsolete_packets() {
    let simple = block(true, 3, &[u32s(true, &[200]), vec![4; 96]].concat());
    let head = [u16s(true, &[0, 7]), u32s(true, &[0, 1_000_000, 2, 2])].concat();
    let obsolete = block(true, 2, &[head, vec![5; 2]].concat());
    let file = [section(true), interface(true, 1, &[]), simple, obsolete].concat();
    let expected = vec![Kept(0, 1, 200, vec![4; 96]), Kept(1_000_000_000, 1, 2, vec![5; 2])];
    assert_eq!(read(&file), (expected, None, 0));
}

#[test]
fn any_resolution_and_offset_gives_a_time() {
    for code in 0..=255 {
        let offset = [u16s(true, &[14, 8]), vec![0x7f; 8]].concat();
        let options = [u16s(true, &[9, 1]), vec![code, 0, 0, 0], offset].concat();
        let packet = block(true, 6, &u32s(true, &[0, u32::MAX, u32::MAX, 0, 0]));
        let file = [section(true), interface(true, 1, &options), packet].concat();
        assert_eq!(read(&file).0.len(), 1, "resolution {code}");
        let time = |offset_s: u64| {
            let offset = [u16s(true, &[14, 8]), offset_s.to_be_bytes().to_vec()].concat();
            let options = [u16s(true, &[9, 1]), vec![code, 0, 0, 0], offset].concat();
            let packet = block(true, 6, &u32s(true, &[0, 0, 12_345, 0, 0]));
            read(&[section(true), interface(true, 1, &options), packet].concat()).0[0].0
        };
        assert_eq!(time(1) - time(0), 1_000_000_000, "resolution {code}");
    }
}

#[test]
fn damage_is_named() {
    let error = |file: &[u8]| read(file).1.expect("damaged").to_string();
    assert_eq!(error(b"GIF89a"), "begins with 47494638, expected a pcap or pcapng file");
    let header = u32s(true, &[0xa1b2_c3d4, 0x0002_0004, 0, 0, 65_535, 1]);
    let long = [header, u32s(true, &[0, 0, u32::MAX, 0])].concat();
    assert_eq!(error(&long), "a packet of 4294967295 bytes, expected 0 to 16777216");
    let order = block(true, 0x0a0d_0d0a, &[0; 16]);
    assert!(error(&order).starts_with("a section begins with byte order 00000000"));
    let nobody = [section(true), block(true, 6, &[0; 20])].concat();
    assert_eq!(error(&nobody), "a packet of interface 0, 0 are described");
    let mut short = section(true);
    short[7] = 8;
    assert_eq!(error(&short), "a block of 8 bytes, expected 12 to 16777216");
    let outside = block(true, 6, &u32s(true, &[0, 0, 0, 9, 9]));
    let outside = [section(true), interface(true, 1, &[]), outside].concat();
    assert_eq!(error(&outside), "a packet in its block of 9 bytes, expected 0 to 0");
}
