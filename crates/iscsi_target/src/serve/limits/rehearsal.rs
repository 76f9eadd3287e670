//! The loop's rules for memory and time without sockets, run from a script with a simulated clock: the subject of the
//! fuzz target `serving`. The script acts as the sessions; after each step the guarantees of the rules are checked.

use std::collections::VecDeque;
use std::time::Duration;

use block::Buffer;
use event::Instant;

use crate::serve::limits::budget::share_bytes;
use crate::serve::limits::budget::{
    Budget, FINISH_BYTES, Filled, Holdings, LITTLE_BYTES, MOST_BYTES, WITHIN_BYTES, Wish,
};
use crate::serve::limits::turns::{Debt, REST_MAX, TURN, TurnClock};

const SESSIONS: usize = 5;
const LENGTHS_BYTES: [u32; 8] = [512, 4096, 64 << 10, 65 << 10, 1 << 20, 4 << 20, 16 << 20, 32 << 20];
/// Most bytes that arrive at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Steps of one script.
const STEPS_MAX: usize = 4096;

#[derive(Default)]
struct Session {
    own: Holdings,
    reads: VecDeque<Buffer>,
    writes: VecDeque<(Buffer, Filled)>,
    debt: Debt,
}

/// State that the rules decide about.
struct Rehearsal {
    budget: Budget,
    sessions: [Session; SESSIONS],
    now: Instant,
}

/// Runs a script, a byte at a time; after its end all begun requests are completed.
///
/// # Panics
/// If a rule breaks a guarantee.
pub fn rehearse(mut script: impl FnMut() -> Option<u8>) {
    let mut rehearsal = Rehearsal {
        budget: Budget::new(0),
        sessions: Default::default(),
        now: Instant::ZERO + Duration::from_secs(1),
    };
    for _ in 0..STEPS_MAX {
        let (Some(pick), Some(value)) = (script(), script()) else { break };
        rehearsal.step(usize::from(pick >> 4) % SESSIONS, pick & 15, value);
        rehearsal.check();
    }
    rehearsal.finish();
}

impl Rehearsal {
    fn step(&mut self, place: usize, what: u8, value: u8) {
        let len_bytes = LENGTHS_BYTES[usize::from(value & 7)];
        let wish =
            Wish { len_bytes, lun: Some(u16::from(value >> 3 & 1)), share_bytes: share_bytes(SESSIONS) };
        let session = &mut self.sessions[place];
        match what {
            0..=2 if self.budget.has_room(&session.own, wish) => {
                session.own.held_bytes += len_bytes as usize;
                session.reads.push_back(self.budget.take(wish.lun, len_bytes));
                if session.own.held_bytes > LITTLE_BYTES {
                    let used_bytes = self.budget.held_bytes() + self.budget.reserved_bytes();
                    assert!(used_bytes <= WITHIN_BYTES, "{len_bytes} bytes are of the part for the small");
                }
            }
            3 | 4 => {
                let done = session.reads.pop_front();
                session.own.held_bytes -= done.map_or(0, |buffer| buffer.len());
            }
            5..=8 if self.budget.may_announce(&session.own, wish) => {
                session.own.held_bytes += len_bytes as usize;
                let buffer = self.budget.promise(wish.lun, len_bytes);
                let filled = self.budget.announce(&mut session.own, len_bytes);
                session.writes.push_back((buffer, filled));
            }
            9..=11 => {
                let mut chunks = 0..=value;
                while chunks.next().is_some() && self.arrive(place) {}
            }
            12 => {
                self.budget.leave(&session.own);
                *session = Session::default();
            }
            13 => {
                self.now += Duration::from_millis(u64::from(value) * 40);
                for Session { own, writes, .. } in &mut self.sessions {
                    own.look(self.now, value & 1 == 0);
                    for (_, filled) in writes {
                        let late = own.late(filled, self.now, value & 1 == 0);
                        assert!(late <= self.now.since(Instant::ZERO));
                        assert!(value & 1 == 0 || late.is_zero(), "nothing could come");
                    }
                }
            }
            14 | 15 => self.turn(place, Duration::from_micros(u64::from(value) * 300)),
            _ => {}
        }
    }

    /// A turn with a costly request that takes so long: the session rests no longer than it took, nor than the longest
    /// rest.
    fn turn(&mut self, place: usize, cost: Duration) {
        let session = &mut self.sessions[place];
        if session.debt.rests(self.now) {
            return;
        }
        let begin = self.now;
        let mut clock = TurnClock::start(begin);
        clock.look(|| unreachable!("nothing was costly"));
        clock.note_costly();
        self.now += cost;
        clock.look(|| self.now);
        assert_eq!(clock.is_over(), cost >= TURN);
        assert!(clock.was_costly());
        session.debt.charge(begin, self.now);
        assert_eq!(session.debt.rests(self.now), cost > TURN);
        assert!(!session.debt.rests(self.now + cost.min(REST_MAX)));
    }

    /// Data come for the first write of a session that lacks some, if they are read; returns true if so.
    fn arrive(&mut self, place: usize) -> bool {
        let Session { own, writes, .. } = &mut self.sessions[place];
        let Some((buffer, filled)) = writes.front_mut() else { return false };
        if !self.budget.may_fill(own) && !self.budget.reserve(own) {
            return false;
        }
        let len_bytes = buffer.len() as u32;
        buffer[0] = 1;
        self.budget.arrive(own, filled, len_bytes, CHUNK_BYTES);
        buffer.count(filled.arrived_bytes as usize);
        if filled.arrived_bytes == len_bytes {
            self.budget.settle(own, *filled, len_bytes);
            own.held_bytes -= len_bytes as usize;
            writes.pop_front();
        }
        true
    }

    fn check(&self) {
        let sum =
            |bytes: fn(&Holdings) -> usize| self.sessions.iter().map(|one| bytes(&one.own)).sum::<usize>();
        assert_eq!(sum(Holdings::lacking_bytes), self.budget.lacking_bytes());
        assert_eq!(sum(Holdings::reserved_bytes), self.budget.reserved_bytes());
        assert!(self.budget.reserved_bytes() <= FINISH_BYTES);
        // A reserve is filled beside others that may fill up to the end of the memory.
        let held_bytes = self.budget.held_bytes();
        assert!(held_bytes <= MOST_BYTES + FINISH_BYTES + CHUNK_BYTES, "{held_bytes} bytes are in use");
        for Session { own, reads, writes, .. } in &self.sessions {
            assert!(own.reserved_bytes() <= own.lacking_bytes());
            assert_eq!(own.filling, writes.len());
            let lengths = reads.iter().chain(writes.iter().map(|(buffer, _)| buffer)).map(Buffer::len);
            assert_eq!(own.held_bytes, lengths.sum::<usize>());
        }
    }

    /// Stores answer all reads. Then some write can always go on, whatever the others lack.
    fn finish(mut self) {
        for session in &mut self.sessions {
            for buffer in session.reads.drain(..) {
                session.own.held_bytes -= buffer.len();
            }
        }
        while self.sessions.iter().any(|session| !session.writes.is_empty()) {
            let goes_on = (0..SESSIONS).filter(|place| self.arrive(*place)).count();
            assert!(goes_on > 0, "no write can go on");
        }
        self.check();
        let left = (self.budget.held_bytes(), self.budget.lacking_bytes(), self.budget.reserved_bytes());
        assert_eq!(left, (0, 0, 0));
    }
}
