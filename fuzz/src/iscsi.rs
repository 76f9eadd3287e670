//! Targets for iSCSI headers and text.

use wire::iscsi::{Pdu, ahs, split_sense, text};

/// A header, then a data segment.
pub(crate) fn pdu(data: &[u8]) {
    let Some((header, segment)) = data.split_first_chunk() else { return };
    if let Ok((sense, rest)) = split_sense(segment) {
        assert!(sense.len() + rest.len() <= segment.len());
    }
    let Ok(pdu) = Pdu::parse(header) else { return };
    let mut emitted = [0xa5; 48];
    pdu.emit(&mut emitted);
    assert_eq!(Pdu::parse(&emitted), Ok(pdu));
    assert!(pdu.data_segment_len() < 1 << 24);
}

/// Additional header segments, at most as many bytes as TotalAHSLength counts.
pub(crate) fn ahs(data: &[u8]) {
    let data = &data[..data.len().min(1020)];
    let segments = ahs::segments(data).filter_map(Result::ok).collect::<Vec<_>>();
    let mut emitted = Vec::new();
    for segment in &segments {
        segment.emit(&mut emitted);
    }
    assert!(ahs::segments(&emitted).map(Result::ok).eq(segments.into_iter().map(Some)));
}

/// Key=value text, and each value as every kind of value.
pub(crate) fn login_text(data: &[u8]) {
    let pairs = text::pairs(data).filter_map(Result::ok).collect::<Vec<_>>();
    let mut emitted = Vec::new();
    let mut writer = text::TextWriter::new(&mut emitted);
    for (key, value) in &pairs {
        writer.push(key, value);
        check_value(value);
    }
    let again = text::pairs(&emitted).collect::<Result<Vec<_>, _>>();
    assert_eq!(again, Ok(pairs));
}

fn check_value(value: &str) {
    if let Ok(number) = text::number(value) {
        assert_eq!(text::number(&number.to_string()), Ok(number));
    }
    if let Ok(bytes) = text::binary(value) {
        assert_eq!(text::binary(&text::binary_text(&bytes)), Ok(bytes));
    }
    assert!(!(text::boolean(value).is_ok() && text::number(value).is_ok()));
    assert_eq!(text::list(value).map(|item| item.len() + 1).sum::<usize>(), value.len() + 1);
}
