//! Reads over a line, in virtual time: packets at a tap beside the initiator, and the rate that follows.
//!
//! The same scene without one of its limiters has the true gain.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub(crate) const MS: u64 = 1_000_000;
const MSS: u64 = 1448;
const BHS: usize = 48;
/// Shift of the advertised windows.
const SHIFT: u8 = 10;
/// Initial congestion window in segments (RFC 6928).
const INITIAL_SEGMENTS: u64 = 10;

/// A load, a path, and its limiter.
#[derive(Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) rtt_ns: u64,
    pub(crate) line_bytes_per_s: u64,
    pub(crate) depth: u64,
    pub(crate) block: u64,
    /// Commands in all.
    pub(crate) commands: u64,
    pub(crate) command_window: u64,
    /// Time of the store.
    pub(crate) service_ns: u64,
    /// Receive window of the initiator.
    pub(crate) receive_window: u64,
    /// Send buffer of the target.
    pub(crate) send_buffer: u64,
    /// Status on its own with Nagle's algorithm, against acknowledgements that are delayed by 40 ms.
    pub(crate) nagle: bool,
    /// The congestion window begins small at the begin of the connection.
    pub(crate) slow_start: bool,
    /// And after each pause of 300 ms.
    pub(crate) restarts: bool,
}

impl Default for Scene {
    /// 256 KiB at depth 8 over 20 ms and 12.5 MB/s.
    fn default() -> Self {
        Scene {
            rtt_ns: 20 * MS,
            line_bytes_per_s: 12_500_000,
            depth: 8,
            block: 256 << 10,
            commands: 48,
            command_window: 128,
            service_ns: 50_000,
            receive_window: 16 << 20,
            send_buffer: u64::MAX,
            nagle: false,
            slow_start: false,
            restarts: false,
        }
    }
}

/// Frames at the tap, and the rate of the load.
pub(crate) struct Played {
    pub(crate) frames: Vec<(u64, Vec<u8>)>,
    pub(crate) bytes_per_s: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// At the target.
    Command(u64),
    Stored(u64),
    Ack(u64),
    /// At the initiator: begin and end of a segment, and the commands that it acknowledges.
    Segment(u64, u64, u64),
    /// Of everything up to a place, at the latest.
    DelayedAck(u64),
}

/// State of the initiator.
struct Initiator {
    issued: u64,
    completed: u64,
    max_cmd_sn: u64,
    received: u64,
    ack_sent: u64,
}

struct Play {
    scene: Scene,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    frames: Vec<(u64, Vec<u8>)>,
    /// Stream of the target.
    stream: Vec<u8>,
    sent: u64,
    acked: u64,
    /// Commands that have arrived.
    arrived: u64,
    line_free_ns: u64,
    cwnd: u64,
    last_sent_ns: u64,
    done: u64,
    initiator: Initiator,
    /// Ends of the answers in the stream, and the MaxCmdSN in each.
    ends: VecDeque<(u64, u64)>,
    last_ns: u64,
}

impl Scene {
    /// Plays it to its end.
    pub(crate) fn play(self) -> Played {
        let first_ns = 10 * MS;
        let mut play = Play {
            scene: self,
            events: BinaryHeap::new(),
            count: 0,
            frames: Vec::new(),
            stream: Vec::new(),
            sent: 0,
            acked: 0,
            arrived: 0,
            line_free_ns: 0,
            cwnd: if self.slow_start { INITIAL_SEGMENTS * MSS } else { u64::MAX },
            last_sent_ns: 0,
            done: 0,
            initiator: Initiator {
                issued: 0,
                completed: 0,
                max_cmd_sn: self.command_window,
                received: 0,
                ack_sent: 0,
            },
            ends: VecDeque::new(),
            last_ns: 0,
        };
        let begin_ns = MS;
        play.frames.push((begin_ns, frame(0, 0, None, 0x02, 65_535, &[])));
        play.frames.push((begin_ns + self.rtt_ns, frame(1, 0, Some(1), 0x12, 65_535, &[])));
        play.frames.push((begin_ns + self.rtt_ns + 1, frame(0, 1, Some(1), 0x10, play.window(), &[])));
        let first_ns = first_ns + self.rtt_ns;
        play.issue(first_ns);
        while let Some(Reverse((t_ns, _, event))) = play.events.pop() {
            play.take(t_ns, event);
        }
        assert_eq!(play.initiator.completed, self.commands);
        let seconds = (play.last_ns - first_ns) as f64 / 1e9;
        Played { frames: play.frames, bytes_per_s: (self.commands * self.block) as f64 / seconds }
    }
}

impl Play {
    fn at(&mut self, t_ns: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((t_ns, self.count, event)));
    }

    fn window(&self) -> u16 {
        (self.scene.receive_window >> SHIFT) as u16
    }

    fn take(&mut self, t_ns: u64, event: Event) {
        match event {
            Event::Command(number) => {
                self.arrived = number;
                self.at(t_ns + self.scene.service_ns, Event::Stored(number));
            }
            Event::Stored(number) => {
                self.done += 1;
                self.answer(t_ns, number);
            }
            Event::Ack(upto) => {
                let newly = upto.saturating_sub(self.acked);
                self.acked = self.acked.max(upto);
                self.cwnd = self.cwnd.saturating_add(newly);
                self.send(t_ns);
            }
            Event::Segment(start, end, commands) => self.receive(t_ns, (start, end), commands),
            Event::DelayedAck(upto) if self.initiator.ack_sent < upto => self.acknowledge(t_ns),
            Event::DelayedAck(_) => {}
        }
    }

    /// The target answers a command: data with status, or both one after the other.
    fn answer(&mut self, t_ns: u64, number: u64) {
        let max_cmd_sn = self.done + self.scene.command_window;
        let numbers = |header: &mut [u8; BHS], sn: usize| {
            header[16..20].copy_from_slice(&(number as u32 | 0x100).to_be_bytes());
            header[sn..sn + 4].copy_from_slice(&(self.done as u32).to_be_bytes());
            header[28..32].copy_from_slice(&(self.arrived as u32 + 1).to_be_bytes());
            header[32..36].copy_from_slice(&(max_cmd_sn as u32).to_be_bytes());
        };
        let mut data = [0; BHS];
        (data[0], data[1]) = (0x25, if self.scene.nagle { 0x80 } else { 0x81 });
        data[5..8].copy_from_slice(&(self.scene.block as u32).to_be_bytes()[1..]);
        data[20..24].fill(0xff);
        numbers(&mut data, 24);
        if self.scene.nagle {
            data[24..28].fill(0);
        }
        let mut status = [0; BHS];
        (status[0], status[1]) = (0x21, 0x80);
        numbers(&mut status, 24);
        self.stream.extend(data);
        self.stream.extend(std::iter::repeat_n(0x5a, self.scene.block as usize));
        self.send(t_ns);
        if self.scene.nagle {
            self.stream.extend(status);
        }
        self.ends.push_back((self.stream.len() as u64, max_cmd_sn));
        self.send(t_ns);
    }

    /// TCP of the target.
    fn send(&mut self, t_ns: u64) {
        let Scene { receive_window, send_buffer, restarts, nagle, rtt_ns, .. } = self.scene;
        if restarts && self.sent == self.acked && t_ns.saturating_sub(self.last_sent_ns) > 300 * MS {
            self.cwnd = INITIAL_SEGMENTS * MSS;
        }
        while self.sent < self.stream.len() as u64 {
            let len = MSS.min(self.stream.len() as u64 - self.sent);
            let flight = self.sent - self.acked;
            let is_held = nagle && len < MSS && flight > 0;
            if is_held || flight + len > receive_window.min(send_buffer).min(self.cwnd) {
                return;
            }
            let begin_ns = self.line_free_ns.max(t_ns);
            self.line_free_ns = begin_ns + (len + 40) * 1_000_000_000 / self.scene.line_bytes_per_s;
            let event = Event::Segment(self.sent, self.sent + len, self.arrived);
            self.at(self.line_free_ns + rtt_ns / 2, event);
            self.sent += len;
            self.last_sent_ns = t_ns;
        }
    }

    /// A segment passes the tap and arrives.
    fn receive(&mut self, t_ns: u64, (start, end): (u64, u64), commands: u64) {
        let bytes = &self.stream[start as usize..end as usize];
        let upto = 1 + commands * BHS as u64;
        self.frames.push((t_ns, frame(1, 1 + start, Some(upto), 0x18, 4096, bytes)));
        self.initiator.received = end;
        let mut has_ended = false;
        while let Some((_, max_cmd_sn)) = self.ends.front().copied().filter(|(at, _)| *at <= end) {
            self.ends.pop_front();
            self.initiator.completed += 1;
            self.initiator.max_cmd_sn = max_cmd_sn;
            self.last_ns = t_ns;
            has_ended = true;
        }
        if has_ended {
            self.issue(t_ns + 1_000);
        }
        match self.scene.nagle {
            true => self.at(t_ns + 40 * MS, Event::DelayedAck(end)),
            false if self.initiator.ack_sent < self.initiator.received => self.acknowledge(t_ns + 2_000),
            false => {}
        }
    }

    fn acknowledge(&mut self, t_ns: u64) {
        let seq = 1 + self.initiator.issued * BHS as u64;
        self.frames.push((t_ns, frame(0, seq, Some(1 + self.initiator.received), 0x10, self.window(), &[])));
        self.initiator.ack_sent = self.initiator.received;
        self.at(t_ns + self.scene.rtt_ns / 2, Event::Ack(self.initiator.received));
    }

    /// The initiator sends as many commands as it may.
    fn issue(&mut self, t_ns: u64) {
        let Scene { depth, commands, block, rtt_ns, .. } = self.scene;
        while self.initiator.issued < commands
            && self.initiator.issued - self.initiator.completed < depth
            && self.initiator.issued < self.initiator.max_cmd_sn
        {
            let mut header = [0; BHS];
            (header[0], header[1]) = (0x01, 0xc1);
            let number = self.initiator.issued + 1;
            header[16..20].copy_from_slice(&(number as u32 | 0x100).to_be_bytes());
            header[20..24].copy_from_slice(&(block as u32).to_be_bytes());
            header[24..28].copy_from_slice(&(number as u32).to_be_bytes());
            header[28..32].copy_from_slice(&(self.initiator.completed as u32 + 1).to_be_bytes());
            header[32] = 0x28;
            let seq = 1 + self.initiator.issued * BHS as u64;
            let ack = Some(1 + self.initiator.received);
            self.frames.push((t_ns, frame(0, seq, ack, 0x18, self.window(), &header)));
            self.initiator.ack_sent = self.initiator.received;
            self.initiator.issued += 1;
            self.at(t_ns + rtt_ns / 2, Event::Ack(self.initiator.received));
            self.at(t_ns + rtt_ns / 2, Event::Command(number));
        }
    }
}

/// A frame of Ethernet, IPv4 and TCP; `seq` and `ack` count from the SYN.
fn frame(direction: u8, seq: u64, ack: Option<u64>, flags: u8, window: u16, payload: &[u8]) -> Vec<u8> {
    let options: &[u8] =
        if flags & 0x02 != 0 { &[2, 4, (MSS >> 8) as u8, MSS as u8, 3, 3, SHIFT, 1] } else { &[] };
    let mut frame = vec![0; 14];
    (frame[12], frame[13]) = (8, 0);
    let mut ip = [0_u8; 20];
    (ip[0], ip[9]) = (0x45, 6);
    ip[2..4].copy_from_slice(&((40 + options.len() + payload.len()) as u16).to_be_bytes());
    (ip[12], ip[15], ip[16], ip[19]) = (10, direction, 10, 1 - direction);
    // Packets have numbers of their own, so that none is taken for a copy.
    ip[4..6].copy_from_slice(&(((seq ^ ack.unwrap_or(0).rotate_left(5)) % 65_521) as u16).to_be_bytes());
    let mut tcp = [0_u8; 20];
    let ports = [40_000_u16, 3260];
    let from = usize::from(direction);
    tcp[..2].copy_from_slice(&ports[from].to_be_bytes());
    tcp[2..4].copy_from_slice(&ports[1 - from].to_be_bytes());
    tcp[4..8].copy_from_slice(&(seq as u32).to_be_bytes());
    tcp[8..12].copy_from_slice(&(ack.unwrap_or(0) as u32).to_be_bytes());
    (tcp[12], tcp[13]) = (((20 + options.len()) as u8) << 2, flags);
    tcp[14..16].copy_from_slice(&window.to_be_bytes());
    frame.extend(ip);
    frame.extend(tcp);
    frame.extend(options);
    frame.extend(payload);
    frame
}
