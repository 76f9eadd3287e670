//! A device on a session with a scripted peer.

use std::io::{Read, Write};
use std::net::TcpStream;

use block::{BlockOp, Buffers, ErrorKind, OperationError, Owner, Token};
use net::{Interest, Poll};
use proto::params::Params;
use wire::iscsi::{BHS_LEN, Bhs, Pdu, ScsiCommand, ScsiResponse};
use wire::scsi::{BlockForm, Sense, Status};

use super::*;
use crate::client::tests::session;
use crate::disk::Geometry;
use crate::options::Options;

/// The command window of the session.
const WINDOW: usize = 128;

fn device(options: &Options) -> (IscsiDevice, TcpStream) {
    let (mut client, peer) = session(options, Params::default());
    let limits = RangeLimits { unmap: None, write_same_blocks: 0, unmaps_to_zeros: false };
    let cache = Cache { is_volatile: true, has_fua: true };
    let work = Work::new(Geometry::of(512, BlockForm::Ten), limits, cache, client.buffers().clone());
    client.start(clock::now());
    let profile = Profile {
        len_bytes: 1 << 30,
        blocks: BlockSizes { logical_bytes: 512, physical_bytes: 512, preferred_bytes: 512 },
        limits: Limits { transfer_bytes: 1 << 20, range_bytes: 0, atomic_bytes: 0 },
        can: Capabilities {
            read_only: false,
            write_cache: true,
            fua: true,
            unmap: false,
            unmapped_reads_zero: false,
            fill: false,
            compare: false,
            extents: false,
        },
    };
    let (scratch, events) = (Scratch::new(), Events::new());
    let (next, turned_at) = (Turn::Again, Instant::ZERO);
    (IscsiDevice { client, work, profile, scratch, events, next, turned_at, ended: None }, peer)
}

/// Requests above the command window wait in the device, where they can be withdrawn.
#[test]
fn the_command_window_limits_the_commands_of_the_session() {
    for (queue_limit, expected) in [(None, WINDOW), (Some(10), 10)] {
        let (mut device, _peer) = device(&Options { queue_limit, ..Options::plain() });
        let buffers = Buffers::new(0);
        let request = |id| BlockRequest {
            id: Token(id),
            owner: Owner(1),
            op: BlockOp::Read { offset_bytes: id * 512, into: buffers.take(512) },
            fua: false,
            is_timed: false,
        };
        (0..300).for_each(|id| device.submit(request(id), clock::now()));
        assert!(device.poll(clock::now()).is_none());
        assert_eq!(device.client.side.requests.open.len(), expected);
        device.cancel(Select::Owner(Owner(1)), clock::now());
        let withdrawn = std::iter::from_fn(|| device.work.done.pop_front()).filter(|done| {
            matches!(&done.result, Err(OperationError::Read(error)) if error.kind == ErrorKind::Cancelled)
        });
        assert_eq!(withdrawn.count(), 300 - expected);
    }
}

/// The peer's end of the connection: takes a command with its data and answers it.
struct Peer {
    stream: TcpStream,
    stat_sn: u32,
}

impl Peer {
    fn command(&mut self) -> ScsiCommand {
        let mut header = [0; BHS_LEN];
        self.stream.read_exact(&mut header).unwrap();
        let mut data = vec![0; Bhs::new(&header).data_segment_len().next_multiple_of(4)];
        self.stream.read_exact(&mut data).unwrap();
        let Ok(Pdu::ScsiCommand(command)) = Pdu::parse(&header) else { panic!("no command: {header:?}") };
        command
    }

    fn answer(&mut self, command: &ScsiCommand, sense: Option<Sense>) {
        let sense = sense.map(|sense| sense.emit_fixed());
        let data: Vec<u8> = sense
            .iter()
            .flat_map(|sense| [&(sense.len() as u16).to_be_bytes(), &sense[..]].concat())
            .collect();
        let status = if sense.is_some() { Status::CHECK_CONDITION } else { Status::GOOD };
        let mut header = [0; BHS_LEN];
        let response = ScsiResponse {
            bidi_overflow: false,
            bidi_underflow: false,
            overflow: false,
            underflow: false,
            response: 0,
            status: status.0,
            data_segment_len: data.len() as u32,
            itt: command.itt,
            snack_tag: 0,
            stat_sn: self.stat_sn,
            exp_cmd_sn: command.cmd_sn.wrapping_add(1),
            max_cmd_sn: command.cmd_sn.wrapping_add(WINDOW as u32),
            exp_data_sn: 0,
            bidi_residual: 0,
            residual: 0,
        };
        response.emit(&mut header);
        self.stat_sn += 1;
        let padding = vec![0; data.len().next_multiple_of(4) - data.len()];
        self.stream.write_all(&[&header[..], &data, &padding].concat()).unwrap();
    }
}

/// Takes turns until `is_done`, and waits by the descriptor and the time of the device.
fn run(device: &mut IscsiDevice, mut is_done: impl FnMut(&mut IscsiDevice) -> bool) {
    let (poll, mut events) = (Poll::new().unwrap(), Events::new());
    poll.add(device.descriptor().unwrap(), 0, Interest::READ).unwrap();
    while !is_done(device) {
        let now = clock::now();
        if device.next_at() > now {
            poll.wait(&mut events, Some(device.next_at().since(now))).unwrap();
        }
    }
}

/// The LUN is reset between two writes: the first one, which was acknowledged, may be lost with the cache.
#[test]
fn a_flush_after_a_reset_of_the_lun_fails_once() {
    let (mut device, stream) = device(&Options::plain());
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut peer = Peer { stream, stat_sn: 1 };
    let buffers = Buffers::new(0);
    let write = || BlockOp::Write { offset_bytes: 0, data: buffers.take(512) };
    let request = |id, op| BlockRequest { id: Token(id), owner: Owner(1), op, fua: false, is_timed: false };
    // Submits a request, answers its commands, and returns their number and the result.
    let mut ask = |id, op, answers: &[Option<Sense>]| {
        device.submit(request(id, op), clock::now());
        let mut done = device.poll(clock::now());
        for sense in answers {
            let command = peer.command();
            let expected = device.client.side.lun.resets + u64::from(sense.is_some());
            peer.answer(&command, *sense);
            run(&mut device, |device| {
                done = done.take().or_else(|| device.poll(clock::now()));
                done.is_some() || (sense.is_some() && device.client.side.lun.resets == expected)
            });
            // What was put back is sent again.
            done = done.or_else(|| device.poll(clock::now()));
        }
        done.expect("it has completed").result.map_err(|error| error.device_error().map(|error| error.kind))
    };
    assert_eq!(ask(1, write(), &[None]), Ok(()));
    assert_eq!(ask(2, write(), &[Some(Sense::RESET), None]), Ok(()), "it is issued again");
    assert_eq!(ask(3, BlockOp::Flush, &[]), Err(Some(ErrorKind::Lost)));
    assert_eq!(ask(4, BlockOp::Flush, &[None]), Ok(()));
}

#[test]
fn a_granularity_beyond_all_sizes_is_ignored() {
    assert_eq!(preferred_bytes(8, 512), 4096);
    assert_eq!(preferred_bytes(0, 512), 1);
    assert_eq!(preferred_bytes(3, 4096), 16384);
    assert_eq!(preferred_bytes(u16::MAX, 65536), 1);
    assert_eq!(preferred_bytes(u16::MAX, 1 << 20), 1);
}
