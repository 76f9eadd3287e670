//! PDUs as bytes on a connection and back: header, data segment, padding (RFC 7143 section 11.1).
//!
//! No digests and no additional header segments: neither session sends them.

use wire::iscsi::{BHS_LEN, Bhs, padding};

use crate::Sent;

/// Appends a PDU.
pub fn encode(pdu: &Sent, bytes: &mut impl Extend<u8>) {
    bytes.extend(pdu.header);
    bytes.extend(pdu.data.iter().copied());
    bytes.extend(std::iter::repeat_n(0, padding(pdu.data.len())));
}

/// Takes bytes as they arrive and gives whole PDUs.
#[derive(Debug, Default)]
pub struct Deframer {
    bytes: Vec<u8>,
    taken: usize,
}

impl Deframer {
    /// Takes bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next PDU that has arrived whole.
    pub fn pop(&mut self) -> Option<([u8; BHS_LEN], &[u8])> {
        let (header, rest) = self.bytes[self.taken..].split_first_chunk::<BHS_LEN>()?;
        let len = Bhs::new(header).data_segment_len();
        let total = len + padding(len);
        if rest.len() < total {
            return None;
        }
        self.taken += BHS_LEN + total;
        Some((*header, &rest[..len]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_pdus_come_out_however_the_bytes_arrive() {
        let sent = [0, 1, 4, 7].map(|len| {
            let mut header = [len as u8; BHS_LEN];
            header[5..8].copy_from_slice(&[0, 0, len as u8]);
            Sent { header, data: vec![9; len] }
        });
        let mut bytes = Vec::new();
        sent.iter().for_each(|pdu| encode(pdu, &mut bytes));
        for step in 1..bytes.len() {
            let (mut deframer, mut got) = (Deframer::default(), Vec::new());
            for part in bytes.chunks(step) {
                deframer.push(part);
                while let Some((header, data)) = deframer.pop() {
                    got.push(Sent { header, data: data.to_vec() });
                }
            }
            assert_eq!(got, sent, "in steps of {step}");
        }
    }
}
