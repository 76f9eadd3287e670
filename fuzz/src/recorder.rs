//! What a host says to `farlun recorder`, and the recorder to it: any bytes are messages, or the end of a connection.

use capture::message::{HEAD_BYTES, Message, check_header, check_records, head};

/// Reads messages one behind the other; what was read is the same when it is written and read again.
pub(crate) fn recorder(data: &[u8]) {
    let (mut rest, mut interfaces) = (data, 0);
    while let Some((front, behind)) = rest.split_first_chunk::<HEAD_BYTES>() {
        let Ok((kind, len)) = head(*front) else { return };
        let Some((body, behind)) = behind.split_at_checked(len) else { return };
        let Ok(message) = Message::parse(kind, body) else { return };
        let mut again = Vec::new();
        message.emit(&mut again);
        match message {
            Message::Hello { header, .. } => {
                again.extend(header);
                let Ok(described) = check_header(header) else { return };
                interfaces = described;
            }
            Message::Records { packets, blocks, .. } => {
                again.extend(blocks);
                if check_records(blocks, packets, interfaces).is_ok() {
                    readable(blocks, interfaces, packets);
                }
            }
            _ => {}
        }
        if !matches!(message, Message::Refused { .. }) {
            assert_eq!(again, rest[..HEAD_BYTES + len]);
        }
        rest = behind;
    }
}

/// What was found sound is what a reader of files finds behind a header of so many interfaces.
fn readable(blocks: &[u8], interfaces: usize, packets: u32) {
    use wire::pcap::{Decoder, Found, write};
    let mut file = Vec::new();
    write::section(&mut file, &write::Section::default());
    for _ in 0..interfaces {
        let about = write::Interface { name: "", description: "", link: 1, snap_bytes: 0, filter: "" };
        write::interface(&mut file, &about);
    }
    file.extend(blocks);
    let (mut decoder, mut at, mut found) = (Decoder::new(), 0, 0);
    while at < file.len() {
        at += match decoder.decode(&file[at..]).expect("sound blocks") {
            Found::More(needed) => panic!("{needed} bytes more than there are"),
            Found::Other(len) => len,
            Found::Packet { len, .. } => {
                found += 1;
                len
            }
        };
    }
    assert_eq!(found, packets);
}
