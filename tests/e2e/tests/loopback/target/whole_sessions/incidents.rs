//! What comes in between while commands are under way: task management that ends them, and connections and sessions
//! that are lost.

use wire::iscsi::{LogoutRequest, RESERVED_TAG, logout_reason, task_function};

use super::line::Line;
use super::peer::Peer;
use super::task::{Expect, Task};
use super::{LUNS, PEERS, World};

/// Something that comes in between, by a session, about a unit or one of its connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incident {
    pub(crate) number: usize,
    kind: Kind,
    lun: usize,
    cid: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    AbortTaskSet,
    ClearTaskSet,
    LunReset,
    WarmReset,
    ColdReset,
    /// The initiator closes a connection.
    Close,
    /// It logs in another in the place of one that is still there.
    Replace,
    /// It forgets one and logs in another under its id.
    Drop,
    /// It logs one out over another.
    LogOut,
    /// It logs in as itself while its session is still there.
    Reinstate,
}

impl Incident {
    pub(crate) const KINDS: usize = 10;

    /// The task management function that it is.
    fn function(&self) -> Option<u8> {
        Some(match self.kind {
            Kind::AbortTaskSet => task_function::ABORT_TASK_SET,
            Kind::ClearTaskSet => task_function::CLEAR_TASK_SET,
            Kind::LunReset => task_function::LOGICAL_UNIT_RESET,
            Kind::WarmReset => task_function::TARGET_WARM_RESET,
            Kind::ColdReset => task_function::TARGET_COLD_RESET,
            _ => return None,
        })
    }

    fn concerns(&self, lun: usize) -> bool {
        matches!(self.kind, Kind::WarmReset | Kind::ColdReset) || lun == self.lun
    }

    fn is_reset(&self) -> bool {
        matches!(self.kind, Kind::LunReset | Kind::WarmReset | Kind::ColdReset)
    }
}

impl World {
    pub(crate) fn choose_incident(&mut self) -> Option<Incident> {
        let kind = match self.dice.below(40) {
            0..7 => Kind::AbortTaskSet,
            7..13 => Kind::ClearTaskSet,
            13..18 => Kind::LunReset,
            18..21 => Kind::WarmReset,
            21..23 => Kind::ColdReset,
            23..27 => Kind::Close,
            27..30 => Kind::Replace,
            30..33 => Kind::Drop,
            33..36 => Kind::LogOut,
            _ => Kind::Reinstate,
        };
        let (number, lun) = (self.dice.below(PEERS), self.dice.below(LUNS));
        let line = self.any_line(number);
        let peer = &self.peers[number];
        let incident = Incident { number, kind, lun, cid: peer.lines[line].cid };
        // A RESERVE ends with a reset and with its session: nobody could tell who is refused what meanwhile.
        let ends = |lun: usize| match kind {
            Kind::Reinstate => self.reservations[lun].is_reserved_by(peer.port),
            _ => incident.is_reset() && incident.concerns(lun) && self.reservations[lun].is_reserved(),
        };
        let loses_one = matches!(kind, Kind::Close | Kind::Replace | Kind::Drop | Kind::LogOut);
        let is_alone = peer.lines.len() == 1;
        let is_impossible = loses_one && is_alone || (0..LUNS).any(ends);
        (!is_impossible).then_some(incident)
    }

    /// What is to be sent for it in its turn.
    pub(crate) fn queue_incident(&mut self, incident: Incident) {
        let immediate = self.dice.chance(50);
        let line = self.any_line(incident.number);
        let peer = &mut self.peers[incident.number];
        let itt = peer.next_itt();
        if let Some(function) = incident.function() {
            let open = peer.open.values_mut().filter(|task| incident.concerns(task.lun));
            open.for_each(|task| task.is_doubtful = task.is_command);
            let request =
                peer.management(function, incident.lun, (itt, immediate), (RESERVED_TAG, peer.cmd_sn));
            if !immediate {
                peer.lines[line].numbers.push(request.cmd_sn);
            }
            return peer.queue(line, request, &[], Task::new(usize::MAX, Expect::Managed));
        }
        if incident.kind == Kind::LogOut {
            let Some(line) = peer.lines.iter().position(|line| line.cid != incident.cid) else { return };
            let request = LogoutRequest {
                immediate,
                reason: logout_reason::CLOSE_CONNECTION,
                itt,
                cid: incident.cid,
                cmd_sn: peer.take_cmd_sn(immediate),
                exp_stat_sn: 0,
            };
            if !immediate {
                peer.lines[line].numbers.push(request.cmd_sn);
            }
            peer.queue(line, request, &[], Task::new(usize::MAX, Expect::LoggedOut));
        }
    }

    /// Sends what is queued, and has it happen.
    pub(crate) fn carry_out(&mut self, incident: Incident) {
        let Incident { number, kind, cid, .. } = incident;
        match kind {
            Kind::AbortTaskSet => self.deliver(),
            Kind::ClearTaskSet | Kind::LunReset | Kind::WarmReset => {
                self.doubt(incident);
                self.deliver();
            }
            Kind::ColdReset => {
                self.doubt(incident);
                let mut waiting = self.waiting();
                self.send(&mut waiting, Line::send_anyway);
                for number in 0..PEERS {
                    self.end_session(number);
                }
                for number in 0..PEERS {
                    self.log_in_again(number);
                }
            }
            Kind::Close | Kind::Replace | Kind::Drop | Kind::LogOut => {
                let mut waiting = self.waiting();
                let place = self.peers[number].lines.iter().position(|line| line.cid == cid);
                let Some(place) = place else { return };
                if kind != Kind::LogOut {
                    self.cut(&mut waiting, |waiting| (waiting.number, waiting.line) == (number, place));
                }
                let send = |line: &mut Line, piece: &[u8]| match line.cid == cid {
                    // It may be gone by now.
                    true => line.send_anyway(piece),
                    false => line.send(piece),
                };
                self.send(&mut waiting, send);
                self.lose_line(incident, place);
            }
            Kind::Reinstate => {
                let mut waiting = self.waiting();
                self.cut(&mut waiting, |waiting| waiting.number == number);
                self.send(&mut waiting, |line, piece| line.send(piece));
                let port = self.peers[number].port;
                let new = Peer::log_in(&self.target, &mut self.dice, port);
                self.end_session(number);
                self.seen.add(self.peers[number].seen);
                self.peers[number] = new;
            }
        }
    }

    /// Other sessions' commands may have been ended, and those that lost some are told.
    fn doubt(&mut self, incident: Incident) {
        for (number, peer) in self.peers.iter_mut().enumerate() {
            let is_own = number == incident.number;
            for lun in (0..LUNS).filter(|lun| incident.concerns(*lun)) {
                let is_told = !is_own || incident.is_reset();
                peer.attention[lun] |= is_told;
                peer.has_told[lun] &= !is_told;
            }
            let open = peer.open.values_mut().filter(|task| !is_own && incident.concerns(task.lun));
            open.for_each(|task| task.is_doubtful |= task.is_command);
        }
    }

    /// Cuts off what is not sent any more.
    fn cut(&mut self, waiting: &mut [super::Waiting], is_cut: impl Fn(&super::Waiting) -> bool) {
        for waiting in waiting.iter_mut().filter(|waiting| is_cut(waiting)) {
            waiting.bytes.truncate(self.dice.below(waiting.bytes.len() + 1));
        }
    }

    /// A connection is lost, and its session goes on without it or with another in its place.
    fn lose_line(&mut self, incident: Incident, place: usize) {
        let Incident { number, kind, cid, .. } = incident;
        let (peer, target, dice) = (&mut self.peers[number], &self.target, &mut self.dice);
        let mut line = peer.lines.swap_remove(place);
        let numbers = std::mem::take(&mut line.numbers);
        match kind {
            Kind::Close => {
                line.end_sending();
                peer.part(line);
            }
            Kind::LogOut => peer.part(line),
            Kind::Replace => {
                peer.join(target, dice, Some(cid));
                peer.part(line);
            }
            _ => {
                drop(line);
                peer.lose(cid);
                peer.join(target, dice, Some(cid));
            }
        }
        // At error recovery level 0 nothing is sent again, and nothing goes on before every number has come.
        for number in numbers {
            let line = dice.below(peer.lines.len());
            peer.ping(line, (false, number), b"there you are", Expect::Perhaps);
        }
        self.deliver();
    }

    /// The target ends a session: what it still says.
    fn end_session(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        for line in std::mem::take(&mut peer.lines) {
            peer.part(line);
        }
        self.apply(number);
    }

    /// Everything of it is over, and the next round begins with what is known for certain.
    pub(crate) fn come_to_rest(&mut self, incident: Incident) {
        self.incidents[incident.kind as usize] += 1;
        if matches!(incident.kind, Kind::ClearTaskSet | Kind::LunReset | Kind::WarmReset) {
            self.doubt(incident);
        }
    }
}
