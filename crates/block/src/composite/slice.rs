//! Slices of an operation.

use super::action::ByteRange;

/// The slice of a span that begins after `done_bytes`, and its part of the pattern: a pattern is either one block or as
/// long as the span, and blocks divide a slice, or slices divide a block.
pub(super) fn slice(span: ByteRange, pattern: &[u8], done_bytes: u64, len_bytes: u64) -> (ByteRange, &[u8]) {
    let pattern = match pattern.len() as u64 > len_bytes {
        true => &pattern[(done_bytes % pattern.len() as u64) as usize..][..len_bytes as usize],
        false => pattern,
    };
    (ByteRange { offset_bytes: span.offset_bytes + done_bytes, len_bytes }, pattern)
}

/// The slice of an UNMAP that begins after `skip_bytes`: `most_bytes` at most. It ends where a span ends, or at a multiple
/// of `most_bytes`, since a file system frees no block of which it is given a part at a time.
pub(super) fn slice_of_many(spans: &[ByteRange], mut skip_bytes: u64, most_bytes: u64) -> Vec<ByteRange> {
    let (mut slice, mut done_bytes) = (Vec::new(), 0);
    for span in spans {
        let skipped = skip_bytes.min(span.len_bytes);
        skip_bytes -= skipped;
        let (offset_bytes, left_bytes) = (span.offset_bytes + skipped, span.len_bytes - skipped);
        let mut len_bytes = left_bytes.min(most_bytes - done_bytes);
        if len_bytes < left_bytes {
            let end_bytes = offset_bytes + len_bytes;
            len_bytes = (end_bytes - end_bytes % most_bytes).saturating_sub(offset_bytes);
        }
        if len_bytes > 0 {
            slice.push(ByteRange { offset_bytes, len_bytes });
            done_bytes += len_bytes;
        }
        if len_bytes < left_bytes {
            break;
        }
    }
    slice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_an_unmap_end_at_boundaries_of_the_lun() {
        let span = |(from, to)| ByteRange { offset_bytes: from, len_bytes: to - from };
        let spans = [(30, 320), (400, 405), (1000, 1100), (1290, 1310)].map(span);
        let mut done_bytes = 0;
        for expected in [
            &[(30, 100)][..],
            &[(100, 200)],
            &[(200, 300)],
            &[(300, 320), (400, 405)],
            &[(1000, 1100)],
            &[(1290, 1310)],
            &[],
        ] {
            let slice = slice_of_many(&spans, done_bytes, 100);
            assert_eq!(slice, expected.iter().copied().map(span).collect::<Vec<_>>(), "after {done_bytes}");
            done_bytes += slice.iter().map(|span| span.len_bytes).sum::<u64>();
        }
    }
}
