//! A server with a disk in memory around the server's state machine.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use fastrand::Rng;
use proto::nbd::server::{NbdExport, NbdServer, NbdServerConfig, NbdServerEvent, TlsPolicy};
use proto::nbd::{ExportFacts, NbdBlockSizes, NbdCommand, NbdError, NbdFault, NbdOp, NbdPayload, Receive};
use wire::nbd::{StatusExtent, command_flag, state_flag};

pub(crate) const DISK_BYTES: usize = 1 << 16;
pub(crate) const BLOCK_BYTES: u32 = 512;

/// All transmission flags except READ_ONLY, ROTATIONAL and flags without a command here.
const FLAGS: u16 = 0x0dec;

pub(crate) fn config(random: &mut Rng) -> Arc<NbdServerConfig> {
    let blocks = NbdBlockSizes { minimum: BLOCK_BYTES, preferred: 4096, maximum: 1 << 20 };
    let export = |name: &str, size_bytes, has_allocation| NbdExport {
        name: name.to_owned(),
        description: "a disk".to_owned(),
        facts: ExportFacts { size_bytes, flags: FLAGS, blocks },
        has_allocation,
    };
    Arc::new(NbdServerConfig {
        exports: vec![export("other", 512, false), export("disk", DISK_BYTES as u64, random.u8(..) > 60)],
        default_export: Some(1),
        tls: TlsPolicy::Unsupported,
        lists: true,
        requests_max: random.usize(1..40),
        queue_max_bytes: random.u64(1..60_000),
    })
}

pub(crate) struct Far {
    pub(crate) server: NbdServer,
    pub(crate) disk: Vec<u8>,
    open: Vec<(u64, NbdCommand)>,
    buffers: HashMap<u64, Vec<u8>>,
    /// Writes whose data are complete.
    received: Vec<u64>,
}

impl Far {
    pub(crate) fn new(random: &mut Rng) -> Far {
        Far {
            server: NbdServer::new(config(random)),
            disk: vec![0; DISK_BYTES],
            open: Vec::new(),
            buffers: HashMap::new(),
            received: Vec::new(),
        }
    }

    /// Takes some of the bytes that have come. Returns whether anything happened.
    pub(crate) fn take(&mut self, input: &mut VecDeque<u8>, random: &mut Rng) -> Result<bool, NbdFault> {
        let most = input.len().min(random.usize(1..2000));
        match self.server.expects() {
            Receive::Header { len_bytes } if input.len() >= len_bytes => {
                let header: Vec<u8> = input.drain(..len_bytes).collect();
                self.server.handle(&header)?;
            }
            Receive::Payload { token, offset_bytes, len_bytes } if most > 0 => {
                let len = most.min(len_bytes as usize);
                let part =
                    &mut self.buffers.get_mut(&token).expect("a buffer")[offset_bytes as usize..][..len];
                input.drain(..len).zip(part).for_each(|(byte, stored)| *stored = byte);
                self.server.received(len as u32);
            }
            Receive::Discard { len_bytes } if most > 0 => {
                let len = most.min(len_bytes as usize);
                input.drain(..len);
                self.server.received(len as u32);
            }
            _ => return Ok(false),
        }
        while let Some(event) = self.server.poll_event() {
            match event {
                NbdServerEvent::Request { key, command } => {
                    self.open.push((key, command));
                    if command.op == NbdOp::Write || command.op == NbdOp::Read {
                        self.buffers.insert(key, vec![0; command.len_bytes as usize]);
                    }
                }
                NbdServerEvent::Received { key } => self.received.push(key),
                NbdServerEvent::Chosen { export } => assert!(export < 2),
                NbdServerEvent::StartTls => panic!("TLS that is not offered"),
                NbdServerEvent::Disconnected => {}
            }
        }
        Ok(true)
    }

    /// Executes and answers any open request. Returns false if none can be.
    pub(crate) fn execute(&mut self, random: &mut Rng) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let index = random.usize(..self.open.len());
        let (key, command) = self.open[index];
        let is_waiting = command.op == NbdOp::Write && !self.received.contains(&key);
        let fails = random.u8(..) < 16;
        if is_waiting && !fails {
            return false;
        }
        self.open.swap_remove(index);
        let (offset, len) = (command.offset_bytes as usize, command.len_bytes as usize);
        if fails {
            self.server.fail(key, NbdError::Eio, random.bool().then_some(command.offset_bytes));
            return true;
        }
        if command.flags & command_flag::FAST_ZERO != 0 && random.bool() {
            self.server.fail(key, NbdError::Enotsup, None);
            return true;
        }
        match command.op {
            NbdOp::Read => {
                let data = self.disk[offset..offset + len].to_vec();
                let is_split =
                    self.server.is_structured() && command.flags & command_flag::DF == 0 && random.bool();
                if is_split {
                    let mut pieces: Vec<usize> = (0..len).step_by(BLOCK_BYTES as usize).collect();
                    random.shuffle(&mut pieces);
                    for at in pieces {
                        if data[at..at + BLOCK_BYTES as usize].iter().all(|byte| *byte == 0) {
                            self.server.put_hole(key, at as u32, BLOCK_BYTES);
                        } else {
                            self.server.put_data(key, at as u32, BLOCK_BYTES);
                        }
                    }
                }
                self.buffers.insert(key, data);
                self.server.complete(key);
                return true;
            }
            NbdOp::Write => {
                let data = &self.buffers[&key];
                self.disk[offset..offset + len].copy_from_slice(data);
            }
            NbdOp::WriteZeroes | NbdOp::Trim => self.disk[offset..offset + len].fill(0),
            NbdOp::BlockStatus => {
                let extents: Vec<_> = self.disk[offset..]
                    .chunks(BLOCK_BYTES as usize)
                    .map(|block| {
                        let is_zero = block.iter().all(|byte| *byte == 0);
                        let flags = if is_zero { state_flag::ZERO | state_flag::HOLE } else { 0 };
                        StatusExtent { len_bytes: BLOCK_BYTES, flags }
                    })
                    .collect();
                self.server.complete_status(key, &extents);
                return true;
            }
            NbdOp::Flush | NbdOp::Cache => {}
        }
        self.server.complete(key);
        true
    }

    /// Appends the next bytes to send.
    pub(crate) fn send(&mut self, output: &mut VecDeque<u8>) -> bool {
        let Some(transmit) = self.server.poll_transmit() else { return false };
        output.extend(transmit.header);
        if let Some(NbdPayload { token, offset_bytes, len_bytes }) = transmit.payload {
            output.extend(&self.buffers[&token][offset_bytes as usize..][..len_bytes as usize]);
        }
        if let Some(key) = transmit.releases {
            self.buffers.remove(&key);
        }
        true
    }

    /// Buffers in use.
    pub(crate) fn held(&self) -> usize {
        self.buffers.len()
    }
}
