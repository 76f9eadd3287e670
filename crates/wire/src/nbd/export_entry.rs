//! Data of NBD_REP_SERVER and NBD_REP_META_CONTEXT: NBD protocol, "Option reply types".

use super::{NbdFormatError, number, part, put_string};

/// NBD_REP_SERVER: an export in the answer to NBD_OPT_LIST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportEntry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// A text for a human, mostly empty.
    pub details: &'a [u8],
}

impl<'a> ExportEntry<'a> {
    /// Reads the data of the reply.
    ///
    /// # Errors
    /// A name longer than the data.
    pub fn parse(bytes: &'a [u8]) -> Result<ExportEntry<'a>, NbdFormatError> {
        let wrong = NbdFormatError::Length { message: "NBD_REP_SERVER", found: bytes.len() };
        let len = number(bytes, 0).ok_or(wrong)? as usize;
        let name = part(bytes, 4, len).ok_or(wrong)?;
        Ok(ExportEntry { name, details: &bytes[4 + len..] })
    }

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

    #[test]
    fn come_back() {
        let (mut bytes, entry) = (Vec::new(), ExportEntry { name: b"disk", details: b"of Ann" });
        entry.put(&mut bytes);
        assert_eq!(bytes, b"\0\0\0\x04diskof Ann");
        assert_eq!(ExportEntry::parse(&bytes), Ok(entry));
        for len in 0..8 {
            assert!(ExportEntry::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
        let (mut bytes, context) = (Vec::new(), MetaContext { id: 7, name: b"base:allocation" });
        context.put(&mut bytes);
        assert_eq!(MetaContext::parse(&bytes), Ok(context));
        assert!(MetaContext::parse(&bytes[..3]).is_err());
    }
}
