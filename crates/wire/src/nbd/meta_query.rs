//! Data of NBD_OPT_LIST_META_CONTEXT and NBD_OPT_SET_META_CONTEXT: NBD protocol, "Option types".

use super::{NbdFormatError, number, part, put_string};

/// An export's name and queries for its metadata contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaQuery<'a> {
    /// The name; empty for the default export.
    pub name: &'a [u8],
    queries: &'a [u8],
}

impl<'a> MetaQuery<'a> {
    /// Reads the data of the option.
    ///
    /// # Errors
    /// Another length than its contents have.
    pub fn parse(bytes: &'a [u8]) -> Result<MetaQuery<'a>, NbdFormatError> {
        let wrong = NbdFormatError::Length { message: "NBD_OPT_SET_META_CONTEXT", found: bytes.len() };
        let len = number(bytes, 0).ok_or(wrong)? as usize;
        let name = part(bytes, 4, len).ok_or(wrong)?;
        let count = number(bytes, 4 + len).ok_or(wrong)?;
        let queries = &bytes[8 + len..];
        let mut rest = queries;
        for _ in 0..count {
            rest = split(rest).ok_or(wrong)?.1;
        }
        if !rest.is_empty() {
            return Err(wrong);
        }
        Ok(MetaQuery { name, queries })
    }

    /// The queries, in order: each a namespace, a colon and a leaf name.
    pub fn queries(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.queries;
        std::iter::from_fn(move || {
            let (query, behind) = split(rest)?;
            rest = behind;
            Some(query)
        })
    }

    /// Appends the data of the option.
    ///
    /// # Panics
    /// If there are more than 2^32 − 1 queries.
    pub fn put(out: &mut Vec<u8>, name: &[u8], queries: &[&[u8]]) {
        put_string(out, name);
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        out.extend_from_slice(&count.to_be_bytes());
        queries.iter().for_each(|query| put_string(out, query));
    }
}

/// The first string and the bytes behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = number(bytes, 0)? as usize;
    let query = part(bytes, 4, len)?;
    Some((query, &bytes[4 + len..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::bytes;

    /// Length of the name, name, number of queries, then length and text of each.
    const HEX: &str =
        "00000001 64 00000003 0000000f 626173653a616c6c6f636174696f6e 00000000 00000005 71656d753a";

    #[test]
    fn known_bytes() {
        let data = bytes(HEX);
        let queries = [&b"base:allocation"[..], b"", b"qemu:"];
        let query = MetaQuery::parse(&data).expect("a query");
        assert_eq!((query.name, query.queries().collect::<Vec<_>>()), (&b"d"[..], queries.to_vec()));
        let mut written = Vec::new();
        MetaQuery::put(&mut written, b"d", &queries);
        assert_eq!(written, data);
        let none = bytes("00000000 00000000");
        let query = MetaQuery::parse(&none).expect("the default export without queries");
        assert_eq!((query.name, query.queries().count()), (&b""[..], 0));
    }

    #[test]
    fn other_lengths_are_refused() {
        let data = bytes(HEX);
        for len in 0..data.len() {
            assert!(MetaQuery::parse(&data[..len]).is_err(), "{len} bytes");
        }
        for (name, at, number) in [
            ("a name of 4 GiB", 0, u32::MAX),
            ("2^32 - 1 queries", 5, u32::MAX),
            ("a query less", 5, 2),
            ("a query more", 5, 4),
            ("a query of 4 GiB", 9, u32::MAX),
        ] {
            let mut disturbed = data.clone();
            disturbed[at..at + 4].copy_from_slice(&number.to_be_bytes());
            assert!(MetaQuery::parse(&disturbed).is_err(), "{name}");
        }
    }
}
