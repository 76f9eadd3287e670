//! Packets seen at several taps: the taps at the ends of the path, and the matching of packets between them.
//!
//! Sequence number, acknowledgement, length and flags identify a packet. Identical ones, such as duplicate
//! acknowledgements, are matched in their order.

use super::packet::LEAST;

/// A packet that is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Kept {
    pub(super) t_ns: u64,
    pub(super) seq: u32,
    pub(super) ack: u32,
    /// Bytes of payload.
    pub(super) len: u32,
    /// Bytes that it is the first to acknowledge, of an acknowledgement.
    pub(super) newly: u32,
    pub(super) flags: u8,
}

impl Kept {
    fn key(&self) -> (u32, u32, u32, u8) {
        (self.seq, self.ack, self.len, self.flags)
    }
}

/// Taps nearest to the sender of the data and nearest to its receiver, among those that captured both the data and its
/// acknowledgements; `None` without two, or if their clocks differ.
pub(super) fn ends(data: &[&[Kept]], acks: &[&[Kept]]) -> Option<(usize, usize)> {
    let told = data.first()?;
    let later = data.iter().enumerate().skip(1).filter_map(|(n, other)| Some((middle_ns(told, other)?, n)));
    let later: Vec<(i64, usize)> = std::iter::once((0, 0)).chain(later).collect();
    let ((first_ns, first), (last_ns, last)) = (later.iter().min()?, later.iter().max()?);
    let back_ns = middle_ns(acks.get(*last)?, acks.get(*first)?)?;
    (first_ns < last_ns && back_ns >= 0).then_some((*first, *last))
}

/// Arrival `there` of each packet captured `here`; `None` if it was not captured there, or earlier.
pub(super) fn arrivals(here: &[Kept], there: &[Kept]) -> Vec<Option<u64>> {
    let mut came = vec![None; here.len()];
    for (n, other) in pairs(here, there) {
        came[n] = Some(there[other].t_ns).filter(|t_ns| *t_ns >= here[n].t_ns);
    }
    came
}

/// Median delay from `here` to `there`; `None` unless half of the possible packets are at both.
fn middle_ns(here: &[Kept], there: &[Kept]) -> Option<i64> {
    let later = |(n, other): (usize, usize)| there[other].t_ns.cast_signed() - here[n].t_ns.cast_signed();
    let mut later: Vec<i64> = pairs(here, there).into_iter().map(later).collect();
    if later.len() < LEAST.max(here.len().min(there.len()) / 2) {
        return None;
    }
    later.sort_unstable();
    later.get(later.len() / 2).copied()
}

/// Indices of equal packets.
fn pairs(here: &[Kept], there: &[Kept]) -> Vec<(usize, usize)> {
    let (own, others) = (in_order(here), in_order(there));
    let (mut at, mut other, mut found) = (0, 0, Vec::new());
    while let (Some(one), Some(two)) = (own.get(at), others.get(other)) {
        match here[*one].key().cmp(&there[*two].key()) {
            std::cmp::Ordering::Less => at += 1,
            std::cmp::Ordering::Greater => other += 1,
            std::cmp::Ordering::Equal => {
                found.push((*one, *two));
                (at, other) = (at + 1, other + 1);
            }
        }
    }
    found
}

/// Indices sorted by the packets' identity, equal ones in order.
fn in_order(kept: &[Kept]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..kept.len()).collect();
    places.sort_by_key(|place| kept[*place].key());
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn train(count: u32, at_ns: u64) -> Vec<Kept> {
        let kept = |n: u32| Kept {
            t_ns: at_ns + u64::from(n) * 1_000,
            seq: n.wrapping_mul(1_448).wrapping_sub(20_000),
            ack: 7,
            len: 1_448,
            newly: 0,
            flags: 16,
        };
        (0..count).map(kept).collect()
    }

    fn all(lists: &[Vec<Kept>]) -> Vec<&[Kept]> {
        lists.iter().map(Vec::as_slice).collect()
    }

    #[test]
    fn what_left_here_came_by_there() {
        let sent = train(5, 10 * MS);
        let mut came = train(5, 15 * MS);
        // One is lost, two overtake each other, and one was there before: another clock, or another packet.
        came.remove(3);
        came.swap(0, 1);
        came[3].t_ns = 9 * MS;
        let expected = [Some(15 * MS), Some(15 * MS + 1_000), Some(15 * MS + 2_000), None, None];
        assert_eq!(arrivals(&sent, &came), expected);
        assert_eq!((arrivals(&sent, &[]), arrivals(&[], &came)), (vec![None; 5], Vec::new()));
    }

    #[test]
    fn packets_that_are_alike_come_in_order() {
        let again = |at_ns: u64| train(1, at_ns).remove(0);
        let (sent, came) = ([again(0), again(10), again(20)], [again(100), again(110)]);
        assert_eq!(arrivals(&sent, &came), [Some(100), Some(110), None]);
    }

    #[test]
    fn the_ends_are_those_that_saw_it_first_and_last() {
        let data = [train(600, 5 * MS), train(600, 0), train(600, 9 * MS)];
        let acks = [train(600, 14 * MS), train(600, 20 * MS), train(600, 10 * MS)];
        let found = |data: &[Vec<Kept>], acks: &[Vec<Kept>]| ends(&all(data), &all(acks));
        assert_eq!(found(&data, &acks), Some((1, 2)));
        // Acknowledgements that are there before they left, few packets, others, one tap alone.
        assert_eq!(found(&data[..2], &[train(600, 20 * MS), train(600, 14 * MS)]), None);
        assert_eq!(found(&[train(100, 0), train(100, MS)], &acks[..2]), None);
        assert_eq!(found(&data[..1], &acks[..1]), None);
        assert_eq!(found(&[], &[]), None);
    }
}
