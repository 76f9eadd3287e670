//! Log of a connection's events: a count for each kind, its first and its last event.

use crate::budget::MemoryBudget;
use crate::events::event::ConnectionEvent;
use crate::packets::packet_ref::PacketRef;

/// Kinds of one connection that are distinguished; further ones are one kind. There are about forty, without the codes of
/// sense data, and a broken target has a few of those.
const KINDS_MAX: usize = 64;

/// Log of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    pub(crate) entries: Vec<LogEntry>,
}

/// Events of one kind from one side.
#[derive(Clone, Debug)]
pub(crate) struct LogEntry {
    pub(crate) event: ConnectionEvent,
    /// Direction of the sender.
    pub(crate) direction: usize,
    /// Address that a redirection names.
    pub(crate) address: Option<Box<str>>,
    pub(crate) count: u64,
    pub(crate) first: PacketRef,
    pub(crate) last_ns: u64,
    /// Initiator task tag of the first one.
    pub(crate) itt: Option<u32>,
    /// Commands outstanding at the refusals, their own included.
    pub(crate) outstanding: OutstandingAt,
}

/// Commands outstanding at events of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutstandingAt {
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) sum: u64,
}

/// An event to be logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occurrence<'a> {
    pub(crate) event: ConnectionEvent,
    pub(crate) direction: usize,
    pub(crate) address: Option<&'a str>,
    pub(crate) packet: PacketRef,
    pub(crate) itt: Option<u32>,
    /// Commands outstanding.
    pub(crate) outstanding: u64,
}

impl Occurrence<'_> {
    /// An event without a task.
    pub(crate) fn new(event: ConnectionEvent, direction: usize, packet: PacketRef) -> Self {
        Self { event, direction, address: None, packet, itt: None, outstanding: 0 }
    }
}

impl EventLog {
    /// Takes an event; without memory for its kind it is not counted.
    pub(crate) fn add(&mut self, occurrence: Occurrence<'_>, budget: &MemoryBudget) {
        let is_it = |entry: &LogEntry| {
            entry.event == occurrence.event
                && entry.direction == occurrence.direction
                && entry.address.as_deref() == occurrence.address
        };
        if let Some(entry) = self.entries.iter_mut().find(|entry| is_it(entry)) {
            return entry.take(&occurrence);
        }
        if self.entries.len() >= KINDS_MAX && occurrence.event != ConnectionEvent::Further {
            let further = Occurrence { event: ConnectionEvent::Further, address: None, ..occurrence };
            return self.add(further, budget);
        }
        // While a list grows the old one exists beside it.
        let address_len = occurrence.address.map_or(0, str::len);
        if !budget.reserve(4 * size_of::<LogEntry>() + address_len) {
            return;
        }
        let PacketRef { t_ns, .. } = occurrence.packet;
        let mut entry = LogEntry {
            event: occurrence.event,
            direction: occurrence.direction,
            address: occurrence.address.map(Box::from),
            count: 0,
            first: occurrence.packet,
            last_ns: t_ns,
            itt: occurrence.itt,
            outstanding: OutstandingAt { least: u64::MAX, ..OutstandingAt::default() },
        };
        entry.take(&occurrence);
        self.entries.push(entry);
    }
}

impl LogEntry {
    fn take(&mut self, occurrence: &Occurrence<'_>) {
        let PacketRef { t_ns, .. } = occurrence.packet;
        self.count += 1;
        // A request without an answer is logged at the end.
        if t_ns < self.first.t_ns {
            (self.first, self.itt) = (occurrence.packet, occurrence.itt);
        }
        self.last_ns = self.last_ns.max(t_ns);
        let OutstandingAt { least, most, sum } = &mut self.outstanding;
        *least = occurrence.outstanding.min(*least);
        *most = occurrence.outstanding.max(*most);
        *sum += occurrence.outstanding;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(event: ConnectionEvent, t_ns: u64) -> Occurrence<'static> {
        Occurrence::new(event, 1, PacketRef { number: t_ns, in_file: t_ns, t_ns })
    }

    #[test]
    fn a_kind_has_a_count_and_its_first_and_last_event() {
        let (mut log, budget) = (EventLog::default(), MemoryBudget::new(1 << 20));
        for (t_ns, outstanding) in [(20, 7), (10, 3), (30, 5)] {
            log.add(Occurrence { outstanding, ..at(ConnectionEvent::Busy, t_ns) }, &budget);
        }
        log.add(at(ConnectionEvent::Reset, 40), &budget);
        let [busy, reset] = &log.entries[..] else { panic!("{log:?}") };
        assert_eq!((busy.count, busy.first.t_ns, busy.last_ns), (3, 10, 30));
        let OutstandingAt { least, most, sum } = busy.outstanding;
        assert_eq!((least, most, sum), (3, 7, 15));
        assert_eq!((reset.event, reset.count), (ConnectionEvent::Reset, 1));
    }

    #[test]
    fn kinds_and_memory_are_bounded() {
        let (mut log, budget) = (EventLog::default(), MemoryBudget::new(1 << 20));
        for code in 0..=255 {
            log.add(at(ConnectionEvent::AsyncMessage { event: code }, u64::from(code)), &budget);
        }
        assert_eq!(log.entries.len(), KINDS_MAX + 1);
        assert_eq!(log.entries.iter().map(|entry| entry.count).sum::<u64>(), 256);
        let mut log = EventLog::default();
        log.add(at(ConnectionEvent::Reset, 1), &MemoryBudget::new(10));
        assert!(log.entries.is_empty());
    }
}
