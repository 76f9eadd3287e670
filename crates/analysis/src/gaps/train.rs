//! The packets of one kind as one tap saw them, in order of time.

use super::packet::{Kind, Passage, Tap};

/// Gap up to which packets count as simultaneous in any case: the resolution of reading a clock for each.
pub(super) const TOGETHER_NS: u64 = 1_000;
/// Share of the mean gap up to which packets count as simultaneous: a host needs time for each packet of a group. By
/// chance one gap in ten is so short.
const TOGETHER_PART: u64 = 10;
/// But no longer than this.
const TOGETHER_MAX_NS: u64 = 20_000;

/// A packet at a tap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) t_ns: u64,
    /// Bytes on the line, or bytes acknowledged.
    pub(super) bytes: u32,
    pub(super) segments: u32,
    /// One-way delay of the path; `None` with a single tap.
    pub(super) delay_ns: Option<u64>,
}

/// The packets of one kind at one tap.
#[derive(Debug)]
pub(super) struct Train {
    pub(super) kind: Kind,
    pub(super) tap: Tap,
    pub(super) events: Vec<Event>,
    /// Largest gap of back-to-back events.
    pub(super) together_ns: u64,
    /// Median uncertainty of the times: time since the tap was last polled.
    pub(super) unseen_ns: u64,
}

/// Packets that arrived together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) start_ns: u64,
    pub(super) events: u32,
    pub(super) delay_ns: Option<u64>,
}

impl Train {
    /// The `passages` that passed this tap.
    pub(super) fn of(passages: &[Passage], kind: Kind, tap: Tap) -> Train {
        let time = |passage: &Passage| match tap {
            Tap::Sent => Some(passage.sent_ns),
            Tap::Due => passage.arrived_ns.map(|(due_ns, _)| due_ns),
            Tap::Received => passage.arrived_ns.map(|(_, received_ns)| received_ns),
        };
        let event = |passage: &Passage| {
            let t_ns = time(passage)?;
            let delay_ns = passage.arrived_ns.map(|(due_ns, _)| due_ns.saturating_sub(passage.sent_ns));
            Some(Event { t_ns, bytes: passage.bytes, segments: passage.segments.max(1), delay_ns })
        };
        let mut events: Vec<Event> = passages.iter().filter_map(event).collect();
        events.sort_by_key(|event| event.t_ns);
        if (kind, tap) == (Kind::Data, Tap::Sent) {
            // Data with one stamp was one super-packet when the sender gave it away: it has no gaps yet.
            events.dedup_by(|next, first| {
                let one = next.t_ns == first.t_ns;
                if one {
                    first.bytes = first.bytes.saturating_add(next.bytes);
                    first.segments = first.segments.saturating_add(next.segments);
                }
                one
            });
        }
        let mut unseen: Vec<u64> = match tap {
            Tap::Sent => passages.iter().map(|passage| passage.unseen_ns).collect(),
            Tap::Due | Tap::Received => Vec::new(),
        };
        unseen.sort_unstable();
        let unseen_ns = unseen.get(unseen.len() / 2).copied().unwrap_or(0);
        let span_ns = events.last().map_or(0, |last| last.t_ns - events[0].t_ns);
        let packets: u64 = events.iter().map(|event| u64::from(event.segments)).sum();
        let together_ns = span_ns / packets.max(1) / TOGETHER_PART;
        let together_ns = together_ns.clamp(TOGETHER_NS, TOGETHER_MAX_NS);
        Train { kind, tap, events, together_ns, unseen_ns }
    }

    /// Each gap between two events, in nanoseconds.
    pub(super) fn gaps(&self) -> impl Iterator<Item = u64> {
        self.events.windows(2).map(|pair| pair[1].t_ns - pair[0].t_ns)
    }

    /// The gap before each packet, with the number of packets that have it: those of a super-packet share its time.
    pub(super) fn gaps_per_packet(&self) -> Vec<(u64, u32)> {
        let each = self.gaps().zip(&self.events[1..]);
        each.map(|(gap_ns, event)| (gap_ns / u64::from(event.segments), event.segments)).collect()
    }

    /// Share of events simultaneous with the one before.
    pub(super) fn zero_share(&self) -> f64 {
        let zero = self.gaps().filter(|gap_ns| *gap_ns <= self.together_ns).count();
        zero as f64 / (self.events.len().max(2) - 1) as f64
    }

    /// Groups of events; an event belongs to the group of the one before if it follows within `within`.
    pub(super) fn groups(&self, within: impl Fn(&Event) -> u64) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut before_ns = None;
        for event in &self.events {
            let joins =
                before_ns.is_some_and(|before| event.t_ns - before <= within(event).max(self.together_ns));
            match groups.last_mut().filter(|_| joins) {
                Some(group) => group.events += 1,
                None => {
                    groups.push(Group { start_ns: event.t_ns, events: 1, delay_ns: event.delay_ns });
                }
            }
            before_ns = Some(event.t_ns);
        }
        groups
    }
}
