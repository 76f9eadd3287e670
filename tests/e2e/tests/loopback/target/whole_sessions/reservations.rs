//! Who has reserved a LUN, as the standards say it (SPC-2 section 5.5.1, SPC-4 section 5.12), told by its effects: what is
//! refused to whom. One command at a time changes it.

use wire::scsi::{ModeForm, ReservationType, ReserveIn, ReserveOut, ReserveParameters, SenseKey};

use super::dice::Dice;
use super::task::Expect;

/// What a command needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Answered whatever is reserved.
    Nothing,
    /// Refused only under another's RESERVE.
    Presence,
    Read,
    Write,
}

/// A change that somebody asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Reserve(ModeForm),
    Release(ModeForm),
    /// PERSISTENT RESERVE OUT, with its type and both keys.
    Persistent {
        action: ReserveOut,
        kind: ReservationType,
        list: ReserveParameters,
    },
}

/// One LUN's. Ports are known by their numbers.
#[derive(Clone, Default, Debug)]
pub(crate) struct Reservations {
    /// RESERVE, by a session of this port.
    reserved: Option<u32>,
    registered: Vec<(u32, u64)>,
    held: Option<(ReservationType, u32)>,
    generation: u32,
}

const KINDS: [ReservationType; 6] = [
    ReservationType::WriteExclusive,
    ReservationType::ExclusiveAccess,
    ReservationType::WriteExclusiveRegistrants,
    ReservationType::ExclusiveAccessRegistrants,
    ReservationType::WriteExclusiveAll,
    ReservationType::ExclusiveAccessAll,
];

impl Reservations {
    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved.is_some()
    }

    pub(crate) fn is_reserved_by(&self, port: u32) -> bool {
        self.reserved == Some(port)
    }

    pub(crate) fn is_free(&self) -> bool {
        self.reserved.is_none() && self.registered.is_empty()
    }

    /// A reset, or the end of the session that holds a RESERVE.
    pub(crate) fn let_go(&mut self, of: Option<u32>) {
        self.reserved = self.reserved.filter(|port| of.is_some_and(|of| of != *port));
    }

    /// Whether a port is refused a command.
    pub(crate) fn refuses(&self, port: u32, need: Need) -> bool {
        let by_another = self.reserved.is_some_and(|holder| holder != port) && need != Need::Nothing;
        let persistently = self.held.is_some_and(|(kind, _)| {
            let is_let = self.holds(port) || kind.admits_registrants() && self.key(port).is_some();
            !is_let && (need == Need::Write || need == Need::Read && !kind.allows_reads())
        });
        by_another || persistently
    }

    fn key(&self, port: u32) -> Option<u64> {
        self.registered.iter().find(|(other, _)| *other == port).map(|(_, key)| *key)
    }

    fn holds(&self, port: u32) -> bool {
        self.held.is_some_and(|(kind, holder)| match kind.is_held_by_all() {
            true => self.key(port).is_some(),
            false => holder == port,
        })
    }

    /// Something that a port may want.
    pub(crate) fn choose(&self, dice: &mut Dice, port: u32, may_persist: bool) -> Change {
        let form = dice.pick(&[ModeForm::Six, ModeForm::Ten]);
        let action = match dice.below(12) {
            0..2 => return Change::Reserve(form),
            2 => return Change::Release(form),
            3..6 => ReserveOut::RegisterAndIgnore,
            6 => ReserveOut::Register,
            7..9 => ReserveOut::Reserve,
            9 => ReserveOut::Release,
            10 => ReserveOut::Clear,
            _ => dice.pick(&[ReserveOut::Preempt, ReserveOut::PreemptAndAbort]),
        };
        let is_right = dice.chance(85);
        let key = if is_right { self.key(port).unwrap_or(0) } else { 0xbad };
        let held_as = self.held.map(|(kind, _)| kind).filter(|_| dice.chance(70));
        let registers = matches!(action, ReserveOut::Register | ReserveOut::RegisterAndIgnore);
        let list = ReserveParameters {
            key,
            // Few, so that they meet.
            action_key: dice.pick(&[0, 1, 1, 2, 3]),
            persist: registers && may_persist && dice.chance(30),
            ..ReserveParameters::default()
        };
        Change::Persistent { action, kind: held_as.unwrap_or(dice.pick(&KINDS)), list }
    }

    /// What becomes of a change, which is in force then.
    pub(crate) fn change(&mut self, port: u32, change: Change) -> Expect {
        let (action, kind, list) = match change {
            Change::Reserve(_) if self.refuses_reserve(port) => return Expect::Conflict,
            Change::Reserve(_) => {
                self.reserved = Some(port);
                return Expect::Good;
            }
            // RELEASE does not go together with registrations, except that it is answered under another's RESERVE.
            Change::Release(_) if self.reserved.is_none() && !self.registered.is_empty() => {
                return Expect::Conflict;
            }
            Change::Release(_) => {
                self.let_go(Some(port));
                return Expect::Good;
            }
            Change::Persistent { .. } if self.reserved.is_some() => return Expect::Conflict,
            Change::Persistent { action, kind, list } => (action, kind, list),
        };
        let own = self.key(port);
        if action == ReserveOut::RegisterAndIgnore {
            return self.register(port, list.action_key);
        }
        let is_known =
            own == Some(list.key) || own.is_none() && list.key == 0 && action == ReserveOut::Register;
        if !is_known {
            return Expect::Conflict;
        }
        match action {
            ReserveOut::Register => return self.register(port, list.action_key),
            ReserveOut::Reserve => match self.held {
                None => self.held = Some((kind, port)),
                Some((held, _)) if held == kind && self.holds(port) => {}
                Some(_) => return Expect::Conflict,
            },
            ReserveOut::Release => match self.held {
                Some((held, _)) if self.holds(port) && held != kind => {
                    return Expect::Check(SenseKey::IllegalRequest, 0x26);
                }
                Some(_) if self.holds(port) => self.held = None,
                _ => {}
            },
            ReserveOut::Clear => {
                (self.held, self.generation) = (None, self.generation + 1);
                self.registered.clear();
            }
            ReserveOut::Preempt | ReserveOut::PreemptAndAbort => {
                return self.preempt(port, kind, list.action_key);
            }
            ReserveOut::RegisterAndIgnore => unreachable!("it was done"),
        }
        Expect::Good
    }

    fn refuses_reserve(&self, port: u32) -> bool {
        !self.registered.is_empty() || self.reserved.is_some_and(|holder| holder != port)
    }

    fn register(&mut self, port: u32, key: u64) -> Expect {
        match (self.registered.iter().position(|(other, _)| *other == port), key) {
            (None, 0) => return Expect::Good,
            (None, key) => self.registered.push((port, key)),
            (Some(at), 0) => {
                let held_alone =
                    self.held.is_some_and(|(kind, holder)| holder == port && !kind.is_held_by_all());
                self.registered.remove(at);
                if held_alone || self.registered.is_empty() {
                    self.held = None;
                }
            }
            (Some(at), key) => self.registered[at].1 = key,
        }
        self.generation += 1;
        Expect::Good
    }

    /// SPC-4 sections 5.12.11.2.4 and 6.16.4.
    fn preempt(&mut self, port: u32, kind: ReservationType, key: u64) -> Expect {
        let takes_over = self.held.is_some_and(|(held, holder)| match held.is_held_by_all() {
            true => key == 0,
            false => key != 0 && self.key(holder) == Some(key),
        });
        if key == 0 && !takes_over {
            return Expect::Check(SenseKey::IllegalRequest, 0x26);
        }
        if !self.registered.iter().any(|(_, other)| *other == key) && key != 0 {
            return Expect::Conflict;
        }
        // Only who takes over stays although the key is its own.
        self.registered.retain(|(other, found)| takes_over && *other == port || key != 0 && *found != key);
        if takes_over {
            self.held = Some((kind, port));
        } else if self.registered.is_empty() {
            self.held = None;
        }
        self.generation += 1;
        Expect::Good
    }

    /// What PERSISTENT RESERVE IN has to say, as far as it is known.
    pub(crate) fn told(&self, action: ReserveIn) -> Vec<u8> {
        let body: Vec<u8> = match (action, self.held) {
            (ReserveIn::ReadKeys, _) => {
                self.registered.iter().flat_map(|(_, key)| key.to_be_bytes()).collect()
            }
            (_, Some((kind, holder))) => {
                let key = if kind.is_held_by_all() { 0 } else { self.key(holder).unwrap_or(0) };
                [&key.to_be_bytes()[..], &[0, 0, 0, 0, 0, kind as u8, 0, 0]].concat()
            }
            (_, None) => Vec::new(),
        };
        let header = [self.generation.to_be_bytes(), (body.len() as u32).to_be_bytes()].concat();
        [header, body].concat()
    }
}
