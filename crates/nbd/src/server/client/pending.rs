//! Requests of a connection that are not answered.

use block::{Buffer, ByteRange, Lent};
use proto::nbd::NbdCommand;

use super::super::device::SharedDevice;

/// A request without a complete answer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) command: NbdCommand,
    pub(super) stage: Stage,
}

/// Place of a request and its data.
#[derive(Debug)]
pub(super) enum Stage {
    /// Its data are bytes of the device itself.
    Direct,
    /// Its data are here: of a write that arrive, of a read that were read.
    Buffered(Buffer),
    /// The device has it. The rest of its range follows, and then a flush if it is needed.
    AtDevice { rest: ByteRange, flush: bool },
}

impl Pending {
    /// Place of the data of a write from `offset_bytes` on.
    pub(super) fn space<'a>(
        &'a mut self,
        device: &'a mut SharedDevice,
        offset_bytes: u32,
        len: usize,
    ) -> &'a mut [u8] {
        match &mut self.stage {
            Stage::Buffered(buffer) => &mut buffer[offset_bytes as usize..][..len],
            Stage::Direct => {
                let lent: &mut Lent = device.lent().expect("a device that lends its bytes goes on lending");
                lent.space(self.command.offset_bytes, offset_bytes as usize, len)
            }
            Stage::AtDevice { .. } => unreachable!("data of a write that is complete"),
        }
    }
}
