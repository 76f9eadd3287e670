//! The interfaces whose packets are in a capture, and which of them are looked at.
//!
//! An interface is known by its number and its name: files that follow each other describe the same ones again. Whether
//! two of them show the same traffic is not asked here (`taps`).

use serde::Serialize;

/// Interfaces that are told apart; packets of others are counted only.
const INTERFACES_MAX: usize = 64;

/// An interface that packets came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Interface {
    /// Its number in the file, from 0; a further one if files give it to several.
    pub number: u32,
    /// Its name; empty if the file says none, as pcap files do.
    pub name: String,
    /// Its packets.
    pub packets: u64,
    /// Their bytes, as they were on the wire.
    pub bytes: u64,
    /// Whether they were looked at.
    pub taken: bool,
}

/// What is done with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admitted {
    /// It is of this interface.
    From(u32),
    /// Its interface was not asked for.
    No,
    /// There are too many interfaces.
    Beyond,
}

/// Those of one capture.
#[derive(Clone, Debug, Default)]
pub(super) struct Interfaces {
    known: Vec<Known>,
    /// Where the last packet's stands: the next one's is mostly the same.
    last: usize,
    /// Names or numbers of those that are looked at; all of them if it is empty.
    wanted: Vec<String>,
}

#[derive(Clone, Debug)]
struct Known {
    /// The number that the file says.
    written: u32,
    told: Interface,
}

impl Interface {
    /// What people call it.
    pub fn label(&self) -> String {
        match self.name.is_empty() {
            true => format!("interface {}", self.number),
            false => self.name.replace(char::is_control, "\u{fffd}"),
        }
    }
}

impl Interfaces {
    pub(super) fn wanted(wanted: Vec<String>) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// A packet of `bytes` from the interface that the file gives this number and name.
    pub(super) fn admit(&mut self, written: u32, name: &str, bytes: u64) -> Admitted {
        let Some(place) = self.place(written, name) else { return Admitted::Beyond };
        self.last = place;
        let told = &mut self.known[place].told;
        told.packets += 1;
        told.bytes = told.bytes.saturating_add(bytes);
        if told.taken { Admitted::From(told.number) } else { Admitted::No }
    }

    /// The number of an interface that has shown something before.
    pub(super) fn number(&self, written: u32, name: &str) -> Option<u32> {
        self.known.iter().find(|known| known.is(written, name)).map(|known| known.told.number)
    }

    /// All of them, by number.
    pub(super) fn told(mut self) -> Vec<Interface> {
        self.known.sort_by_key(|known| known.told.number);
        self.known.into_iter().map(|known| known.told).collect()
    }

    fn place(&mut self, written: u32, name: &str) -> Option<usize> {
        if self.known.get(self.last).is_some_and(|known| known.is(written, name)) {
            return Some(self.last);
        }
        let place = self.known.iter().position(|known| known.is(written, name));
        place.or_else(|| self.add(written, name))
    }

    fn add(&mut self, written: u32, name: &str) -> Option<usize> {
        if self.known.len() >= INTERFACES_MAX {
            return None;
        }
        let is_used = |number: u32| self.known.iter().any(|known| known.told.number == number);
        let free = (0..).find(|number| !is_used(*number));
        let number = if is_used(written) { free? } else { written };
        let taken = self.wanted.is_empty()
            || self.wanted.iter().any(|wanted| wanted == name || wanted.parse::<u32>().ok() == Some(number));
        let told = Interface { number, name: name.to_owned(), packets: 0, bytes: 0, taken };
        self.known.push(Known { written, told });
        Some(self.known.len() - 1)
    }
}

impl Known {
    fn is(&self, written: u32, name: &str) -> bool {
        self.written == written && self.told.name == name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_name_make_an_interface() {
        let mut interfaces = Interfaces::default();
        let seen = [(1, "far"), (0, "near"), (1, "far"), (0, "eth0"), (0, "near"), (1, "eth0")];
        let seen = seen.map(|(written, name)| interfaces.admit(written, name, 100));
        let expected = [1, 0, 1, 2, 0, 3];
        assert_eq!(seen, expected.map(Admitted::From));
        assert_eq!((interfaces.number(0, "eth0"), interfaces.number(7, "eth0")), (Some(2), None));
        let told = interfaces.told();
        let told = told.iter().map(|one| (one.number, one.name.as_str(), one.packets, one.bytes));
        let expected = [(0, "near", 2, 200), (1, "far", 2, 200), (2, "eth0", 1, 100), (3, "eth0", 1, 100)];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn those_that_were_asked_for_are_taken_by_name_or_number() {
        for (wanted, taken) in
            [("far", [false, true, false]), ("2", [false, false, true]), ("nobody", [false; 3])]
        {
            let mut interfaces = Interfaces::wanted(vec![wanted.to_owned()]);
            let seen = [(0, "near"), (1, "far"), (2, "")].map(|(n, name)| interfaces.admit(n, name, 1));
            assert_eq!(seen.map(|admitted| admitted != Admitted::No), taken, "{wanted}");
            assert_eq!(interfaces.told().len(), 3, "the others are counted");
        }
    }

    #[test]
    fn their_number_is_bounded() {
        let mut interfaces = Interfaces::default();
        let admitted = (0..1_000).filter(|n| interfaces.admit(*n, "", 1) != Admitted::Beyond).count();
        assert_eq!(admitted, INTERFACES_MAX);
    }
}
