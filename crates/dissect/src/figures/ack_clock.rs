//! Bursts of data that begin when acknowledgements have come back: a send buffer that is full lets no more in before.
//!
//! A sender whose buffer holds one PDU stops at its end, as one does that waits for its store. The store knows nothing of
//! the receiver: only by chance does it take as long as the way to there and back.

/// Bursts from which on their share counts.
const BURSTS_MIN: u64 = 16;
/// Time in ns that a sender takes to wake up, besides a tenth of the round trip.
const WAKE_NS: u64 = 200_000;

/// Begins of the bursts of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckClock {
    last_ns: Option<u64>,
    /// First and last acknowledgement since the burst began, in ns.
    acks_ns: Option<(u64, u64)>,
    bursts: u64,
    clocked: u64,
}

impl AckClock {
    /// Takes new data; round trips in ns from the tap to the receiver, and to the sender.
    pub(crate) fn data(&mut self, t_ns: u64, [to_receiver_ns, to_sender_ns]: [u64; 2]) {
        let rtt_ns = to_receiver_ns.saturating_add(to_sender_ns);
        let silence_ns = self.last_ns.map_or(0, |last_ns| t_ns.saturating_sub(last_ns));
        self.last_ns = Some(t_ns);
        if rtt_ns == 0 || silence_ns <= rtt_ns / 2 {
            return;
        }
        self.bursts += 1;
        let margin_ns = rtt_ns / 10 + WAKE_NS;
        let freed_ns = t_ns.saturating_sub(to_sender_ns);
        self.clocked += u64::from(self.acks_ns.take().is_some_and(|(first_ns, last_ns)| {
            (first_ns.saturating_sub(margin_ns)..=last_ns.saturating_add(margin_ns)).contains(&freed_ns)
        }));
    }

    /// Takes an acknowledgement that advanced.
    pub(crate) fn acknowledged(&mut self, t_ns: u64) {
        let (first_ns, _) = self.acks_ns.unwrap_or((t_ns, t_ns));
        self.acks_ns = Some((first_ns, t_ns));
    }

    /// Share of the bursts that began with acknowledgements; `None` if there are too few.
    pub(crate) fn share(&self) -> Option<f64> {
        (self.bursts >= BURSTS_MIN).then(|| self.clocked as f64 / self.bursts as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Share of 20 bursts of 2 ms, every `every_ms`, at a tap beside the receiver and 8 ms from the sender.
    fn share(every_ms: u64) -> Option<f64> {
        let mut clock = AckClock::default();
        for burst in 0..20 {
            for ms in 0..3 {
                let t_ns = (burst * every_ms + ms) * MS;
                clock.data(t_ns, [0, 8 * MS]);
                clock.acknowledged(t_ns);
            }
        }
        clock.share()
    }

    #[test]
    fn bursts_a_round_trip_after_acknowledgements() {
        assert_eq!([8, 9, 10].map(share), [Some(1.0); 3]);
        assert_eq!([12, 30].map(share), [Some(0.0); 2]);
        assert_eq!(share(2), None, "one burst without an end");
    }
}
