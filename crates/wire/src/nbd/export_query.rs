//! Data of NBD_OPT_INFO and NBD_OPT_GO: NBD protocol, "Option types".

use super::{NbdFormatError, number, part, put_string};
use crate::be;

/// An export's name and the information requested of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportQuery<'a> {
    /// The name; empty for the default export.
    pub name: &'a [u8],
    infos: &'a [u8],
}

impl<'a> ExportQuery<'a> {
    /// Reads the data of the option.
    ///
    /// # Errors
    /// Another length than its contents have.
    pub fn parse(bytes: &'a [u8]) -> Result<ExportQuery<'a>, NbdFormatError> {
        let wrong = NbdFormatError::Length { message: "NBD_OPT_GO", found: bytes.len() };
        let len = number(bytes, 0).ok_or(wrong)? as usize;
        let name = part(bytes, 4, len).ok_or(wrong)?;
        let (count, infos) = bytes[4 + len..].split_at_checked(2).ok_or(wrong)?;
        if infos.len() != 2 * usize::from(be::u16_at(count, 0)) {
            return Err(wrong);
        }
        Ok(ExportQuery { name, infos })
    }

    /// Information requests, each one of [`info_type`](super::info_type).
    pub fn infos(&self) -> impl Iterator<Item = u16> + use<'a> {
        self.infos.as_chunks::<2>().0.iter().map(|bytes| u16::from_be_bytes(*bytes))
    }

    /// Appends the data of the option.
    ///
    /// # Panics
    /// If there are more than 65 535 requests.
    pub fn put(out: &mut Vec<u8>, name: &[u8], infos: &[u16]) {
        put_string(out, name);
        let count = u16::try_from(infos.len()).expect("fewer than 65 536 requests");
        out.extend_from_slice(&count.to_be_bytes());
        infos.iter().for_each(|info| out.extend_from_slice(&info.to_be_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_and_no_part_of_it_is_read() {
        let mut bytes = Vec::new();
        ExportQuery::put(&mut bytes, b"disk", &[3, 1]);
        assert_eq!(bytes, b"\0\0\0\x04disk\0\x02\0\x03\0\x01");
        let query = ExportQuery::parse(&bytes).expect("a query");
        assert_eq!((query.name, query.infos().collect::<Vec<_>>()), (&b"disk"[..], vec![3, 1]));
        for len in 0..bytes.len() {
            assert!(ExportQuery::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
        bytes[..4].fill(0xff);
        assert!(ExportQuery::parse(&bytes).is_err(), "a name of 4 GiB");
    }
}
