//! Which parts of a transfer have been laid down.

/// Stretches of bytes, in the order in which they came.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spans(Vec<(u32, u32)>);

impl Spans {
    /// Adds a stretch.
    pub fn add(&mut self, offset_bytes: u32, len_bytes: u32) {
        if len_bytes == 0 {
            return;
        }
        let end = offset_bytes + len_bytes;
        match self.0.last_mut() {
            Some((_, last)) if *last == offset_bytes => *last = end,
            _ => self.0.push((offset_bytes, end)),
        }
    }

    /// Whether every byte from 0 to `len_bytes` came exactly once and no other did.
    pub fn is_exactly(&self, len_bytes: u32) -> bool {
        let mut spans = self.0.clone();
        spans.sort_unstable();
        let mut next = 0;
        for (from, to) in spans {
            if from != next {
                return false;
            }
            next = to;
        }
        next == len_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_once() {
        let check = |spans: &[(u32, u32)], len, exactly| {
            let mut placed = Spans::default();
            spans.iter().for_each(|&(offset, len)| placed.add(offset, len));
            assert_eq!(placed.is_exactly(len), exactly, "{spans:?} of {len}");
        };
        check(&[], 0, true);
        check(&[(0, 4), (4, 4)], 8, true);
        check(&[(4, 4), (0, 4)], 8, true);
        check(&[(0, 4), (5, 3)], 8, false);
        check(&[(0, 4), (3, 5)], 8, false);
        check(&[(0, 4), (0, 4)], 4, false);
        check(&[(0, 9)], 8, false);
    }
}
