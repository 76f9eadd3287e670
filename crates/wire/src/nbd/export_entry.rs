//! Data of NBD_REP_SERVER and NBD_REP_META_CONTEXT: NBD protocol, "Option reply types".

use super::{NbdFormatError, number, put_string};

/// NBD_REP_SERVER: an export in the answer to NBD_OPT_LIST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportEntry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// A text for a human, mostly empty.
    pub details: &'a [u8],
}

impl ExportEntry<'_> {
    /// Appends the data of the reply.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_string(out, self.name);
        out.extend_from_slice(self.details);
    }
}

/// NBD_REP_META_CONTEXT: a metadata context that was selected, or that can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaContext<'a> {
    /// The server's number of it.
    pub id: u32,
    /// Its name.
    pub name: &'a [u8],
}

impl<'a> MetaContext<'a> {
    /// Reads the data of the reply.
    ///
    /// # Errors
    /// Less than a number.
    pub fn parse(bytes: &'a [u8]) -> Result<MetaContext<'a>, NbdFormatError> {
        let wrong = NbdFormatError::Length { message: "NBD_REP_META_CONTEXT", found: bytes.len() };
        Ok(MetaContext { id: number(bytes, 0).ok_or(wrong)?, name: &bytes[4..] })
    }

    /// Appends the data of the reply.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::bytes;

    #[test]
    fn known_bytes() {
        // Length of the name, name, text.
        let mut written = Vec::new();
        ExportEntry { name: b"disk", details: b"of Ann" }.put(&mut written);
        assert_eq!(written, bytes("00000004 6469736b 6f6620416e6e"));
        // Number of the context, name.
        let data = bytes("00000007 626173653a616c6c6f636174696f6e");
        let context = MetaContext { id: 7, name: b"base:allocation" };
        assert_eq!(MetaContext::parse(&data), Ok(context));
        let mut written = Vec::new();
        context.put(&mut written);
        assert_eq!(written, data);
        for len in 0..4 {
            let error = NbdFormatError::Length { message: "NBD_REP_META_CONTEXT", found: len };
            assert_eq!(MetaContext::parse(&data[..len]), Err(error));
        }
    }
}
