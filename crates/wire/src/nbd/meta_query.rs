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

    #[test]
    fn comes_back_and_no_part_of_it_is_read() {
        let mut bytes = Vec::new();
        MetaQuery::put(&mut bytes, b"d", &[b"base:allocation", b"", b"qemu:"]);
        let query = MetaQuery::parse(&bytes).expect("a query");
        assert_eq!(query.name, b"d");
        assert_eq!(query.queries().collect::<Vec<_>>(), [&b"base:allocation"[..], b"", b"qemu:"]);
        for len in 0..bytes.len() {
            assert!(MetaQuery::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
        // A number of queries that nobody sent ends at the end of the data.
        bytes[5..9].fill(0xff);
        assert!(MetaQuery::parse(&bytes).is_err());
    }
}
