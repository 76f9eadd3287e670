//! A client with random commands around the client's state machine, and a model of the disk.

use std::collections::{HashMap, VecDeque};

use fastrand::Rng;
use proto::nbd::client::{NbdClient, NbdClientConfig, NbdClientEvent, NbdCompletion};
use proto::nbd::{NbdCommand, NbdError, NbdFault, NbdOp, NbdPayload, NbdSubmitError, Receive};
use wire::nbd::{command_flag, state_flag};

use crate::far::{BLOCK_BYTES, DISK_BYTES};

struct Asked {
    command: NbdCommand,
    buffer: Vec<u8>,
    is_sent: bool,
    is_over: bool,
}

pub(crate) struct Near {
    pub(crate) client: NbdClient,
    pub(crate) model: Vec<u8>,
    asked: HashMap<u64, Asked>,
    next_token: u64,
    pub(crate) completed: usize,
    /// Compares received data with the model; false for disturbed bytes.
    pub(crate) is_strict: bool,
}

impl Near {
    pub(crate) fn new(random: &mut Rng) -> Near {
        let export = if random.bool() { "disk" } else { "" }.to_owned();
        let config =
            NbdClientConfig { export, wants_structured: random.u8(..) > 60, wants_allocation: random.bool() };
        Near {
            client: NbdClient::new(config),
            model: vec![0; DISK_BYTES],
            asked: HashMap::new(),
            next_token: 0,
            completed: 0,
            is_strict: true,
        }
    }

    /// Submits a random command on blocks that no other open one touches. Returns false if there are none.
    pub(crate) fn ask(&mut self, random: &mut Rng) -> bool {
        if self.client.agreement().is_none() || self.client.is_finished() {
            return false;
        }
        let op = NbdOp::ALL[random.usize(..NbdOp::ALL.len())];
        let flag = match op {
            NbdOp::Read => command_flag::DF,
            NbdOp::BlockStatus => command_flag::REQ_ONE,
            NbdOp::WriteZeroes if random.bool() => command_flag::NO_HOLE,
            NbdOp::WriteZeroes => command_flag::FAST_ZERO,
            _ => command_flag::FUA,
        };
        let flags = if random.bool() { flag } else { 0 };
        let blocks = (DISK_BYTES as u32) / BLOCK_BYTES;
        let begin = random.u32(..blocks);
        // Some reach beyond the end.
        let (mut offset_bytes, mut len_bytes) =
            (u64::from(begin * BLOCK_BYTES), random.u32(1..20) * BLOCK_BYTES);
        if op == NbdOp::Flush {
            (offset_bytes, len_bytes) = (0, 0);
        }
        let end = offset_bytes + u64::from(len_bytes);
        let is_taken = self.asked.values().any(|other| {
            let other = other.command;
            other.offset_bytes < end && offset_bytes < other.offset_bytes + u64::from(other.len_bytes)
        });
        if is_taken {
            return false;
        }
        let command = NbdCommand { op, flags, offset_bytes, len_bytes };
        let token = self.next_token;
        if let Err(error) = self.client.submit(token, command) {
            let is_expected = matches!(error, NbdSubmitError::Refused(NbdError::Einval | NbdError::Enospc));
            assert!(!self.is_strict || is_expected, "{command:?}: {error}");
            return false;
        }
        self.next_token += 1;
        let mut buffer = vec![0xa5; len_bytes as usize];
        if op == NbdOp::Write {
            buffer.iter_mut().for_each(|byte| *byte = random.u8(..));
        }
        self.asked.insert(token, Asked { command, buffer, is_sent: false, is_over: false });
        true
    }

    /// Takes some of the bytes that have come. Returns whether anything happened.
    pub(crate) fn take(&mut self, input: &mut VecDeque<u8>, random: &mut Rng) -> Result<bool, NbdFault> {
        let most = input.len().min(random.usize(1..2000));
        match self.client.expects() {
            Receive::Header { len_bytes } if input.len() >= len_bytes => {
                let header: Vec<u8> = input.drain(..len_bytes).collect();
                self.client.handle(&header)?;
            }
            Receive::Payload { token, offset_bytes, len_bytes } if most > 0 => {
                let len = most.min(len_bytes as usize);
                let asked = self.asked.get_mut(&token).expect("a read");
                let part = &mut asked.buffer[offset_bytes as usize..][..len];
                input.drain(..len).zip(part).for_each(|(byte, stored)| *stored = byte);
                self.client.received(len as u32)?;
            }
            Receive::Discard { len_bytes } if most > 0 => {
                let len = most.min(len_bytes as usize);
                input.drain(..len);
                self.client.received(len as u32)?;
            }
            _ => return Ok(false),
        }
        while let Some(event) = self.client.poll_event() {
            match event {
                NbdClientEvent::Ready(agreement) if self.is_strict => {
                    assert_eq!(agreement.facts.size_bytes, DISK_BYTES as u64);
                }
                NbdClientEvent::Ready(_) => {}
                NbdClientEvent::Zeros { token, offset_bytes, len_bytes } => {
                    let asked = self.asked.get_mut(&token).expect("a read");
                    asked.buffer[offset_bytes as usize..][..len_bytes as usize].fill(0);
                }
                NbdClientEvent::Completed(completion) => self.complete(&completion),
            }
        }
        Ok(true)
    }

    fn complete(&mut self, completion: &NbdCompletion) {
        let asked = self.asked.get_mut(&completion.token).expect("an open request");
        assert!(!std::mem::replace(&mut asked.is_over, true), "a request ends once");
        self.completed += 1;
        let NbdCommand { op, flags, offset_bytes, len_bytes } = asked.command;
        let range = offset_bytes as usize..offset_bytes as usize + len_bytes as usize;
        if self.is_strict && completion.result.is_ok() {
            match op {
                NbdOp::Read => assert!(asked.buffer == self.model[range], "a read of {:?}", asked.command),
                NbdOp::Write => self.model[range].copy_from_slice(&asked.buffer),
                NbdOp::Trim | NbdOp::WriteZeroes => self.model[range].fill(0),
                NbdOp::BlockStatus => {
                    let mut at = range.start;
                    for extent in &completion.extents {
                        let end = at + extent.len_bytes as usize;
                        let is_zero = self.model[at..end].iter().all(|byte| *byte == 0);
                        assert_eq!(is_zero, extent.flags & state_flag::ZERO != 0);
                        at = end;
                    }
                    let is_one = flags & command_flag::REQ_ONE != 0;
                    assert!(at == range.end || is_one && completion.extents.len() == 1);
                }
                NbdOp::Flush | NbdOp::Cache => {}
            }
        } else if self.is_strict {
            let is_fast = flags & command_flag::FAST_ZERO != 0 && op == NbdOp::WriteZeroes;
            let is_expected = completion.result == Err(NbdError::Eio)
                || is_fast && completion.result == Err(NbdError::Enotsup);
            assert!(is_expected, "{:?} of {:?}", completion.result, asked.command);
        }
        if asked.is_sent || op != NbdOp::Write {
            self.asked.remove(&completion.token);
        }
    }

    /// Appends the next bytes to send.
    pub(crate) fn send(&mut self, output: &mut VecDeque<u8>) -> bool {
        let Some(transmit) = self.client.poll_transmit() else { return false };
        output.extend(transmit.header);
        if let Some(NbdPayload { token, offset_bytes, len_bytes }) = transmit.payload {
            output.extend(&self.asked[&token].buffer[offset_bytes as usize..][..len_bytes as usize]);
        }
        if let Some(token) = transmit.releases {
            let asked = self.asked.get_mut(&token).expect("a write");
            asked.is_sent = true;
            if asked.is_over {
                self.asked.remove(&token);
            }
        }
        true
    }

    /// Requests whose buffers are in use.
    pub(crate) fn held(&self) -> usize {
        self.asked.len()
    }
}
