//! How many connections a session in bulk wants.
//!
//! TCP answers every loss with a smaller window, also where the loss says nothing of the room on the path: one packet in
//! ten thousand keeps CUBIC at some megabytes per second over 100 ms, whatever the line carries. Several connections
//! carry that loss in parallel, since each is cut alone. Beside others they also take as many shares, so they are opened
//! one at a time, and only where all of this held over two spans in a row: losses have cut windows that are filled, again
//! and again; no queue stood, which would be the line's or a neighbour's; the windows were what limited, and not the other end's
//! window, a store, the device or a cap; the caller had asked for more all the time; and the rate did not fall any more,
//! as it does while what slow start overshot is given back. After that the rate has to show half of what one more should
//! bring, in one of two attempts to measure it, or the session stays as it is for good. None is closed: that it did not
//! help is known late, and a session without it would have to be measured again.
//!
//! It sees cuts of windows only where somebody tells: this end of what it sends, the other end of what that sends if it
//! is of our own kind (`docs/reference/notification.md`). A session that reads from others stays as it was made.
//! Both ends send, and one of them hardly anything: only the windows of the other one count.

use core::time::Duration;

use event::{Host, Instant, WindowKind, WindowNotice};

use crate::bulk::cap::BULK_BYTES;

/// On shorter paths a window grows back soon, and a queue does not show in the noise.
const LONG_MIN_RTT: Duration = Duration::from_millis(5);
/// A span of measuring is at least so long, in time, in round trips and in windows cut by losses: one of each
/// connection, and so many.
const SPAN_MIN: Duration = Duration::from_secs(2);
const SPAN_ROUNDS: u32 = 20;
const CUTS_MIN: u32 = 2;
/// Losses that are rarer than this do not hold a window down.
const SPAN_MAX: Duration = Duration::from_secs(120);
/// After a connection has come, nothing is measured for so long.
const SETTLING_MIN: Duration = Duration::from_secs(1);
const SETTLING_ROUNDS: u32 = 20;
/// A queue stands from here on: a part of the round trip, and a millisecond of noise.
const QUEUE_SHARE: u32 = 32;
const QUEUE_NOISE: Duration = Duration::from_millis(1);
/// It stands where it shows for so many round trips without a break. Small windows make round trips scatter: their
/// acknowledgements wait for the next packet, and now and then for a timer.
const STANDING_ROUNDS: u32 = 8;
/// Of such stretches of a span, one in so many may have a queue.
const QUEUE_STRETCHES: u32 = 4;
/// Of the looks of a span, one in so many may show that the caller wants too little.
const ODD_LOOKS: u32 = 20;
/// Of the windows that losses cut, the device may have cut one in so many besides.
const LOCAL_SHARE: u32 = 2;
/// The rate has settled when a span has so much of what the one before had, in percent.
const SETTLED_PERCENT: u128 = 80;
/// Windows are what limits when the rate is so much of what they carried after their cuts, in percent.
const USED_PERCENT: u128 = 75;
/// A window of less than a part of what a connection carries in a round trip is one that nobody fills.
const UNUSED_SHARE: u64 = 4;
/// What one more has to bring of what it should, in percent.
const GAIN_PERCENT: u128 = 50;
/// Measurements without that, after which there are no more.
const ATTEMPTS: u32 = 2;

/// See the file's beginning.
#[derive(Clone, Debug)]
pub struct Connections {
    most: u16,
    /// 0 before it is known.
    connections: u16,
    span: Option<Span>,
    settled_at: Instant,
    /// Who sent most of the payload in the last span.
    sender: Option<Host>,
    /// What the span before had, if it was one that counts.
    before: Option<Moved>,
    /// What there was with one less.
    fewer: Option<Moved>,
    /// Measurements that did not show that the last one helped.
    in_vain: u32,
    wants_more: bool,
    is_over: bool,
}

/// A session in bulk, as its initiator sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// When.
    pub now: Instant,
    /// The smallest of its connections' smoothed round-trip times: they share the path.
    pub rtt: Duration,
    /// Mean deviation of that connection's round-trip time.
    pub rtt_var: Duration,
    /// Smallest round-trip time that any of them has seen; `None` before the first.
    pub min_rtt: Option<Duration>,
    /// Payload that has come to it, in all.
    pub received_bytes: u64,
    /// What it has sent and the other end's TCP has acknowledged, in all.
    pub acked_bytes: u64,
    /// Payload that is asked for and has not come, or not been confirmed.
    pub outstanding_bytes: u64,
    /// Its connections.
    pub connections: u16,
}

impl Traffic {
    /// Whether there may be a queue.
    fn has_queue(&self, min_rtt: Duration) -> bool {
        self.rtt.saturating_sub(min_rtt) > min_rtt / QUEUE_SHARE + QUEUE_NOISE + self.rtt_var
    }

    /// Whether there would be enough to do for one connection more.
    fn is_bulk(&self) -> bool {
        self.outstanding_bytes >= (u64::from(self.connections) + 1) * BULK_BYTES
    }
}

/// A stretch of measuring.
#[derive(Clone, Copy, Debug)]
struct Span {
    since: Instant,
    received_bytes: u64,
    acked_bytes: u64,
    /// Looks, and those at a caller who wanted too little.
    looks: u32,
    idle: u32,
    /// Stretches that are over, and those in which a queue stood; when the present one began, and whether all its looks
    /// have shown one.
    stretches: u32,
    queues: u32,
    stretch_since: Instant,
    is_queueing: bool,
    /// What a connection has carried in a round trip so far.
    round_bytes: u64,
    near: Windows,
    far: Windows,
}

/// What an end has told of the windows that it sends with.
#[derive(Clone, Copy, Debug, Default)]
struct Windows {
    /// Those that losses cut, and what they were after that, in all.
    cuts: u32,
    left_bytes: u64,
    /// Those that the device cut. What a probe repairs looks the same.
    local_cuts: u32,
}

/// What has been moved, and in what time.
#[derive(Clone, Copy, Debug)]
struct Moved {
    bytes: u64,
    elapsed: Duration,
}

impl Connections {
    /// Connections of a session at most, unless its user asks for more.
    pub const MOST: u16 = 4;

    /// For a session whose target agreed to so many.
    pub fn new(agreed: u16) -> Connections {
        Connections {
            most: agreed.min(Connections::MOST),
            connections: 0,
            span: None,
            settled_at: Instant::ZERO,
            sender: None,
            before: None,
            fewer: None,
            in_vain: 0,
            wants_more: false,
            is_over: false,
        }
    }

    /// For the same session made again, whose target agreed to so many now.
    pub fn again(mut self, agreed: u16) -> Connections {
        self.most = agreed.min(Connections::MOST);
        self.restart();
        self
    }

    /// After a pause, or with another load, everything is measured anew. What was found useless is not tried again.
    pub fn restart(&mut self) {
        (self.connections, self.fewer, self.wants_more) = (0, None, false);
        self.begin_again();
    }

    /// An end tells of a window that it sends with.
    pub fn told(&mut self, host: Host, notice: &WindowNotice) {
        let Some(span) = &mut self.span else { return };
        if notice.bytes() < span.round_bytes / UNUSED_SHARE {
            return;
        }
        let windows = match host {
            Host::Near => &mut span.near,
            Host::Far => &mut span.far,
        };
        match notice.kind {
            WindowKind::CutByLoss => {
                windows.cuts += 1;
                windows.left_bytes += notice.bytes();
            }
            WindowKind::CutHere => windows.local_cuts += 1,
            // After a timeout a window says nothing of what the path carried, and a limit is no cut.
            WindowKind::CutByTimeout | WindowKind::Limit => {}
        }
    }

    /// Takes what is seen of the session, a hundred times per second or more.
    pub fn observe(&mut self, seen: &Traffic) {
        if seen.connections != self.connections {
            (self.connections, self.wants_more) = (seen.connections, false);
            self.settled_at = seen.now + SETTLING_MIN.max(seen.rtt * SETTLING_ROUNDS);
            self.begin_again();
        }
        let Some(min_rtt) = seen.min_rtt.filter(|rtt| *rtt >= LONG_MIN_RTT) else { return };
        if self.is_over || self.wants_more || seen.now < self.settled_at {
            return;
        }
        let span = self.span.get_or_insert(Span::begin(seen));
        span.look(seen, min_rtt);
        let (sender, moved) = span.moved(seen);
        span.round_bytes = moved.in_round(seen.rtt) / u64::from(seen.connections.max(1));
        let is_long = moved.elapsed >= SPAN_MIN.max(seen.rtt * SPAN_ROUNDS);
        let windows = span.windows(sender);
        if !is_long || (windows.cuts < cuts_min(seen) && moved.elapsed < SPAN_MAX) {
            return;
        }
        let is_held_down = span.is_busy() && windows.limit(seen, moved);
        self.span = None;
        if self.sender.replace(sender) != Some(sender) {
            // What is read is no measure for what is written.
            (self.before, self.fewer) = (None, None);
        }
        if is_held_down {
            self.weigh(moved);
        } else {
            self.before = None;
        }
    }

    /// Whether one more is to be opened.
    pub fn wants_more(&self) -> bool {
        self.wants_more
    }

    /// There will be no other: the target does not take one, or losses cannot be told from marks.
    pub fn stay(&mut self) {
        (self.is_over, self.wants_more) = (true, false);
    }

    fn begin_again(&mut self) {
        (self.span, self.before, self.in_vain) = (None, None, 0);
    }

    /// A span was one in which losses held the windows down: what follows from it and the one before.
    fn weigh(&mut self, moved: Moved) {
        let Some(before) = self.before.replace(moved) else { return };
        if moved.is_below(before, SETTLED_PERCENT) {
            return;
        }
        self.before = None;
        let both = before.and(moved);
        let expected = 100 + GAIN_PERCENT / u128::from(self.connections.max(2) - 1);
        if self.fewer.is_some_and(|fewer| both.is_below(fewer, expected)) {
            self.in_vain += 1;
            self.is_over = self.in_vain >= ATTEMPTS;
        } else if self.connections < self.most {
            (self.fewer, self.wants_more) = (Some(both), true);
        }
    }
}

impl Span {
    fn begin(seen: &Traffic) -> Span {
        Span {
            since: seen.now,
            received_bytes: seen.received_bytes,
            acked_bytes: seen.acked_bytes,
            looks: 0,
            idle: 0,
            stretches: 0,
            queues: 0,
            stretch_since: seen.now,
            is_queueing: true,
            round_bytes: 0,
            near: Windows::default(),
            far: Windows::default(),
        }
    }

    fn look(&mut self, seen: &Traffic, min_rtt: Duration) {
        self.looks += 1;
        self.idle += u32::from(!seen.is_bulk());
        self.is_queueing &= seen.has_queue(min_rtt);
        if seen.now.since(self.stretch_since) >= min_rtt * STANDING_ROUNDS {
            self.stretches += 1;
            self.queues += u32::from(self.is_queueing);
            (self.stretch_since, self.is_queueing) = (seen.now, true);
        }
    }

    /// Who has sent most so far, and how much that was.
    fn moved(&self, seen: &Traffic) -> (Host, Moved) {
        let received_bytes = seen.received_bytes.saturating_sub(self.received_bytes);
        let acked_bytes = seen.acked_bytes.saturating_sub(self.acked_bytes);
        let sender = if acked_bytes > received_bytes { Host::Near } else { Host::Far };
        (sender, Moved { bytes: acked_bytes.max(received_bytes), elapsed: seen.now.since(self.since) })
    }

    fn windows(&self, sender: Host) -> Windows {
        match sender {
            Host::Near => self.near,
            Host::Far => self.far,
        }
    }

    /// Whether there was enough to do all the time, and no queue.
    fn is_busy(&self) -> bool {
        self.queues * QUEUE_STRETCHES <= self.stretches && self.idle * ODD_LOOKS <= self.looks
    }
}

impl Windows {
    /// Whether losses held them down, and they what was moved.
    fn limit(&self, seen: &Traffic, moved: Moved) -> bool {
        let is_device = self.local_cuts * LOCAL_SHARE > self.cuts;
        if self.cuts < cuts_min(seen) || is_device {
            return false;
        }
        let all_bytes = u128::from(self.left_bytes / u64::from(self.cuts)) * u128::from(seen.connections);
        u128::from(moved.in_round(seen.rtt)) * 100 >= all_bytes * USED_PERCENT
    }
}

fn cuts_min(seen: &Traffic) -> u32 {
    CUTS_MIN + u32::from(seen.connections)
}

impl Moved {
    /// How much of it in a round trip.
    fn in_round(self, rtt: Duration) -> u64 {
        let elapsed_ns = self.elapsed.max(rtt).as_nanos().max(1);
        let bytes = u128::from(self.bytes) * rtt.as_nanos() / elapsed_ns;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Whether its rate is less than so much of another's.
    fn is_below(self, other: Moved, percent: u128) -> bool {
        let ours = u128::from(self.bytes) * other.elapsed.as_nanos();
        let others = u128::from(other.bytes) * self.elapsed.as_nanos();
        ours * 100 < others * percent
    }

    fn and(self, other: Moved) -> Moved {
        Moved { bytes: self.bytes + other.bytes, elapsed: self.elapsed + other.elapsed }
    }
}

#[cfg(test)]
mod tests;
