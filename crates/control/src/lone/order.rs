//! Who of several lone senders hands over next, where all of them go through one bucket: whose burst began first, until it is
//! over. Whoever takes what is there as they come makes all bursts end at the same time, and each as late as the last. It
//! knows nothing of the bucket, nor of who may need none.

use core::time::Duration;

use event::Instant;

/// A turn is over after so much, if others wait: a block.
const TURN_BYTES: u64 = 1 << 20;
/// Who has not asked for so long does not keep others from going on.
const PATIENCE: Duration = Duration::from_millis(1);
/// And after so long it has no place any more: its burst is over, whatever it did not say.
const PLACE_LASTS: Duration = Duration::from_millis(20);

/// See the file's beginning. Senders go by the numbers that their owner gives them.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The first first.
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    number: usize,
    /// When it asked last, unless it has gone on to wait for something else.
    asked_at: Option<Instant>,
    until: Instant,
    had_bytes: u64,
}

impl Order {
    /// A sender could hand over something; whether it is its turn.
    pub fn ask(&mut self, number: usize, now: Instant) -> bool {
        self.places.retain(|place| now < place.until);
        let (asked_at, until) = (Some(now), now + PLACE_LASTS);
        match self.places.iter_mut().find(|place| place.number == number) {
            Some(place) => (place.asked_at, place.until) = (asked_at, until),
            None => self.places.push(Place { number, asked_at, until, had_bytes: 0 }),
        }
        let waits = |place: &&Place| place.asked_at.is_some_and(|asked_at| now <= asked_at + PATIENCE);
        self.places.iter().find(waits).is_some_and(|first| first.number == number)
    }

    /// It has handed over so much.
    pub fn take(&mut self, number: usize, bytes: u64) {
        let Some(at) = self.places.iter().position(|place| place.number == number) else { return };
        self.places[at].had_bytes += bytes;
        if self.places[at].had_bytes >= TURN_BYTES {
            let place = self.places.remove(at);
            self.places.push(Place { had_bytes: 0, ..place });
        }
    }

    /// It waits for something else, and others go on meanwhile.
    pub fn pause(&mut self, number: usize) {
        if let Some(place) = self.places.iter_mut().find(|place| place.number == number) {
            place.asked_at = None;
        }
    }

    /// Its burst is over.
    pub fn leave(&mut self, number: usize) {
        self.places.retain(|place| place.number != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    #[test]
    fn whose_burst_began_first_goes_on_until_it_is_over() {
        let mut order = Order::default();
        assert!(order.ask(1, us(0)) && !order.ask(2, us(1)) && !order.ask(3, us(2)));
        for at in (100..2_000).step_by(100) {
            assert!(!order.ask(3, us(at)) && !order.ask(2, us(at)) && order.ask(1, us(at)));
            order.take(1, 50_000);
        }
        order.leave(1);
        assert!(!order.ask(3, us(2_000)) && order.ask(2, us(2_000)));
        assert!(!order.ask(1, us(2_001)), "another burst is behind the others");
    }

    #[test]
    fn who_waits_for_something_else_or_is_silent_holds_up_nobody_and_keeps_its_place() {
        let mut order = Order::default();
        assert!(order.ask(1, us(0)) && !order.ask(2, us(0)));
        order.pause(1);
        assert!(order.ask(2, us(100)) && order.ask(1, us(200)) && !order.ask(2, us(200)));
        assert!(!order.ask(2, us(1_200)) && order.ask(2, us(1_201)), "it has been silent");
        assert!(order.ask(1, us(1_300)), "it is back");
        assert!(order.ask(2, us(21_300)) && !order.ask(1, us(21_300)), "it has been away for too long");
    }

    #[test]
    fn who_always_has_more_lets_others_go_on_after_a_block() {
        let mut order = Order::default();
        let mut had = [0, 0];
        for at in 0..100 {
            for number in [0, 1] {
                if order.ask(number, us(100 * at)) {
                    order.take(number, 1 << 17);
                    had[number] += 1;
                }
            }
            assert!(had[0] + had[1] > at && had[0].abs_diff(had[1]) <= 8, "{had:?}");
        }
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let mut order = Order::default();
        (0..100).for_each(|number| _ = order.ask(number, us(0)));
        order.take(1000, 1);
        order.pause(1000);
        assert!(order.ask(7, us(20_000)));
        assert_eq!(order.places.len(), 1);
    }
}
