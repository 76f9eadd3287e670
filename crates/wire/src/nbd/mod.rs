//! NBD messages: the NBD protocol text (`doc/proto.md` of the NBD project), one file per format.
//!
//! Fixed newstyle negotiation, compact requests, simple replies and structured reply chunks. Extended headers are not
//! known. Fixed headers are read from and written to arrays; data of options and replies are views over a slice whose
//! accessors cannot panic after `parse`. Nothing here splits a byte stream or bounds a length.

mod chunk;
mod error;
mod export_entry;
mod export_query;
mod field;
mod handshake;
mod info;
mod meta_query;
mod option;
mod request;
mod simple_reply;

pub mod code;

pub use chunk::{ChunkHeader, ErrorChunk, HoleChunk, StatusExtent, StatusExtents};
pub use code::{
    chunk_flag, chunk_type, client_flag, command, command_flag, error_number, handshake_flag, info_type,
    option as option_code, reply_type, state_flag, transmission_flag,
};
pub use error::NbdFormatError;
pub use export_entry::{ExportEntry, MetaContext};
pub use export_query::ExportQuery;
pub use handshake::{ClientFlags, ExportNameReply, NewstyleGreeting};
pub use info::Info;
pub use meta_query::MetaQuery;
pub use option::{OptionReplyHeader, OptionRequest};
pub use request::RequestHeader;
pub use simple_reply::SimpleReply;

/// Longest string of the protocol in bytes: export names, descriptions, queries and error texts.
pub const STRING_MAX: usize = 4096;
/// The metadata context of allocation, whose flags are [`state_flag`].
pub const BASE_ALLOCATION: &str = "base:allocation";

/// The part of a slice with this offset and length, if there is so much.
fn part(bytes: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(len)?)
}

/// The big-endian number at this offset, if there is one.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    part(bytes, at, 4).map(|bytes| crate::be::u32_at(bytes, 0))
}

/// Appends a string behind its length.
///
/// # Panics
/// If the string is longer than 4 GiB.
fn put_string(out: &mut Vec<u8>, string: &[u8]) {
    let len = u32::try_from(string.len()).expect("a string shorter than 4 GiB");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(string);
}
