//! Token bucket for the data of a lone request: it fills with time and never exceeds its depth, however late it is
//! polled.

use std::time::Duration;

use control::{Burst, worth_bytes};
use event::Instant;

/// Token bucket of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    bytes_per_s: Option<u64>,
    depth_bytes: u64,
    /// Payload of a packet.
    packet_bytes: u64,
    /// Data behind this bucket pass another one.
    goes_on: bool,
    filled_bytes: u64,
    at: Instant,
    /// Data had to wait since the last call of `take_short`.
    was_short: bool,
    /// The current burst: its begin, the time of its last send, and the bytes sent after the first send.
    begun: Instant,
    last: Instant,
    handed_bytes: u64,
    /// The rate of the one before.
    before_bytes_per_s: u64,
}

/// A longer pause ends a burst.
const PAUSE: Duration = Duration::from_millis(8);
/// Length of one measurement of a rate: an older rate does not describe the present one.
const PIECE: Duration = Duration::from_millis(50);
/// A burst that is shorter has no rate yet.
const BURST_MIN_TIME: Duration = Duration::from_millis(3);

impl TokenBucket {
    pub(crate) fn new() -> TokenBucket {
        TokenBucket {
            bytes_per_s: None,
            depth_bytes: 1,
            packet_bytes: 1,
            goes_on: false,
            filled_bytes: 0,
            at: Instant::ZERO,
            was_short: false,
            begun: Instant::ZERO,
            last: Instant::ZERO,
            handed_bytes: 0,
            before_bytes_per_s: 0,
        }
    }

    /// Sets the rate and the burst limit `depth_bytes`; rate `None` is unlimited. A packet holds `packet_bytes` of
    /// payload: data are sent at once, the rest in a packet of its own.
    pub(crate) fn set(&mut self, bytes_per_s: Option<u64>, depth_bytes: u64, packet_bytes: u64) {
        self.bytes_per_s = bytes_per_s.map(|rate| rate.max(1));
        self.depth_bytes = depth_bytes.max(1);
        self.packet_bytes = packet_bytes.max(1);
        self.filled_bytes = self.filled_bytes.min(self.depth_bytes);
    }

    /// Sets whether data behind this bucket pass another one.
    pub(crate) fn set_goes_on(&mut self, goes_on: bool) {
        self.goes_on = goes_on;
    }

    /// True if a rate is set.
    pub(crate) fn is_on(&self) -> bool {
        self.bytes_per_s.is_some()
    }

    /// The waiting data as a burst, if they exceed the burst limit.
    pub(crate) fn burst(&self, waiting_bytes: u64) -> Option<Burst> {
        let is_long = waiting_bytes >= self.depth_bytes;
        self.bytes_per_s.filter(|_| is_long).map(|bytes_per_s| Burst { bytes: waiting_bytes, bytes_per_s })
    }

    /// Bytes of the waiting data that may be sent at `now`: none, or enough for a wake-up.
    pub(crate) fn room(&mut self, now: Instant, waiting_bytes: usize) -> usize {
        let Some(rate) = self.bytes_per_s else { return usize::MAX };
        let gained = u128::from(rate) * now.since(self.at).as_nanos() / 1_000_000_000;
        let gained = u64::try_from(gained).unwrap_or(u64::MAX);
        if gained > 0 {
            self.filled_bytes = self.filled_bytes.saturating_add(gained).min(self.depth_bytes);
            self.at = now;
        }
        if self.filled_bytes < self.least_bytes(waiting_bytes) {
            self.was_short = true;
            return 0;
        }
        let whole = self.filled_bytes / self.packet_bytes * self.packet_bytes;
        if whole == 0 || self.filled_bytes >= waiting_bytes as u64 {
            return self.filled_bytes as usize;
        }
        whole as usize
    }

    /// Counts bytes that were sent at `now`.
    pub(crate) fn take(&mut self, now: Instant, bytes: usize) {
        if !self.is_on() {
            return;
        }
        self.filled_bytes = self.filled_bytes.saturating_sub(bytes as u64);
        if now.since(self.last) > PAUSE || now.since(self.begun) > PIECE {
            self.before_bytes_per_s = self.present_rate().unwrap_or(self.before_bytes_per_s);
            (self.begun, self.handed_bytes) = (now, 0);
        } else {
            self.handed_bytes += bytes as u64;
        }
        self.last = now;
    }

    /// Measured rate of the last burst, which late wake-ups lower; 0 if unknown.
    pub(crate) fn handed_bytes_per_s(&self) -> u64 {
        self.present_rate().unwrap_or(self.before_bytes_per_s)
    }

    fn present_rate(&self) -> Option<u64> {
        let time = self.last.since(self.begun);
        let rate = u128::from(self.handed_bytes) * 1_000_000_000 / time.as_nanos().max(1);
        u64::try_from(rate).ok().filter(|_| time >= BURST_MIN_TIME)
    }

    /// Time at which the waiting data may be sent.
    pub(crate) fn resume_at(&self, waiting_bytes: usize) -> Instant {
        let rate = self.bytes_per_s.unwrap_or(u64::MAX);
        let least = self.least_bytes(waiting_bytes);
        let missing = u128::from(least.saturating_sub(self.filled_bytes)) * 1_000_000_000;
        self.at + Duration::from_nanos(u64::try_from(missing / u128::from(rate)).unwrap_or(u64::MAX) + 1)
    }

    /// True if data had to wait since the last call.
    pub(crate) fn take_short(&mut self) -> bool {
        std::mem::take(&mut self.was_short)
    }

    fn least_bytes(&self, waiting_bytes: usize) -> u64 {
        let least = worth_bytes(self.depth_bytes, self.bytes_per_s.filter(|_| self.goes_on));
        // Nothing waits for nothing.
        least.min(waiting_bytes as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 125_000_000;
    const DEPTH_BYTES: u64 = 96 << 10;

    #[test]
    fn a_megabyte_takes_its_time_and_never_more_than_the_bucket_goes_at_once() {
        let mut bucket = TokenBucket::new();
        assert_eq!(bucket.room(Instant::ZERO, 1 << 20), usize::MAX);
        bucket.set(Some(RATE), DEPTH_BYTES, 1);
        let (mut now, mut left) = (Instant::ZERO + Duration::from_secs(9), 1 << 20);
        let begun = now;
        while left > 0 {
            let room = bucket.room(now, left);
            let depth = DEPTH_BYTES as usize;
            assert!(room <= depth && (room == 0 || room >= left.min(depth / 3)));
            if room == 0 {
                now = bucket.resume_at(left);
                continue;
            }
            let sent = left.min(room);
            bucket.take(now, sent);
            left -= sent;
        }
        let least = ((1 << 20) - DEPTH_BYTES) * 1_000_000_000 / RATE;
        let took = now.since(begun).as_nanos() as u64;
        assert!((least - 1000..least + 300_000).contains(&took), "{took} of {least}");
        assert!(bucket.take_short() && !bucket.take_short());
    }

    #[test]
    fn packets_are_whole_unless_nothing_is_behind_them() {
        let mut bucket = TokenBucket::new();
        bucket.set(Some(RATE), DEPTH_BYTES, 1448);
        let now = Instant::ZERO + Duration::from_secs(1);
        assert_eq!(bucket.room(now, 1 << 20), 67 * 1448);
        assert!(bucket.room(now, 70_001) >= 70_001);
        bucket.take(now, 98_304 - 700);
        assert_eq!(bucket.room(now, 500), 700, "less than a packet");
    }

    #[test]
    fn what_is_missed_by_being_late_is_not_made_up_for() {
        let mut bucket = TokenBucket::new();
        bucket.set(Some(RATE), DEPTH_BYTES, 1);
        let mut now = Instant::ZERO;
        for _ in 0..10 {
            now += Duration::from_millis(20);
            let room = bucket.room(now, usize::MAX);
            assert_eq!(room, DEPTH_BYTES as usize);
            bucket.take(now, room);
        }
    }

    #[test]
    fn a_command_after_a_burst_waits_for_no_more_than_its_own_bytes() {
        let mut bucket = TokenBucket::new();
        bucket.set(Some(RATE), DEPTH_BYTES, 1);
        let now = Instant::ZERO + Duration::from_secs(1);
        let room = bucket.room(now, 1 << 20);
        bucket.take(now, room - 100);
        assert_eq!(bucket.room(now, 1 << 20), 0, "a third of a bucket is not there");
        assert_eq!(bucket.room(now, 48), 100);
        bucket.take(now, 96);
        assert_eq!(bucket.room(now, 48), 0);
        let at = bucket.resume_at(48);
        assert!(at.since(now) < Duration::from_nanos(400), "{:?}", at.since(now));
        assert!(bucket.room(at, 48) >= 48);
    }

    #[test]
    fn who_goes_on_through_another_bucket_does_not_let_that_run_over() {
        let mut bucket = TokenBucket::new();
        // 2 ms, of which two thirds would be awaited.
        bucket.set(Some(117_000_000), 234_000, 1);
        let now = Instant::ZERO + Duration::from_secs(1);
        let waits = |bucket: &mut TokenBucket| {
            let room = bucket.room(now, 1 << 20);
            bucket.take(now, room);
            bucket.resume_at(1 << 20).since(now).as_micros()
        };
        assert_eq!(waits(&mut bucket), 666);
        bucket.set_goes_on(true);
        assert_eq!(waits(&mut bucket), 111);
        bucket.set(Some(1_170_000), 24_000, 1);
        assert_eq!(waits(&mut bucket), 5_251, "four packets are worth a wake-up");
    }

    #[test]
    fn the_rate_of_a_burst_that_goes_on_is_that_of_late() {
        let mut bucket = TokenBucket::new();
        bucket.set(Some(RATE), DEPTH_BYTES, 1);
        let begun = Instant::ZERO + Duration::from_secs(1);
        for ms in 0..1000 {
            // Fast for most of the time, and slow in the end.
            let bytes = if ms < 800 { 100_000 } else { 10_000 };
            bucket.take(begun + Duration::from_millis(ms), bytes);
        }
        assert_eq!(bucket.handed_bytes_per_s(), 10_000_000);
    }
}
