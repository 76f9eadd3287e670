//! What a command asks of the memory at the far end, written into a CDB: the sessions under test never look
//! into one, so byte ranges do instead of SCSI and lengths need not be whole blocks.

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing, with success.
    Nothing,
    /// Read, sent from the far end's memory.
    Read,
    /// Read, with the data handed to the session.
    Hand,
    /// Write.
    Write,
    /// Fail with CHECK CONDITION before any data is taken.
    Refuse,
}

/// A command's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// What to do.
    pub kind: Kind,
    /// First byte of the memory.
    pub address: u32,
    /// Bytes that the command itself moves, which need not be what the initiator expects.
    pub len_bytes: u32,
}

impl Order {
    /// As a CDB.
    pub fn emit(&self) -> [u8; 16] {
        let mut cdb = [0; 16];
        cdb[0] = self.kind as u8;
        cdb[2..6].copy_from_slice(&self.address.to_be_bytes());
        cdb[6..10].copy_from_slice(&self.len_bytes.to_be_bytes());
        cdb
    }

    /// From a CDB; any bytes are an order.
    pub fn parse(cdb: &[u8; 16]) -> Order {
        let number = |at: usize| u32::from_be_bytes([cdb[at], cdb[at + 1], cdb[at + 2], cdb[at + 3]]);
        let kind = match cdb[0] {
            0 => Kind::Nothing,
            1 => Kind::Read,
            2 => Kind::Hand,
            3 => Kind::Write,
            _ => Kind::Refuse,
        };
        Order { kind, address: number(2), len_bytes: number(6) }
    }

    /// Whether a memory of so many bytes holds all of it.
    pub fn fits(&self, memory_bytes: usize) -> bool {
        u64::from(self.address) + u64::from(self.len_bytes) <= memory_bytes as u64
    }
}

/// Bytes that tell places apart: no two stretches of them are alike.
pub fn content(len_bytes: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len_bytes];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}
