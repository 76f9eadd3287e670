//! Interfaces of a capture and the selection of those whose packets are dissected.
//!
//! Number and name identify an interface, because files that continue each other describe it again. Frames of Linux
//! cooked capture, version 2 (`-i any`), name an interface of their own by its index. Traffic that several interfaces show
//! is merged later (`summary/merge.rs`).

use serde::Serialize;

use super::time_span::TimeSpan;

/// Interfaces that are distinguished; packets of further ones are only counted. `-i any` shows those of all containers of
/// a host.
const INTERFACES_MAX: usize = 256;

/// An interface of a capture.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CaptureInterface {
    /// Number in the file, from 0; another free number if several files use the same one.
    pub number: u32,
    /// Name; empty if the file has none, as in pcap files. An interface that frames name has its index, "ifindex 2".
    pub name: String,
    /// Packets.
    pub packets: u64,
    /// Bytes of those packets on the wire.
    pub bytes: u64,
    /// True if its packets are dissected.
    pub taken: bool,
}

/// Selection of a packet by its interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// Dissected; the number of its interface.
    From(u32),
    /// Not dissected: the interface is not selected.
    Deselected,
    /// Not dissected: too many interfaces.
    Beyond,
}

/// Interfaces of one capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interfaces {
    known: Vec<Known>,
    /// Index of the last packet's interface; the next packet usually has the same.
    last: usize,
    /// Names or numbers of the selected interfaces; all are selected if empty.
    wanted: Vec<String>,
}

/// Identity of an interface in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct InterfaceId<'a> {
    /// Number in the file.
    pub(crate) written: u32,
    /// Name in the file.
    pub(crate) name: &'a str,
    /// Index in the frame.
    pub(crate) index: Option<u32>,
}

#[derive(Clone, Debug)]
struct Known {
    written: u32,
    name: String,
    index: Option<u32>,
    /// Time of its packets.
    span: TimeSpan,
    interface: CaptureInterface,
}

impl CaptureInterface {
    /// Name for people: control characters are replaced, an unnamed interface has its number.
    pub fn label(&self) -> String {
        match self.name.is_empty() {
            true => format!("interface {}", self.number),
            false => self.name.replace(char::is_control, "\u{fffd}"),
        }
    }
}

impl Interfaces {
    /// Selects interfaces by name or number; all if `wanted` is empty.
    pub(crate) fn with_selection(wanted: Vec<String>) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Counts a packet of `bytes` on the wire.
    pub(crate) fn admit(&mut self, id: InterfaceId<'_>, bytes: u64) -> Admission {
        let Some(place) = self.place(id) else { return Admission::Beyond };
        self.last = place;
        let Known { interface, .. } = &mut self.known[place];
        interface.packets += 1;
        interface.bytes = interface.bytes.saturating_add(bytes);
        if interface.taken { Admission::From(interface.number) } else { Admission::Deselected }
    }

    /// Takes the stamp of the last admitted packet; `is_tcp` if it is one of TCP.
    pub(crate) fn stamp(&mut self, t_ns: u64, is_tcp: bool) {
        if let Some(known) = self.known.get_mut(self.last) {
            known.span.take(t_ns, is_tcp);
        }
    }

    /// Time in ns until which all of these interfaces were watched: the earliest of their last packets.
    pub(crate) fn watched_ns(&self, numbers: [u32; 2]) -> u64 {
        let last = numbers.map(|number| self.known.iter().find(|known| known.interface.number == number));
        last.iter().map(|known| known.map_or(0, |known| known.span.last_ns())).min().unwrap_or(0)
    }

    /// Number of a known interface.
    pub(crate) fn number(&self, id: InterfaceId<'_>) -> Option<u32> {
        self.known.iter().find(|known| known.is(id)).map(|known| known.interface.number)
    }

    /// All interfaces in the order of their numbers.
    pub(crate) fn finish(mut self) -> Vec<CaptureInterface> {
        self.known.sort_by_key(|known| known.interface.number);
        self.known.into_iter().map(|known| known.interface).collect()
    }

    fn place(&mut self, id: InterfaceId<'_>) -> Option<usize> {
        if self.known.get(self.last).is_some_and(|known| known.is(id)) {
            return Some(self.last);
        }
        let place = self.known.iter().position(|known| known.is(id));
        place.or_else(|| self.add(id))
    }

    fn add(&mut self, id: InterfaceId<'_>) -> Option<usize> {
        if self.known.len() >= INTERFACES_MAX {
            return None;
        }
        let InterfaceId { written, name, index } = id;
        let is_used = |number: u32| self.known.iter().any(|known| known.interface.number == number);
        let free = (0..).find(|number| !is_used(*number));
        let wanted_number = index.unwrap_or(written);
        let number = if is_used(wanted_number) { free? } else { wanted_number };
        let shown = match index {
            Some(index) if name.is_empty() => format!("ifindex {index}"),
            Some(index) => format!("{name} ifindex {index}"),
            None => name.to_owned(),
        };
        let is_wanted = |wanted: &String| {
            *wanted == shown || wanted == name || wanted.parse::<u32>().ok() == Some(number)
        };
        let taken = self.wanted.is_empty() || self.wanted.iter().any(is_wanted);
        let interface = CaptureInterface { number, name: shown, packets: 0, bytes: 0, taken };
        self.known.push(Known {
            written,
            name: name.to_owned(),
            index,
            span: TimeSpan::default(),
            interface,
        });
        Some(self.known.len() - 1)
    }
}

impl Known {
    fn is(&self, id: InterfaceId<'_>) -> bool {
        // Most names are empty. A comparison of no bytes at the address of an empty string faults inside `memcmp`, which
        // takes longer than all the rest (13 % of the time of a capture).
        let is_named = || (self.name.is_empty() && id.name.is_empty()) || self.name == id.name;
        self.written == id.written && self.index == id.index && is_named()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(written: u32, name: &str) -> InterfaceId<'_> {
        InterfaceId { written, name, index: None }
    }

    #[test]
    fn number_and_name_make_an_interface() {
        let mut interfaces = Interfaces::default();
        let seen = [(1, "far"), (0, "near"), (1, "far"), (0, "eth0"), (0, "near"), (1, "eth0")];
        let seen = seen.map(|(written, name)| interfaces.admit(id(written, name), 100));
        let expected = [1, 0, 1, 2, 0, 3];
        assert_eq!(seen, expected.map(Admission::From));
        assert_eq!((interfaces.number(id(0, "eth0")), interfaces.number(id(7, "eth0"))), (Some(2), None));
        let all = interfaces.finish();
        let all = all.iter().map(|one| (one.number, one.name.as_str(), one.packets, one.bytes));
        let expected = [(0, "near", 2, 200), (1, "far", 2, 200), (2, "eth0", 1, 100), (3, "eth0", 1, 100)];
        assert_eq!(all.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn interfaces_are_selected_by_name_or_number() {
        for (wanted, taken) in
            [("far", [false, true, false]), ("2", [false, false, true]), ("nobody", [false; 3])]
        {
            let mut interfaces = Interfaces::with_selection(vec![wanted.to_owned()]);
            let seen = [(0, "near"), (1, "far"), (2, "")].map(|(n, name)| interfaces.admit(id(n, name), 1));
            assert_eq!(seen.map(|admission| admission != Admission::Deselected), taken, "{wanted}");
            assert_eq!(interfaces.finish().len(), 3, "the others are counted");
        }
    }

    #[test]
    fn interfaces_that_frames_name_are_told_apart() {
        let mut interfaces = Interfaces::with_selection(vec!["ifindex 3".to_owned()]);
        let at = |index, name| InterfaceId { written: 0, name, index: Some(index) };
        let seen = [at(2, ""), at(3, ""), at(2, ""), at(3, "any")].map(|id| interfaces.admit(id, 1));
        assert_eq!(seen[..3], [Admission::Deselected, Admission::From(3), Admission::Deselected]);
        let all = interfaces.finish();
        let all = all.iter().map(|one| (one.number, one.name.as_str(), one.packets));
        assert_eq!(
            all.collect::<Vec<_>>(),
            [(0, "any ifindex 3", 1), (2, "ifindex 2", 2), (3, "ifindex 3", 1)]
        );
    }

    #[test]
    fn the_number_of_interfaces_is_bounded() {
        let mut interfaces = Interfaces::default();
        let admitted = (0..1_000).filter(|n| interfaces.admit(id(*n, ""), 1) != Admission::Beyond).count();
        assert_eq!(admitted, INTERFACES_MAX);
    }
}
