//! How many connections a session in bulk wants.
//!
//! TCP answers every loss with a smaller window, also where the loss says nothing of the room on the path: one packet in
//! ten thousand keeps CUBIC at some megabytes per second over 100 ms, whatever the line carries. Several connections
//! carry that loss in parallel, since each is cut alone. Beside others they also take as many shares, so they are opened
//! one at a time, and only where all of this held over two spans in a row: losses have cut windows again and again; no
//! queue stood, which would be the line's or a neighbour's; the windows were what limited, and not the other end's
//! window, a store, the device or a cap; the caller had asked for more all the time; and the rate did not fall any more,
//! as it does while what slow start overshot is given back. After that the rate has to show half of what one more should
//! bring, in one of two attempts to measure it, or the session stays as it is for good. None is closed: that it did not
//! help is known late, and a session without it would have to be measured again.
//!
//! It sees cuts of windows only where somebody tells: this end of what it sends, the other end of what that sends if it
//! is of our own kind (`docs/notification.md`). A session that reads from others stays as it was made.

use core::time::Duration;

use event::{Instant, WindowKind, WindowNotice};

use crate::cap::BULK_BYTES;

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
/// Of the looks of a span, one in so many may show a queue, and one in so many that the caller wants too little.
const ODD_LOOKS: u32 = 20;
/// Of the windows that losses cut, the device may have cut one in so many besides.
const LOCAL_SHARE: u32 = 2;
/// The rate has settled when a span has so much of what the one before had, in percent.
const SETTLED_PERCENT: u128 = 80;
/// Windows are what limits when the rate is so much of what they carried after their cuts, in percent.
const USED_PERCENT: u128 = 75;
/// What one more has to bring of what it should, in percent.
const GAIN_PERCENT: u128 = 50;
/// Measurements without that, after which there are no more.
const ATTEMPTS: u32 = 2;

/// See the file's beginning.
#[derive(Clone, Debug)]
pub struct Connections {
    most: u16,
    connections: u16,
    span: Option<Span>,
    settled_at: Instant,
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
    /// Payload that it has moved, in all.
    pub moved_bytes: u64,
    /// Payload that is asked for and has not come, or not been confirmed.
    pub outstanding_bytes: u64,
    /// Its connections.
    pub connections: u16,
}

impl Traffic {
    /// Whether a queue stands. Acknowledgements that a receiver holds back make a small window's round trips scatter;
    /// those behind a queue are all long.
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
    moved_bytes: u64,
    looks: u32,
    /// Looks that showed a queue, and looks at a caller who wanted too little.
    queues: u32,
    idle: u32,
    /// Windows that losses cut, and what they were after that, in all.
    cuts: u32,
    left_bytes: u64,
    /// Windows that the device cut. What a probe repairs looks the same.
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
            before: None,
            fewer: None,
            in_vain: 0,
            wants_more: false,
            is_over: false,
        }
    }

    /// An end tells of a window of one of its connections.
    pub fn told(&mut self, notice: &WindowNotice) {
        let Some(span) = &mut self.span else { return };
        match notice.kind {
            WindowKind::CutByLoss => {
                span.cuts += 1;
                span.left_bytes += notice.bytes();
            }
            WindowKind::CutHere => span.local_cuts += 1,
            // After a timeout a window says nothing of what the path carried, and a limit is no cut.
            WindowKind::CutByTimeout | WindowKind::Limit => {}
        }
    }

    /// Takes what is seen of the session, some tens of times per second.
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
        span.looks += 1;
        span.queues += u32::from(seen.has_queue(min_rtt));
        span.idle += u32::from(!seen.is_bulk());
        let elapsed = seen.now.since(span.since);
        let is_long = elapsed >= SPAN_MIN.max(seen.rtt * SPAN_ROUNDS);
        if !is_long || (span.cuts < cuts_min(seen) && elapsed < SPAN_MAX) {
            return;
        }
        let moved = span.moved(seen);
        self.span = None;
        match moved {
            Some(moved) => self.weigh(moved),
            None => self.before = None,
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
            moved_bytes: seen.moved_bytes,
            looks: 0,
            queues: 0,
            idle: 0,
            cuts: 0,
            left_bytes: 0,
            local_cuts: 0,
        }
    }

    /// What was moved in it, if losses held the windows down all the time.
    fn moved(&self, seen: &Traffic) -> Option<Moved> {
        let is_odd = |looks: u32| looks * ODD_LOOKS > self.looks;
        let is_device = self.local_cuts * LOCAL_SHARE > self.cuts;
        if self.cuts < cuts_min(seen) || is_device || is_odd(self.queues) || is_odd(self.idle) {
            return None;
        }
        let moved = Moved {
            bytes: seen.moved_bytes.saturating_sub(self.moved_bytes),
            elapsed: seen.now.since(self.since),
        };
        let in_round = u128::from(moved.bytes) * seen.rtt.as_nanos() / moved.elapsed.as_nanos().max(1);
        let windows = u128::from(self.left_bytes / u64::from(self.cuts)) * u128::from(seen.connections);
        (in_round * 100 >= windows * USED_PERCENT).then_some(moved)
    }
}

fn cuts_min(seen: &Traffic) -> u32 {
    CUTS_MIN + u32::from(seen.connections)
}

impl Moved {
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
