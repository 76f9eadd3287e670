//! Two hosts and the path between them, in virtual time: from event to event, never from tick to tick.
//!
//! The hosts themselves take no time: what they are asked when a packet arrives, they answer at that very
//! nanosecond. So every figure that comes out is due to the protocol, the pipe and the path.

use std::collections::VecDeque;

use control::{Choice, CongestionSeen, Observation, Policy};
use event::{CongestionState, Instant, MayChange};
use link::{Path, Shape, Stage};
use proto::params::Wishes;

use crate::frame::{Deframer, encode};
use crate::load::{Running, memory};
use crate::pipe::{Pipe, Segment, packet};
use crate::{Agreed, Far, Load, Near, Outcome, Rules, agree};

/// Both ends of a session and what is between them.
#[derive(Debug)]
pub struct World {
    now: Instant,
    near: Near,
    far: Far,
    rules: Rules,
    there: Direction,
    back: Direction,
    policy: Box<dyn Policy>,
    look_at: Instant,
}

/// One direction: the sender's pipe, the path, the receiver's deframer.
#[derive(Debug)]
struct Direction {
    pipe: Pipe,
    path: Path,
    /// What is on the path, in its order.
    segments: VecDeque<Segment>,
    deframer: Deframer,
    arrived_bytes: u64,
    /// The receiver owes an acknowledgement.
    owes_ack: bool,
}

impl Direction {
    fn new(shape: &Shape, window_max_bytes: u64) -> Direction {
        Direction {
            pipe: Pipe::new(window_max_bytes),
            path: Path::new(shape),
            segments: VecDeque::new(),
            deframer: Deframer::default(),
            arrived_bytes: 0,
            owes_ack: false,
        }
    }

    fn push(&mut self, now: Instant, len_bytes: u32, ack_bytes: u64) {
        let taken = self.path.push(now, packet(now, len_bytes));
        assert!(taken.is_ok(), "the queue is as long as the windows are large");
        self.segments.push_back(Segment { len_bytes, ack_bytes });
    }

    /// Sends what the window lets go, with the acknowledgement that `other` owes; that one alone if need be.
    fn send(&mut self, now: Instant, other: &mut Direction) {
        while let Some(len_bytes) = self.pipe.send(now) {
            self.push(now, len_bytes, other.arrived_bytes);
            other.owes_ack = false;
        }
        if std::mem::take(&mut other.owes_ack) {
            self.push(now, 0, other.arrived_bytes);
        }
    }

    /// Takes a packet that has arrived by `now`; the acknowledgement in it is for `other`.
    fn take(&mut self, now: Instant, other: &mut Direction, scratch: &mut Vec<u8>) -> bool {
        if self.path.pop(now).is_none() {
            return false;
        }
        let segment = self.segments.pop_front().expect("what leaves the path has entered it");
        other.pipe.acknowledge(now, segment.ack_bytes);
        if segment.len_bytes > 0 {
            self.pipe.arrive(segment.len_bytes, scratch);
            self.deframer.push(scratch);
            self.arrived_bytes += u64::from(segment.len_bytes);
            self.owes_ack = true;
        }
        true
    }
}

impl World {
    /// A session that has just been logged in to over a path of `shape`, whose target lets `window` commands
    /// be open. TCP's windows grow up to `window_max_bytes`.
    ///
    /// # Panics
    /// If the path's queue could not hold the windows: this pipe cannot lose anything.
    pub fn new(shape: &Shape, window: u32, window_max_bytes: u64) -> World {
        assert!(shape.queue_bytes >= 2 * window_max_bytes, "a queue for both windows' packets");
        let Agreed { near, far } = agree(Wishes::default(), window);
        World {
            now: Instant::ZERO,
            rules: Rules::new(&near.params, near.cmd_sn, near.exp_stat_sn, near.max_cmd_sn),
            near: Near::new(near.params, near.cmd_sn, near.max_cmd_sn, near.exp_stat_sn),
            far: Far::new(far.params, far.exp_cmd_sn, far.stat_sn, window, memory()),
            there: Direction::new(shape, window_max_bytes),
            back: Direction::new(shape, window_max_bytes),
            policy: Choice::Auto.policy(),
            look_at: Instant::ZERO,
        }
    }

    /// The far end.
    pub fn far(&self) -> &Far {
        &self.far
    }

    /// Runs a load from the beginning of time to its end.
    pub fn run(&mut self, load: Load) -> Outcome {
        let mut running = Running::new(load);
        let mut scratch = Vec::new();
        while self.now <= running.end() {
            while self.there.take(self.now, &mut self.back, &mut scratch) {
                self.far_takes();
            }
            while self.back.take(self.now, &mut self.there, &mut scratch) {
                self.near_takes(&mut running);
            }
            self.look(&running);
            running.issue(self.now, &mut self.near, self.policy.decide().outstanding_bytes);
            self.write_and_send();
            let next = [self.there.path.next_at(), self.back.path.next_at(), Some(self.look_at)];
            self.now = next.into_iter().flatten().min().expect("the policy always looks again").max(self.now);
        }
        running.check_memory(self.far.memory());
        running.outcome()
    }

    fn far_takes(&mut self) {
        while let Some((header, data)) = self.there.deframer.pop() {
            self.far.take(&header, data).expect("our initiator keeps the protocol");
        }
    }

    fn near_takes(&mut self, running: &mut Running) {
        while let Some((header, data)) = self.back.deframer.pop() {
            self.rules.near_takes(&header);
            self.near.take(&header, data).expect("our target keeps the protocol");
            while let Some(done) = self.near.done() {
                running.done(self.now, &done);
            }
        }
    }

    /// Shows the policy of the near end what it would see of its socket.
    fn look(&mut self, running: &Running) {
        if self.now < self.look_at {
            return;
        }
        let (rtt, min_rtt) = self.there.pipe.rtt();
        let unsent = self.there.pipe.notsent_bytes() as u64 + self.near.session().unsent_payload_bytes(0);
        self.policy.observe(&Observation {
            now: self.now,
            rtt,
            min_rtt,
            moved_bytes: self.back.arrived_bytes + self.there.pipe.acked_bytes(),
            received_bytes: self.back.arrived_bytes,
            // Only pacing looks at it, and this pipe is not paced.
            delivery_rate_bytes_per_s: 0,
            app_limited: true,
            retransmitted_packets: 0,
            lost_packets: 0,
            timeouts: 0,
            marked_packets: 0,
            busy: core::time::Duration::ZERO,
            delivered_packets: 0,
            unacked_packets: 0,
            mss_bytes: 1448,
            cwnd_packets: 0,
            peer_window_bytes: 0,
            ssthresh_packets: u32::MAX,
            state: CongestionState::Open,
            backlog_bytes: unsent,
            burst_bytes: unsent,
            was_spaced: false,
            handed_bytes_per_s: 0,
            has_company: false,
            paces_itself: false,
            congestion: CongestionSeen { may_change: MayChange::Locked, ..CongestionSeen::default() },
            paced_one_by_one: false,
            forgets_freely: false,
            request_bytes: running.request_bytes(),
        });
        self.look_at = self.now + self.policy.decide().look_again;
    }

    /// Lets both ends write and send until their windows are full or they have no more.
    fn write_and_send(&mut self) {
        loop {
            let mut has_written = false;
            while self.there.pipe.wants_bytes() {
                let Some(pdu) = self.near.poll_transmit() else { break };
                self.rules.near_sent(&pdu.header);
                encode(&pdu, self.there.pipe.writer());
                has_written = true;
            }
            while self.back.pipe.wants_bytes() {
                let Some(pdu) = self.far.poll_transmit() else { break };
                self.rules.far_sent(&pdu.header);
                encode(&pdu, self.back.pipe.writer());
                has_written = true;
            }
            self.there.send(self.now, &mut self.back);
            self.back.send(self.now, &mut self.there);
            if !has_written {
                return;
            }
        }
    }
}
