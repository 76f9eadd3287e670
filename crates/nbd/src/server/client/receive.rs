//! Reading a connection: one read fills the scratch buffer with many messages; the rest of long data is read into its
//! place, and the bytes behind it into the scratch buffer by the same system call.

use std::io::{self, IoSliceMut};

use event::Instant;
use proto::nbd::Receive;

use super::super::end::EndReason;
use super::super::shared::Shared;
use super::super::turn::TurnLimit;
use super::{Client, Received};

/// Data with at least this much missing are read straight into their place.
const DIRECT_BYTES: usize = 16 << 10;
/// Bytes read behind such data: enough for many headers, too few for copying much of the next data.
const AFTER_DIRECT_BYTES: usize = 4 << 10;

impl Client {
    /// Takes messages until the socket is drained, the connection has to wait, or the turn is over.
    pub(super) fn receive(
        &mut self,
        shared: &mut Shared,
        limit: &mut TurnLimit,
        now: Instant,
    ) -> Result<Received, EndReason> {
        let mut scratch = std::mem::take(&mut shared.scratch);
        let received = self.receive_into(&mut scratch, shared, limit, now);
        shared.scratch = scratch;
        received
    }

    fn receive_into(
        &mut self,
        scratch: &mut [u8],
        shared: &mut Shared,
        limit: &mut TurnLimit,
        now: Instant,
    ) -> Result<Received, EndReason> {
        // Begin of the scratch buffer that holds bytes, of a partial header.
        let mut filled = 0;
        if !self.kept.is_empty() {
            let kept = std::mem::take(&mut self.kept);
            let (taken, received) = self.take(&kept, shared, limit, now)?;
            let rest = &kept[taken..];
            if received != Received::Drained {
                self.kept = rest.to_vec();
                return Ok(received);
            }
            scratch[..rest.len()].copy_from_slice(rest);
            filled = rest.len();
        }
        loop {
            let may_read = self.is_reading() && self.flags.may_read;
            if !may_read || limit.is_over() {
                self.kept = scratch[..filled].to_vec();
                return Ok(match may_read {
                    true => Received::Limited,
                    false if self.is_reading() => Received::Drained,
                    false => Received::Blocked,
                });
            }
            let (count, placed) = match self.read(scratch, filled, limit.receive_bytes, shared) {
                Ok((0, _)) => return Err(EndReason::Closed),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.flags.may_read = false;
                    continue;
                }
                Err(error) => return Err(self.lost(error)),
            };
            self.moved_at = now;
            limit.receive_bytes = limit.receive_bytes.saturating_sub(count);
            if placed > 0 {
                self.machine.received(placed as u32);
                self.after(shared, limit, now);
            }
            let end = filled + count - placed;
            let (taken, received) = self.take(&scratch[..end], shared, limit, now)?;
            if received != Received::Drained {
                self.kept = scratch[taken..end].to_vec();
                return Ok(received);
            }
            scratch.copy_within(taken..end, 0);
            filled = end - taken;
        }
    }

    /// Reads once behind `filled` bytes of the scratch buffer. Returns the bytes read, and those of them that went to the
    /// place of the data that are expected.
    fn read(
        &mut self,
        scratch: &mut [u8],
        filled: usize,
        most_bytes: usize,
        shared: &mut Shared,
    ) -> io::Result<(usize, usize)> {
        let (count, asked, placed) = match self.machine.expects() {
            Receive::Payload { token, offset_bytes, len_bytes } if len_bytes as usize >= DIRECT_BYTES => {
                let len = (len_bytes as usize).min(most_bytes.max(DIRECT_BYTES));
                // Bytes behind a part of the data are data.
                let after = if len == len_bytes as usize { AFTER_DIRECT_BYTES } else { 0 };
                let (asked, after) = (len + after, &mut scratch[..after]);
                let (stream, requests) = (&self.link.stream, &mut self.requests);
                let pending = requests.get_mut(&token).expect("a request whose data are expected");
                let into = pending.space(&mut shared.device, offset_bytes, len);
                let count = stream.read_vectored(&mut [IoSliceMut::new(into), IoSliceMut::new(after)])?;
                (count, asked, count.min(len))
            }
            _ => {
                let into = &mut scratch[filled..];
                let asked = into.len();
                (self.link.stream.read(into)?, asked, 0)
            }
        };
        // The socket had no more: the next read would bring nothing.
        self.flags.may_read = count == asked;
        Ok((count, placed))
    }

    /// Takes messages from received bytes. Returns the bytes taken; the rest is a part of a header, if more bytes are
    /// needed.
    fn take(
        &mut self,
        bytes: &[u8],
        shared: &mut Shared,
        limit: &mut TurnLimit,
        now: Instant,
    ) -> Result<(usize, Received), EndReason> {
        let mut at = 0;
        loop {
            if !self.is_reading() {
                return Ok((at, Received::Blocked));
            }
            let left = &bytes[at..];
            match self.machine.expects() {
                Receive::Header { .. } if limit.is_over() => return Ok((at, Received::Limited)),
                Receive::Header { len_bytes } => {
                    let Some(header) = left.get(..len_bytes) else { return Ok((at, Received::Drained)) };
                    self.machine.handle(header)?;
                    at += len_bytes;
                    limit.count();
                }
                _ if left.is_empty() => return Ok((at, Received::Drained)),
                Receive::Payload { token, offset_bytes, len_bytes } => {
                    let len = left.len().min(len_bytes as usize);
                    let pending = self.requests.get_mut(&token).expect("a request whose data are expected");
                    pending.space(&mut shared.device, offset_bytes, len).copy_from_slice(&left[..len]);
                    self.machine.received(len as u32);
                    at += len;
                }
                Receive::Discard { len_bytes } => {
                    let len = left.len().min(len_bytes as usize);
                    self.machine.received(len as u32);
                    at += len;
                }
                Receive::Wait | Receive::Tls | Receive::Closed => return Ok((at, Received::Blocked)),
            }
            self.after(shared, limit, now);
        }
    }
}
