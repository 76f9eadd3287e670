//! Connections that share a line, in virtual time.

use core::time::Duration;

use event::Instant;
use link::{Dice, Handle, Line, Packet, Path, Stage, wire_bytes};
use slab::Slab;

use super::MSS_BYTES;
use super::congestion::Kind;
use super::receiver::{Ack, Receiver};
use super::sender::Sender;
use super::steering::Steering;

/// Headers of IPv4 and TCP with timestamps.
const HEADER_BYTES: u32 = 52;
/// The flow in a handle.
const FLOW_SHIFT: u32 = 48;
/// Written by an application that always has more.
const ENDLESS: u64 = 1 << 40;

/// The application of a connection.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// Always has more to send.
    Bulk,
    /// Writes so many packets each time.
    Bursts {
        /// Packets of a burst.
        packets: u64,
        /// From one burst to the next.
        every: Duration,
    },
}

/// A connection with its application.
#[derive(Debug)]
pub struct Flow {
    /// Its sender.
    pub sender: Sender,
    /// Its policy, if it has one.
    pub steering: Option<Steering>,
    receiver: Receiver,
    load: Load,
    writes_at: Option<Instant>,
    dropped: u64,
    /// Its device refuses packets until then.
    refused_until: Instant,
}

/// Both directions of a line and the connections on it.
#[derive(Debug)]
pub struct Network {
    now: Instant,
    there: Path,
    back: Path,
    flows: Vec<Flow>,
    acks: Slab<(usize, Ack)>,
    /// The device of the senders holds so many bytes and refuses more; `None` if it holds everything.
    ring_bytes: Option<u64>,
}

impl Flow {
    /// A connection whose application begins at `starts`.
    pub fn new(kind: Kind, load: Load, starts: Instant, seed: u64) -> Flow {
        Flow {
            sender: Sender::new(kind, seed),
            steering: None,
            receiver: Receiver::default(),
            load,
            writes_at: Some(starts),
            dropped: 0,
            refused_until: Instant::ZERO,
        }
    }

    /// The same under a policy of ours.
    pub fn steered(self, kind: Kind) -> Flow {
        Flow { steering: Some(Steering::new(kind)), ..self }
    }

    /// The same under a policy of ours that may choose a rate-based congestion control.
    pub fn choosing(self, kind: Kind) -> Flow {
        Flow { steering: Some(Steering::choosing(kind)), ..self }
    }

    /// Payload that has arrived in order.
    pub fn arrived_bytes(&self) -> u64 {
        self.receiver.next() * u64::from(MSS_BYTES)
    }

    /// Packets of it that the path has dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn write(&mut self, now: Instant) {
        if self.writes_at.is_none_or(|at| at > now) {
            return;
        }
        self.writes_at = match self.load {
            Load::Bulk => {
                self.sender.write(ENDLESS);
                None
            }
            Load::Bursts { packets, every } => {
                self.sender.write(packets);
                Some(now + every)
            }
        };
    }

    fn next_at(&self) -> Option<Instant> {
        let looks_at = self.steering.as_ref().map(Steering::looks_at);
        let all = [self.writes_at, looks_at, self.receiver.due_at()];
        let wakes_at = self.sender.wake_at().map(|at| at.max(self.refused_until));
        all.into_iter().flatten().chain(wakes_at).min()
    }
}

impl Network {
    /// An empty line; packets go by `there`, acknowledgements by `back`.
    pub fn new(there: &Line, back: &Line, seed: u64) -> Network {
        let mut paths = [(there, 0), (back, 1)].map(|(line, side)| Path::of(line, Dice::new(seed, side)));
        paths.iter_mut().for_each(|path| path.begin(Instant::ZERO));
        let [there, back] = paths;
        Network { now: Instant::ZERO, there, back, flows: Vec::new(), acks: Slab::new(), ring_bytes: None }
    }

    /// Limits the device of the senders to `bytes` that wait: more is refused, and nothing is lost.
    pub fn with_ring(self, bytes: u64) -> Network {
        Network { ring_bytes: Some(bytes), ..self }
    }

    /// Adds a connection.
    pub fn add(&mut self, flow: Flow) {
        self.flows.push(flow);
    }

    /// All of them, in the order in which they were added.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The same, to change them between two runs.
    pub fn flows_mut(&mut self) -> &mut [Flow] {
        &mut self.flows
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Runs until `end`.
    pub fn run_until(&mut self, end: Instant) {
        loop {
            self.take();
            for flow in 0..self.flows.len() {
                self.turn(flow);
            }
            let flows = self.flows.iter().filter_map(Flow::next_at);
            let paths = [self.there.next_at(), self.back.next_at()];
            let next = paths.into_iter().flatten().chain(flows).min().unwrap_or(end).max(self.now);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
        }
    }

    /// Takes what has arrived at both ends.
    fn take(&mut self) {
        while let Some((_, packet)) = self.there.pop(self.now) {
            let flow = (packet.handle.0 >> FLOW_SHIFT) as usize;
            let seq = packet.handle.0 & ((1 << FLOW_SHIFT) - 1);
            if let Some(ack) = self.flows[flow].receiver.take(self.now, seq, packet.arrived) {
                self.acknowledge(flow, ack);
            }
        }
        while let Some((_, packet)) = self.back.pop(self.now) {
            let (flow, ack) = self.acks.remove(packet.handle.0 as usize);
            self.flows[flow].sender.acknowledge(self.now, &ack);
        }
    }

    fn turn(&mut self, index: usize) {
        let now = self.now;
        if let Some(ack) = self.flows[index].receiver.due(now) {
            self.acknowledge(index, ack);
        }
        let flow = &mut self.flows[index];
        flow.write(now);
        flow.sender.wake(now);
        if let Some(steering) = &mut flow.steering {
            steering.look(now, &mut flow.sender);
        }
        while now >= flow.refused_until {
            let waiting_bytes = self.there.waiting_bytes();
            if self.ring_bytes.is_some_and(|most| waiting_bytes >= most) {
                flow.sender.refused(now);
                flow.refused_until = self.there.busy_until().unwrap_or(now);
                break;
            }
            let Some(seq) = flow.sender.send(now) else { break };
            let handle = (index as u64) << FLOW_SHIFT | seq;
            flow.dropped += u64::from(self.there.push(now, packet(now, handle, MSS_BYTES)).is_err());
        }
    }

    fn acknowledge(&mut self, flow: usize, ack: Ack) {
        let key = self.acks.insert((flow, ack));
        if self.back.push(self.now, packet(self.now, key as u64, 0)).is_err() {
            self.acks.remove(key);
        }
    }
}

fn packet(now: Instant, handle: u64, payload_bytes: u32) -> Packet {
    let ip_bytes = HEADER_BYTES + payload_bytes;
    Packet::new(Handle(handle), now, ip_bytes, wire_bytes(ip_bytes, 1, HEADER_BYTES), 1)
}
