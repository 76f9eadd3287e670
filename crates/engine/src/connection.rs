//! One TCP connection in a loop: its socket, both halves, what it waits for, and what the kernel says
//! of it.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;

use control::{Arrived, Burst, BurstStart, Claim, Decision, Met};
use event::{Host, Instant, Login, SocketSample, WindowNotice};
use net::{Interest, Poll, Ready, TcpInfo, clock, tcp, tcp_info};

use crate::advice::buffer_advice;
use crate::digest::Digests;
use crate::gate::Gate;
use crate::rx::{Receiver, Rx, Scratch, Stop};
use crate::sample::{BlackHole, Moved, socket_sample};
use crate::spacing::Spacing;
use crate::stamping::{Departed, Stamped, Stamping};
use crate::steering::{Course, Steering, Work};
use crate::tx::{Sender, Stamps, Tx};

/// What one connection may do in a turn before others get theirs, in each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quantum {
    /// Bytes moved.
    pub bytes: usize,
    /// PDUs received: what they ask for may cost more than their bytes.
    pub pdus: usize,
}

impl Quantum {
    /// For a connection that nobody waits for.
    pub const ALONE: Quantum = Quantum { bytes: 4 << 20, pdus: usize::MAX };
    /// For connections that share a loop: a turn is a few tens of microseconds, which is what another one
    /// with a single request waits. It costs a look at the poll more for each 64 KiB.
    pub const SHARED: Quantum = Quantum { bytes: 64 << 10, pdus: 32 };
}

/// How far a turn of reading or writing got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Nothing is left to do until the socket or its owner says so, or [`Connection::resume_at`].
    Waits,
    /// There is more to do at once; others come first.
    More,
}

/// A connection.
#[derive(Debug)]
pub struct Connection<P, D> {
    stream: TcpStream,
    token: u64,
    interest: Interest,
    rx: Rx<P>,
    tx: Tx<D>,
    steering: Steering,
    spacing: Spacing,
    /// What is handed over by hand goes through it, if others are there.
    gate: Option<Gate>,
    /// What waits has had to wait for others since the last look.
    was_in_turn: bool,
    /// Of the burst at hand, and how much of it is left; `None` between bursts.
    burst: Option<(BurstStart, u64)>,
    /// Something is held back until then.
    resume_at: Option<Instant>,
    /// The most payload that has waited at one time since the last look.
    burst_bytes: u64,
    acked_bytes: u64,
    quantum: Quantum,
    stamping: Option<Stamping>,
    joins_writes: bool,
    departed: Vec<Departed>,
    black_hole: Option<BlackHole>,
    has_black_hole: bool,
}

impl<P, D> Connection<P, D> {
    /// Adds a prepared socket to a loop under `token`.
    pub fn new(stream: TcpStream, poll: &Poll, token: u64, course: Course) -> io::Result<Connection<P, D>> {
        let steering = Steering::new(&stream, course)?;
        poll.add(stream.as_fd(), token, Interest::READ)?;
        Ok(Connection {
            stream,
            token,
            interest: Interest::READ,
            rx: Rx::new(),
            tx: Tx::new(),
            steering,
            spacing: Spacing::new(),
            gate: None,
            was_in_turn: false,
            burst: None,
            resume_at: None,
            burst_bytes: 0,
            acked_bytes: 0,
            quantum: Quantum::ALONE,
            stamping: None,
            joins_writes: false,
            departed: Vec::new(),
            black_hole: None,
            has_black_hole: false,
        })
    }

    /// Its socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// PDUs carry these digests from now on: those whose header has not been read, and those that have not
    /// been taken from a sender.
    pub fn set_digests(&mut self, digests: Digests) {
        self.rx.set_digests(digests);
        self.tx.set_digests(digests);
    }

    /// What it hands over by hand goes through `gate` from now on.
    pub fn go_through(&mut self, gate: Gate) {
        self.gate = Some(gate);
    }

    /// From now on a turn is this long; [`Quantum::ALONE`] unless told.
    pub fn set_quantum(&mut self, quantum: Quantum) {
        self.quantum = quantum;
    }

    /// PDUs whose marks ask for it have the kernel's times from now on: see [`Connection::stamped`].
    pub fn start_stamping(&mut self) -> io::Result<()> {
        self.stamping = Some(Stamping::start(&self.stream, self.tx.sent_bytes())?);
        Ok(())
    }

    /// Stamps must not change how PDUs are written: where Nagle's algorithm looks at writes, a PDU has the times of
    /// the last byte that was written with it.
    pub fn join_stamped_writes(&mut self) {
        self.joins_writes = true;
    }

    /// To be called when its socket is ready: takes the kernel's times out of the error queue; what it is ready for
    /// besides.
    pub fn ready(&mut self, ready: Ready) -> Ready {
        match &mut self.stamping {
            Some(stamping) if ready.has_error && ready.is_sound() => match stamping.collect(&self.stream) {
                Ok(true) => ready.without_error(),
                // Whatever it is, reading or writing will say so.
                Ok(false) | Err(_) => ready,
            },
            _ => ready,
        }
    }

    /// Marked PDUs that the socket has taken since the last call: to be called after every turn of sending.
    pub fn departed(&mut self) -> std::vec::Drain<'_, Departed> {
        self.departed.drain(..)
    }

    /// Marked PDUs with the kernel's times since the last call, in the order in which they were sent; those that are
    /// not acknowledged when the connection ends are not among them.
    pub fn stamped(&mut self) -> impl Iterator<Item = Stamped> + '_ {
        self.stamping.as_mut().map(Stamping::finished).into_iter().flatten()
    }

    /// Reads what has arrived.
    pub fn receive<R: Receiver<Place = P>>(
        &mut self,
        scratch: &mut Scratch,
        receiver: &mut R,
    ) -> Result<Progress, Stop<R::Error>> {
        let more = self.rx.receive(&self.stream, scratch, receiver, self.quantum)?;
        Ok(if more { Progress::More } else { Progress::Waits })
    }

    /// Writes what `sender` has, until it has no more, the socket is full, or others must come first.
    /// `unsent_bytes` is payload that waits to be polled.
    pub fn send<S: Sender<Data = D>>(
        &mut self,
        poll: &Poll,
        sender: &mut S,
        unsent_bytes: u64,
    ) -> io::Result<Progress> {
        let mut total = 0;
        self.resume_at = None;
        self.burst_bytes = self.burst_bytes.max(unsent_bytes);
        loop {
            self.tx.fill(sender);
            if self.tx.is_empty() {
                self.end_burst();
                self.gate().inspect(|gate| gate.leave());
                self.wait_for(poll, Interest { writable: false, ..self.interest })?;
                return Ok(Progress::Waits);
            }
            if total >= self.quantum.bytes {
                return Ok(Progress::More);
            }
            let is_timed = self.spacing.is_on() || self.gate().is_some();
            let now = if is_timed { clock::now() } else { Instant::ZERO };
            let room = match self.room(now) {
                Ok(room) => room,
                Err(resume_at) => {
                    self.resume_at = Some(resume_at);
                    self.wait_for(poll, Interest { writable: false, ..self.interest })?;
                    return Ok(Progress::Waits);
                }
            };
            let has_room = self.stamping.as_ref().is_some_and(Stamping::has_room);
            self.tx.stamps = match (has_room, self.joins_writes) {
                (false, _) => Stamps::Off,
                (true, false) => Stamps::Each,
                (true, true) => Stamps::Joined,
            };
            match self.tx.write(&self.stream, sender, room.min(self.quantum.bytes - total)) {
                Ok(written) => {
                    total += written.bytes;
                    self.spacing.take(now, written.bytes);
                    if let Some(gate) = self.gate() {
                        gate.take(now, written.bytes);
                    }
                    self.count_burst(written.bytes as u64);
                    for (departed, stamp) in self.tx.departed() {
                        self.departed.push(departed);
                        if let (Some(stamping), Some(stamp)) = (&mut self.stamping, stamp) {
                            stamping.await_stamps(departed.tag, stamp.0);
                        }
                    }
                    if written.is_all {
                        continue;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.gate().inspect(|gate| gate.pause());
            self.wait_for(poll, Interest { writable: true, ..self.interest })?;
            return Ok(Progress::Waits);
        }
    }

    /// How much of what is queued may go out at `now`, which is something; or when to ask again.
    fn room(&mut self, now: Instant) -> Result<usize, Instant> {
        let waiting_bytes = self.tx.waiting_bytes();
        let begins_at = self.burst.map(|(start, _)| start.at);
        let begins_at = begins_at.filter(|at| self.spacing.is_on() && now < *at);
        let own = if begins_at.is_some() { 0 } else { self.spacing.room(now, waiting_bytes) };
        if own == 0 {
            if !self.burst.is_some_and(|(start, _)| start.keeps_others) {
                self.gate().inspect(|gate| gate.pause());
            }
            return Err(begins_at.unwrap_or_else(|| self.spacing.resume_at(waiting_bytes)));
        }
        let Some(gate) = self.gate() else { return Ok(own) };
        let is_bulk = self.steering.hands_over();
        let room = if is_bulk { gate.room(now, own) } else { gate.room_in_turn(now, own) };
        if room > 0 {
            return Ok(room.min(own));
        }
        let resume_at = if is_bulk { gate.resume_at(own) } else { gate.resume_in_turn_at(now, own) };
        self.was_in_turn |= !is_bulk;
        Err(resume_at)
    }

    /// What is sent goes through it.
    fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref().filter(|_| self.steering.is_gated())
    }

    /// A burst of a lone request's data that is about to begin, if what waits is one: see [`Connection::start_burst`].
    /// `unsent_bytes` is payload that waits to be polled.
    pub fn next_burst(&self, unsent_bytes: u64) -> Option<Burst> {
        let burst = self.spacing.burst(unsent_bytes + self.tx.waiting_bytes() as u64)?;
        let is_bulk = self.steering.claim().is_some();
        (self.burst.is_none() && !is_bulk).then_some(burst)
    }

    /// Nothing of the burst that is about to begin goes out before its time. What comes behind its bytes is another burst.
    pub fn start_burst(&mut self, burst: Burst, start: BurstStart) {
        self.burst = Some((start, burst.bytes));
        self.space(self.steering.decision());
    }

    fn count_burst(&mut self, bytes: u64) {
        let Some((_, left_bytes)) = &mut self.burst else { return };
        *left_bytes = left_bytes.saturating_sub(bytes);
        if *left_bytes == 0 {
            self.end_burst();
        }
    }

    fn end_burst(&mut self) {
        if self.burst.take().is_some() {
            self.space(self.steering.decision());
        }
    }

    fn space(&mut self, decision: Decision) {
        let least = self.burst.map_or(0, |(start, _)| start.least_bytes_per_s);
        let rate = decision.burst_bytes_per_s.map(|rate| rate.max(least));
        self.spacing.set(rate, decision.burst_depth_bytes, self.steering.packet_bytes());
        let is_bulk = self.steering.hands_over();
        self.spacing.set_goes_on(self.gate().is_some_and(|gate| is_bulk || gate.is_shut()));
    }

    /// The last train of a lone request's data, as its policy has measured it.
    pub fn arrived(&self) -> Option<Arrived> {
        self.steering.arrived()
    }

    /// When to send again although neither the socket nor its owner says so: some of what is sent is held back.
    pub fn resume_at(&self) -> Option<Instant> {
        self.resume_at
    }

    /// Stops or resumes reading, so that a peer feels that we have no room.
    pub fn set_reading(&mut self, poll: &Poll, reading: bool) -> io::Result<()> {
        self.wait_for(poll, Interest { readable: reading, ..self.interest })
    }

    /// Gives memory back that an idle connection does not need: to be called when nothing has happened for a
    /// while.
    pub fn rest(&mut self) {
        self.rx.rest();
        self.tx.rest();
    }

    /// Whether something is queued that the socket has not taken.
    pub fn has_unsent(&self) -> bool {
        !self.tx.is_empty()
    }

    /// Memory of what has arrived and was not taken, and of what the socket has not taken, payload apart.
    pub fn held_bytes(&self) -> usize {
        self.rx.held_bytes() + self.tx.held_bytes()
    }

    /// What names the data of PDUs that the socket has not taken.
    pub fn unsent_data(&self) -> impl Iterator<Item = &D> {
        self.tx.unsent_data()
    }

    /// Returns true while a PDU is sent in part, or waits to be.
    pub fn is_sending(&self) -> bool {
        !self.tx.is_empty()
    }

    /// Application payload received so far.
    pub fn received_payload_bytes(&self) -> u64 {
        self.rx.payload_bytes()
    }

    /// Application payload handed to the socket so far.
    pub fn sent_payload_bytes(&self) -> u64 {
        self.tx.payload_bytes()
    }

    /// The row of the table `sockets` for the connection as it is at `t`.
    pub fn sample(&self, t: Instant, host: Host) -> io::Result<SocketSample> {
        self.row(t, host, 0, 0).map(|(_, sample)| sample)
    }

    /// Like [`Connection::sample`], and shows it to the policy, whose decision is in force afterwards.
    /// `unsent_bytes` is payload that waits to be polled, `request_bytes` the mean request of late; `has_company` if others
    /// that go out here have moved data of late.
    pub fn look(
        &mut self,
        t: Instant,
        host: Host,
        unsent_bytes: u64,
        request_bytes: u64,
        has_company: bool,
    ) -> io::Result<(SocketSample, Decision)> {
        let (info, mut sample) = self.row(t, host, unsent_bytes, request_bytes)?;
        let work = Work {
            received_bytes: sample.app_rx_bytes,
            unsent_bytes,
            burst_bytes: std::mem::take(&mut self.burst_bytes),
            was_spaced: self.spacing.take_short() | std::mem::take(&mut self.was_in_turn),
            handed_bytes_per_s: self.spacing.handed_bytes_per_s(),
            has_company,
            request_bytes,
        };
        let (decision, steered) = self.steering.look(&self.stream, t, &info, work)?;
        sample.steered = Some(steered);
        self.space(decision);
        self.acked_bytes = info.acked_bytes;
        if !self.has_black_hole {
            self.black_hole = BlackHole::of_sent(&info);
            self.has_black_hole = self.black_hole.is_some();
        }
        Ok((sample, decision))
    }

    /// Path MTU black hole for what this end sends, once it has been seen; once.
    pub fn take_black_hole(&mut self) -> Option<BlackHole> {
        self.black_hole.take()
    }

    /// Bytes that the peer's TCP had acknowledged at the last look.
    pub fn acked_bytes(&self) -> u64 {
        self.acked_bytes
    }

    /// The other end, which sends the payload, tells of its window.
    pub fn told(&mut self, notice: &WindowNotice) {
        self.steering.told(notice);
    }

    /// What this end could tell of its window; once.
    pub fn take_notice(&mut self) -> Option<WindowNotice> {
        self.steering.take_notice()
    }

    /// What it claims of the line.
    pub fn claim(&self) -> Option<Claim> {
        self.steering.claim()
    }

    /// What it shows, as one who sends a block now and then, of the device that takes it.
    pub fn met(&self) -> Option<Met> {
        self.steering.met()
    }

    /// What the other end claims of the line by what it sends here.
    pub fn claim_of_peer(&self) -> Option<Claim> {
        self.steering.claim_of_peer()
    }

    /// The other end says at `now` what it leaves it of the line.
    pub fn left(&mut self, bytes_per_s: Option<u64>, now: Instant) {
        self.steering.left(bytes_per_s, now);
    }

    /// What it is left of the line.
    pub fn grant(&mut self, bytes_per_s: Option<u64>) {
        self.steering.grant(bytes_per_s);
    }

    /// What the policy says now.
    pub fn decision(&self) -> Decision {
        self.steering.decision()
    }

    /// Bandwidth-delay product of the path, as far as it was measured, in bytes.
    pub fn product_bytes(&self) -> u64 {
        self.steering.product_bytes()
    }

    /// The row of the table `sessions` for this connection: what was agreed, and how its socket is set.
    pub fn login(&self, t: Instant, agreed: Login) -> io::Result<Login> {
        let (receive, send) = tcp::buffer_limits(&self.stream)?;
        Ok(Login {
            t,
            connection: self.token as u32,
            has_nagle: !self.stream.nodelay()?,
            send_buffer_max_bytes: send,
            receive_buffer_max_bytes: receive,
            ..agreed
        })
    }

    /// What to change about this host if its limits for socket buffers may be what holds the path back.
    pub fn advice(&self) -> Option<String> {
        let receives = self.received_payload_bytes() > self.sent_payload_bytes();
        buffer_advice(self.steering.product_bytes(), receives)
    }

    fn row(
        &self,
        t: Instant,
        host: Host,
        unsent_bytes: u64,
        request_bytes: u64,
    ) -> io::Result<(TcpInfo, SocketSample)> {
        let info = tcp_info::read(&self.stream)?;
        let (rx_bytes, tx_bytes) = (self.received_payload_bytes(), self.sent_payload_bytes());
        let moved = Moved { rx_bytes, tx_bytes, unsent_bytes, request_bytes };
        Ok((info, socket_sample(t, host, self.token as u32, &info, moved)))
    }

    fn wait_for(&mut self, poll: &Poll, interest: Interest) -> io::Result<()> {
        if self.interest != interest {
            poll.modify(self.stream.as_fd(), self.token, interest)?;
            self.interest = interest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
