//! One TCP connection of an event loop: socket, receive and send half, poll interest and TCP_INFO samples.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;

use control::{Arrived, Burst, BurstStart, Claim, Decision, Met, Route};
use event::{Host, Instant, Login, SocketSample, WindowNotice};
use net::{Interest, Poll, Ready, TcpInfo, clock, tcp, tcp_info};

use crate::pacing::gate::Gate;
use crate::pacing::steering::{Course, Steering, Work};
use crate::pacing::token_bucket::TokenBucket;
use crate::pdu::digest::Digests;
use crate::pdu::quantum::Quantum;
use crate::pdu::rx::{Receiver, Rx, Scratch, Stop};
use crate::pdu::stamping::{Departed, Stamped, Stamping};
use crate::pdu::tx::{Sender, Stamps, Tx};
use crate::tcp::advice::buffer_advice;
use crate::tcp::black_hole::BlackHole;
use crate::tcp::congestion::{CongestionChange, RouteMemory, route_of};
use crate::tcp::sample::{Moved, socket_sample};

/// Result of a turn of reading or writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// No work until the socket is ready, its owner has data, or [`Connection::resume_at`] has come.
    Waits,
    /// The quantum is used up and more work is ready.
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
    bucket: TokenBucket,
    /// Token bucket that connections of one device share; paced data pass through it.
    gate: Option<Gate>,
    /// Queued data waited for other connections since the last sample.
    was_in_turn: bool,
    /// Start of the current burst and its remaining bytes; `None` between bursts.
    burst: Option<(BurstStart, u64)>,
    /// Time of the next paced send; `None` if no data are held back.
    resume_at: Option<Instant>,
    /// Largest amount of unsent payload since the last sample.
    burst_bytes: u64,
    acked_bytes: u64,
    quantum: Quantum,
    stamping: Option<Stamping>,
    joins_writes: bool,
    departed: Vec<Departed>,
    black_hole: Option<BlackHole>,
    has_black_hole: bool,
    routes: RouteMemory,
    route: Option<Route>,
}

impl<P, D> Connection<P, D> {
    /// Adds a prepared socket to a loop under `token`.
    pub fn new(stream: TcpStream, poll: &Poll, token: u64, course: Course) -> io::Result<Connection<P, D>> {
        let steering = Steering::new(&stream, course)?;
        poll.add(stream.as_fd(), token, Interest::READ)?;
        let route = route_of(&stream);
        Ok(Connection {
            stream,
            token,
            interest: Interest::READ,
            rx: Rx::new(),
            tx: Tx::new(),
            steering,
            bucket: TokenBucket::new(),
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
            routes: RouteMemory::default(),
            route,
        })
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sets the digests of later PDUs: received ones whose header has not been read, and sent ones that have not
    /// been taken from the sender.
    pub fn set_digests(&mut self, digests: Digests) {
        self.rx.set_digests(digests);
        self.tx.set_digests(digests);
    }

    /// Sends paced data through `gate` from now on.
    pub fn go_through(&mut self, gate: Gate) {
        self.gate = Some(gate);
    }

    /// Shares verdicts on routes with other connections of this loop from now on.
    pub fn share_routes(&mut self, routes: RouteMemory) {
        self.routes = routes;
    }

    /// Sets the quantum of later turns; the default is [`Quantum::ALONE`].
    pub fn set_quantum(&mut self, quantum: Quantum) {
        self.quantum = quantum;
    }

    /// Enables kernel timestamps for PDUs whose mark requests them; see [`Connection::stamped`].
    pub fn start_stamping(&mut self) -> io::Result<()> {
        self.stamping = Some(Stamping::start(&self.stream, self.tx.sent_bytes())?);
        Ok(())
    }

    /// Keeps timestamps from splitting writes, on whose sizes Nagle's algorithm depends: a PDU gets the times of the
    /// last byte of its write.
    pub fn join_stamped_writes(&mut self) {
        self.joins_writes = true;
    }

    /// Handles readiness of the socket: drains kernel timestamps from the error queue and returns the remaining
    /// readiness.
    pub fn ready(&mut self, ready: Ready) -> Ready {
        match &mut self.stamping {
            Some(stamping) if ready.has_error && ready.is_sound() => match stamping.collect(&self.stream) {
                Ok(true) => ready.without_error(),
                // Errors show at the next read or write.
                Ok(false) | Err(_) => ready,
            },
            _ => ready,
        }
    }

    /// Drains the marked PDUs that the socket has accepted since the last call. Call it after every turn of sending.
    pub fn departed(&mut self) -> std::vec::Drain<'_, Departed> {
        self.departed.drain(..)
    }

    /// Marked PDUs with the kernel's timestamps since the last call, in sending order. PDUs unacknowledged at the end
    /// of the connection are left out.
    pub fn stamped(&mut self) -> impl Iterator<Item = Stamped> + '_ {
        self.stamping.as_mut().map(Stamping::finished).into_iter().flatten()
    }

    /// Reads received bytes and passes their PDUs to `receiver`, up to the quantum.
    pub fn receive<R: Receiver<Place = P>>(
        &mut self,
        scratch: &mut Scratch,
        receiver: &mut R,
    ) -> Result<Progress, Stop<R::Error>> {
        let more = self.rx.receive(&self.stream, scratch, receiver, self.quantum)?;
        Ok(if more { Progress::More } else { Progress::Waits })
    }

    /// Writes PDUs of `sender` until it has none, the socket buffer is full, or the quantum is used up.
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
            let is_timed = self.bucket.is_on() || self.gate().is_some();
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
                    self.bucket.take(now, written.bytes);
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

    /// Returns the queued bytes that may go out at `now`, at least 1, or the time of the next attempt.
    fn room(&mut self, now: Instant) -> Result<usize, Instant> {
        let waiting_bytes = self.tx.waiting_bytes();
        let begins_at = self.burst.map(|(start, _)| start.at);
        let begins_at = begins_at.filter(|at| self.bucket.is_on() && now < *at);
        let own = if begins_at.is_some() { 0 } else { self.bucket.room(now, waiting_bytes) };
        if own == 0 {
            if !self.burst.is_some_and(|(start, _)| start.keeps_others) {
                self.gate().inspect(|gate| gate.pause());
            }
            return Err(begins_at.unwrap_or_else(|| self.bucket.resume_at(waiting_bytes)));
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

    /// The gate, if sent data must pass it.
    fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref().filter(|_| self.steering.is_gated())
    }

    /// Returns the burst that queued data of a lone request form; see [`Connection::start_burst`].
    /// `unsent_bytes` is payload that waits to be polled.
    pub fn next_burst(&self, unsent_bytes: u64) -> Option<Burst> {
        let burst = self.bucket.burst(unsent_bytes + self.tx.waiting_bytes() as u64)?;
        let is_bulk = self.steering.claim().is_some();
        (self.burst.is_none() && !is_bulk).then_some(burst)
    }

    /// Starts a burst. Its bytes go out no earlier than `start.at`; later bytes belong to another burst.
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
        self.bucket.set(rate, decision.burst_depth_bytes, self.steering.packet_bytes());
        let is_bulk = self.steering.hands_over();
        self.bucket.set_goes_on(self.gate().is_some_and(|gate| is_bulk || gate.is_shut()));
    }

    /// Returns the policy's measurement of the last packet train of a lone request.
    pub fn arrived(&self) -> Option<Arrived> {
        self.steering.arrived()
    }

    /// Time of the next paced send; `None` if no data are held back by pacing.
    pub fn resume_at(&self) -> Option<Instant> {
        self.resume_at
    }

    /// Stops or resumes reading. A stopped socket closes the receive window towards the peer.
    pub fn set_reading(&mut self, poll: &Poll, reading: bool) -> io::Result<()> {
        self.wait_for(poll, Interest { readable: reading, ..self.interest })
    }

    /// Releases the buffers of an idle connection.
    pub fn rest(&mut self) {
        self.rx.rest();
        self.tx.rest();
    }

    /// Returns true if queued bytes have not been written to the socket.
    pub fn has_unsent(&self) -> bool {
        !self.tx.is_empty()
    }

    /// Memory of unprocessed received bytes and of unsent bytes, without payload.
    pub fn held_bytes(&self) -> usize {
        self.rx.held_bytes() + self.tx.held_bytes()
    }

    /// Data references of PDUs that are not completely written to the socket.
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

    /// Application payload written to the socket so far.
    pub fn sent_payload_bytes(&self) -> u64 {
        self.tx.payload_bytes()
    }

    /// The row of the table `sockets` for the connection as it is at `t`.
    pub fn sample(&self, t: Instant, host: Host) -> io::Result<SocketSample> {
        self.row(t, host, 0, 0).map(|(_, sample)| sample)
    }

    /// Samples like [`Connection::sample`], passes the sample to the policy and applies the decision.
    /// `unsent_bytes`: payload not polled yet. `request_bytes`: recent mean request size.
    /// `has_company`: other connections of the same device moved data recently.
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
            was_spaced: self.bucket.take_short() | std::mem::take(&mut self.was_in_turn),
            handed_bytes_per_s: self.bucket.handed_bytes_per_s(),
            has_company,
            request_bytes,
            remembered: self.route.map(|route| self.routes.remembered(route, t)).unwrap_or_default(),
        };
        let (decision, steered) = self.steering.look(&self.stream, t, &info, work)?;
        sample.steered = Some(steered);
        if let Some(route) = self.route {
            self.routes.note(route, &decision.congestion, t);
        }
        self.space(decision);
        self.acked_bytes = info.acked_bytes;
        if !self.has_black_hole {
            self.black_hole = BlackHole::of_sent(&info);
            self.has_black_hole = self.black_hole.is_some();
        }
        Ok((sample, decision))
    }

    /// Takes the path MTU black hole detected for sent segments; each is returned once.
    pub fn take_black_hole(&mut self) -> Option<BlackHole> {
        self.black_hole.take()
    }

    /// Takes the last change of the congestion control; of refusals the first one of all connections that share routes.
    pub fn take_congestion_change(&mut self) -> Option<CongestionChange> {
        self.steering.take_congestion_change().filter(|change| self.routes.is_news(change))
    }

    /// Bytes acknowledged by the peer's TCP at the last sample.
    pub fn acked_bytes(&self) -> u64 {
        self.acked_bytes
    }

    /// Applies a congestion window notice from the peer, which sends the payload.
    pub fn told(&mut self, notice: &WindowNotice) {
        self.steering.told(notice);
    }

    /// Takes the congestion window notice that is due to the peer.
    pub fn take_notice(&mut self) -> Option<WindowNotice> {
        self.steering.take_notice()
    }

    /// Claim on the line rate for data that this end sends.
    pub fn claim(&self) -> Option<Claim> {
        self.steering.claim()
    }

    /// Measurement of the sending device by a sender of lone requests.
    pub fn met(&self) -> Option<Met> {
        self.steering.met()
    }

    /// Claim on the line rate for data that the peer sends.
    pub fn claim_of_peer(&self) -> Option<Claim> {
        self.steering.claim_of_peer()
    }

    /// Applies the rate that the peer's sharing arbiter allocated at `now`; `None` means unlimited.
    pub fn left(&mut self, bytes_per_s: Option<u64>, now: Instant) {
        self.steering.left(bytes_per_s, now);
    }

    /// Applies the rate that the local sharing arbiter allocated; `None` means unlimited.
    pub fn grant(&mut self, bytes_per_s: Option<u64>) {
        self.steering.grant(bytes_per_s);
    }

    /// Current decision of the policy.
    pub fn decision(&self) -> Decision {
        self.steering.decision()
    }

    /// Bandwidth-delay product of the path, as far as it was measured, in bytes.
    pub fn product_bytes(&self) -> u64 {
        self.steering.product_bytes()
    }

    /// Row of the table `sessions` for this connection: negotiated parameters and socket options.
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

    /// Advice on this host's socket buffer limits, if they may limit the throughput.
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
