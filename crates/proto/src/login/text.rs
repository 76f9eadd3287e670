//! Text in and out of login PDUs: pairs joined over several PDUs by the C bit, within limits
//! (RFC 7143 sections 6.1, 6.2, 11.12.2).

use wire::iscsi::text::{TextWriter, pairs};

use super::{KEYS_PER_TEXT, SEGMENT_BYTES, TEXT_BYTES, Violation};

/// One `key=value`.
pub(super) type Pair = (String, String);

/// Collects the text of the peer until the C bit is off.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    pub(super) fn push(&mut self, segment: &[u8]) -> Result<(), Violation> {
        let found = self.bytes.len() + segment.len();
        if found > TEXT_BYTES {
            return Err(Violation::TextBytes { found });
        }
        self.bytes.extend_from_slice(segment);
        Ok(())
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The pairs of all collected text; the inbox is empty afterwards.
    pub(super) fn take(&mut self) -> Result<Vec<Pair>, Violation> {
        let bytes = core::mem::take(&mut self.bytes);
        let mut found = Vec::new();
        for pair in pairs(&bytes) {
            let (key, value) = pair?;
            if found.len() == KEYS_PER_TEXT {
                return Err(Violation::Keys);
            }
            found.push((key.to_owned(), value.to_owned()));
        }
        Ok(found)
    }
}

/// Text to send, cut to the segments of login PDUs.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Appends a pair. A NUL in a configured name would end the value early: it is left out, and the peer will not know
    /// the name.
    pub(super) fn push(&mut self, key: &str, value: &str) {
        TextWriter::new(&mut self.bytes).push(key, &value.replace('\0', ""));
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns true while text waits to be sent.
    pub(super) fn is_pending(&self) -> bool {
        self.sent < self.bytes.len()
    }

    /// The next segment, and true if more follow it (the C bit).
    pub(super) fn segment(&mut self) -> (Vec<u8>, bool) {
        let end = self.bytes.len().min(self.sent + SEGMENT_BYTES);
        let segment = self.bytes[self.sent..end].to_vec();
        self.sent = end;
        let is_continued = self.is_pending();
        if !is_continued {
            *self = Outbox::default();
        }
        (segment, is_continued)
    }
}

/// Removes the pair of this key from `pairs`; a second one is a violation.
pub(super) fn take_key(pairs: &mut Vec<Pair>, key: &'static str) -> Result<Option<String>, Violation> {
    let Some(index) = pairs.iter().position(|(name, _)| name == key) else { return Ok(None) };
    let (_, value) = pairs.remove(index);
    if pairs.iter().any(|(name, _)| name == key) { Err(Violation::Twice(key)) } else { Ok(Some(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_may_span_segments_in_both_directions() {
        let mut out = Outbox::default();
        let value = "v".repeat(10_000);
        out.push("Key", &value);
        out.push("Last", "1");
        let mut inbox = Inbox::default();
        let (first, more) = out.segment();
        assert!(more && first.len() == SEGMENT_BYTES);
        inbox.push(&first).unwrap();
        let (second, more) = out.segment();
        assert!(!more && !out.is_pending());
        inbox.push(&second).unwrap();
        assert_eq!(inbox.take().unwrap(), [("Key".to_owned(), value), ("Last".to_owned(), "1".to_owned())]);
        assert_eq!(inbox.take().unwrap(), []);
    }

    #[test]
    fn limits_hold() {
        let mut inbox = Inbox::default();
        for _ in 0..8 {
            inbox.push(&[b'a'; SEGMENT_BYTES]).unwrap();
        }
        assert_eq!(inbox.push(b"a"), Err(Violation::TextBytes { found: TEXT_BYTES + 1 }));

        let mut inbox = Inbox::default();
        inbox.push(&b"K=v\0".repeat(KEYS_PER_TEXT + 1)).unwrap();
        assert_eq!(inbox.take(), Err(Violation::Keys));
    }
}
