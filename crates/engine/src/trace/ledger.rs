//! The requests of one session that are open, by their tags, and PDUs of theirs that are on their way.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use event::{Instant, LayerTimes, Layers, PduSeen, RequestId, TcpTimes, Way};
use slab::Slab;
use wire::iscsi::Pdu;

use super::{Tracer, pdu_row};
use crate::pdu::rx::Span;
use crate::pdu::stamping::{Departed, Mark, Stamped};

/// Limit on known requests. More are open only if a peer leaves requests unfinished; the rows of those have the times
/// known so far.
const OPEN_MAX: usize = 1 << 17;
/// Requests that have ended and wait for TCP's times.
const LATE_MAX: usize = 1 << 12;
/// Set in the names of PDUs that have rows of their own; others are named by the places of their requests.
const PDU_BIT: u64 = 1 << 63;

/// Open requests of a session with their times. `T` are the times of this end.
pub struct Ledger<T> {
    tracer: Rc<Tracer>,
    session: u64,
    open: Slab<Open<T>>,
    /// Place of each request by its tag; closed requests are not in it.
    by_tag: HashMap<u32, u32, BuildHasherDefault<TagHasher>>,
    /// Ended, by tag and command number (an immediate command has that of the next one): the last byte of the PDU that is
    /// followed was not acknowledged.
    late: HashMap<(u32, u32), Layers<T>, BuildHasherDefault<TagHasher>>,
    away: Slab<Away>,
}

/// A request, and the PDU on its way out that has the times of TCP for it, if it is followed.
struct Open<T> {
    request: Layers<T>,
    edge: Option<usize>,
}

/// Place of an open request, and its tag: places are reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    slot: u32,
    itt: u32,
}

/// A PDU on its way out that has a row.
struct Away {
    row: PduSeen,
    /// The request that gets TCP's times of this PDU.
    edge: Option<Place>,
}

/// Tags are counters, in any bits: one multiplication spreads them.
#[derive(Default)]
struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, tag: u32) {
        let product = (self.0 ^ u64::from(tag)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

impl Place {
    const fn mark_tag(self) -> u64 {
        (self.slot as u64) << 32 | self.itt as u64
    }

    const fn of_mark(tag: u64) -> Place {
        Place { slot: (tag >> 32) as u32, itt: tag as u32 }
    }
}

impl<T: Copy + Into<LayerTimes>> Ledger<T> {
    /// For a session, by its number in the tables.
    pub fn new(tracer: Rc<Tracer>, session: u64) -> Ledger<T> {
        Ledger {
            tracer,
            session,
            open: Slab::with_capacity(1 << 10),
            by_tag: HashMap::with_capacity_and_hasher(1 << 10, BuildHasherDefault::default()),
            late: HashMap::default(),
            away: Slab::with_capacity(1 << 8),
        }
    }

    /// Number of the session.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// True if a command is recorded.
    pub fn takes(&self, cmd_sn: u32) -> bool {
        self.tracer.sampling().takes(cmd_sn)
    }

    /// Reports a command whose record is lost: its row is missing if it is sampled.
    pub fn lose(&self, cmd_sn: u32) {
        self.tracer.lose(cmd_sn);
    }

    /// A request is open from now on. One of the same tag that never ended is over.
    pub fn begin(&mut self, request: Layers<T>) -> Place {
        if self.open.len() >= OPEN_MAX {
            // PDUs that are on their way keep their names.
            self.end_requests(|_| true);
        }
        let itt = request.id.itt;
        let slot = self.open.insert(Open { request, edge: None }) as u32;
        if let Some(old) = self.by_tag.insert(itt, slot) {
            self.tracer.request(&self.open.remove(old as usize).request);
        }
        Place { slot, itt }
    }

    /// Place of the request with this tag.
    pub fn place(&self, itt: u32) -> Option<Place> {
        self.by_tag.get(&itt).map(|slot| Place { slot: *slot, itt })
    }

    /// Times of an open request, if it still has this place.
    pub fn at(&mut self, place: Place) -> Option<&mut Layers<T>> {
        let open = self.open.get_mut(place.slot as usize)?;
        (open.request.id.itt == place.itt).then_some(&mut open.request)
    }

    /// Times of the request with this tag.
    pub fn find(&mut self, itt: u32) -> Option<&mut Layers<T>> {
        let slot = *self.by_tag.get(&itt)?;
        Some(&mut self.open[slot as usize].request)
    }

    /// A request is of no interest, or begins again.
    pub fn forget(&mut self, itt: u32) {
        if let Some(slot) = self.by_tag.remove(&itt) {
            self.open.remove(slot as usize);
        }
    }

    /// A request is about to end: its tag may be used again, and only its place is known.
    pub fn close(&mut self, itt: u32) -> Option<Place> {
        self.by_tag.remove(&itt).map(|slot| Place { slot, itt })
    }

    /// A request that was closed has ended: its row is complete but for the times of TCP, which are waited for.
    pub fn end(&mut self, place: Place) {
        if self.at(place).is_none() {
            return;
        }
        let slot = place.slot as usize;
        let Open { request, edge } = &self.open[slot];
        if edge.is_some() && self.late.len() < LATE_MAX {
            self.late.insert((request.id.itt, request.id.cmd_sn), *request);
        } else {
            self.tracer.request(request);
        }
        self.open.remove(slot);
    }

    /// Ends the session: open requests get rows with the times that they have.
    pub fn end_all(&mut self) {
        self.end_requests(|_| true);
        for away in self.away.drain() {
            self.tracer.pdu(&away.row);
        }
    }

    /// Ends a connection of a session that continues: its requests and PDUs get no more times.
    pub fn leave(&mut self, connection: u32) {
        self.end_requests(|id| id.connection == connection);
        self.away.retain(|_, away| {
            let stays = away.row.id.connection != connection;
            if !stays {
                self.tracer.pdu(&away.row);
            }
            stays
        });
    }

    fn end_requests(&mut self, is_over: impl Fn(&RequestId) -> bool) {
        let (open, tracer) = (&self.open, &self.tracer);
        self.by_tag.retain(|_, slot| !is_over(&open[*slot as usize].request.id));
        self.open.retain(|_, open| {
            let stays = !is_over(&open.request.id);
            if !stays {
                tracer.request(&open.request);
            }
            stays
        });
        for (_, request) in self.late.extract_if(|_, request| is_over(&request.id)) {
            tracer.request(&request);
        }
    }

    /// Drops open requests because another session issues them again; their PDUs have rows already.
    pub fn begin_again(&mut self, session: u64) {
        self.session = session;
        self.open.clear();
        self.by_tag.clear();
        self.end_all();
    }

    /// Records a PDU before it is sent. `cmd_sn` is the number of its command, if its request is known; `edge` names
    /// the request that gets its position and timestamps, by [`Ledger::departed`].
    pub fn sends(
        &mut self,
        connection: u32,
        pdu: &Pdu,
        (cmd_sn, edge): (Option<u32>, Option<Place>),
        now: Instant,
    ) -> Option<Mark> {
        if !self.has_row(pdu, cmd_sn) {
            return edge.map(|place| Mark { tag: place.mark_tag(), is_stamped: false });
        }
        let row = self.row(self.id(connection, pdu, cmd_sn.unwrap_or(0)), pdu, Way::Out, now);
        let key = self.away.insert(Away { row, edge });
        if let Some(open) = edge.and_then(|place| self.open_at(place)) {
            open.edge = Some(key);
        }
        Some(Mark { tag: PDU_BIT | key as u64, is_stamped: true })
    }

    /// A PDU has come. `cmd_sn` is the number of its command, if it belongs to a request that is known.
    pub fn receives(
        &mut self,
        connection: u32,
        pdu: &Pdu,
        cmd_sn: Option<u32>,
        (span, now): (Span, Instant),
    ) {
        if self.has_row(pdu, cmd_sn) {
            let row = self.row(self.id(connection, pdu, cmd_sn.unwrap_or(0)), pdu, Way::In, now);
            self.tracer.pdu(&PduSeen { stream_begin: span.begin, stream_end: span.end, ..row });
        }
    }

    /// The socket has taken a marked PDU; its request, if the place of the PDU is wanted there.
    pub fn departed(&mut self, departed: &Departed) -> Option<Place> {
        if departed.tag & PDU_BIT == 0 {
            return Some(Place::of_mark(departed.tag));
        }
        let key = (departed.tag & !PDU_BIT) as usize;
        let away = self.away.get_mut(key)?;
        let Departed { begin, end, at, .. } = *departed;
        (away.row.stream_begin, away.row.stream_end, away.row.socketed) = (begin, end, at);
        let edge = away.edge;
        if !departed.is_stamped {
            let row = self.away.remove(key).row;
            self.tracer.pdu(&row);
            if let Some(open) = edge.and_then(|place| self.open_at(place)) {
                open.edge = None;
            }
        }
        edge
    }

    /// TCP's times of a marked PDU.
    pub fn stamped(&mut self, stamped: &Stamped) {
        let Some(mut away) = self.away.try_remove((stamped.tag & !PDU_BIT) as usize) else { return };
        away.row.tcp = TcpTimes {
            queued: stamped.queued.unwrap_or_default(),
            wire: stamped.wire.unwrap_or_default(),
            acked: stamped.acked.unwrap_or_default(),
        };
        self.tracer.pdu(&away.row);
        let Some(place) = away.edge else { return };
        let (RequestId { itt, cmd_sn, .. }, tcp) = (away.row.id, away.row.tcp);
        if let Some(request) = self.late.remove(&(itt, cmd_sn)) {
            self.tracer.request(&Layers { tcp, ..request });
        } else if let Some(open) = self.open_at(place).filter(|open| open.request.id.cmd_sn == cmd_sn) {
            (open.request.tcp, open.edge) = (tcp, None);
        }
    }

    fn open_at(&mut self, place: Place) -> Option<&mut Open<T>> {
        self.open.get_mut(place.slot as usize).filter(|open| open.request.id.itt == place.itt)
    }

    /// True if a PDU gets a row: one of a command with the sampling of commands, another one if any PDU is sampled.
    fn has_row(&self, pdu: &Pdu, cmd_sn: Option<u32>) -> bool {
        let sampling = self.tracer.sampling();
        match cmd_sn {
            Some(cmd_sn) => sampling.takes_pdus(cmd_sn),
            None => sampling.pdus != 0 && !is_of_command(pdu),
        }
    }

    fn id(&self, connection: u32, pdu: &Pdu, cmd_sn: u32) -> RequestId {
        RequestId { session: self.session, connection, itt: pdu.itt(), cmd_sn }
    }

    fn row(&self, id: RequestId, pdu: &Pdu, way: Way, t: Instant) -> PduSeen {
        let pdu_row::Fields { kind, has_status, stat_sn, data_sn, offset_bytes, len_bytes } =
            pdu_row::fields(pdu);
        PduSeen {
            t,
            host: self.tracer.host,
            id,
            way,
            kind,
            has_status,
            stat_sn,
            data_sn,
            offset_bytes,
            len_bytes,
            stream_begin: 0,
            stream_end: 0,
            socketed: Instant::ZERO,
            tcp: TcpTimes::default(),
        }
    }
}

fn is_of_command(pdu: &Pdu) -> bool {
    matches!(pdu, Pdu::ScsiCommand(_) | Pdu::ScsiResponse(_) | Pdu::DataIn(_) | Pdu::DataOut(_) | Pdu::R2t(_))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use event::{Host, NearTimes, Op};
    use tables::{LayerColumns, Pdus};
    use wire::iscsi::{BHS_LEN, Bhs};

    use super::*;
    use crate::trace::Sampling;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    fn request(itt: u32, cmd_sn: u32) -> Layers<NearTimes> {
        Layers {
            id: RequestId { session: 7, connection: 0, itt, cmd_sn },
            op: Op::Read,
            status: 0,
            lun: 0,
            len_bytes: 512,
            offset_bytes: 0,
            command_stream_end: 0,
            status_stream_end: 0,
            tcp: TcpTimes::default(),
            times: NearTimes { called: at(1), ..NearTimes::default() },
        }
    }

    fn command(itt: u32, cmd_sn: u32) -> Pdu {
        let mut header = [0; BHS_LEN];
        (header[0], header[1]) = (0x01, 0xc0);
        header[16..20].copy_from_slice(&itt.to_be_bytes());
        header[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
        assert_eq!(Bhs::new(&header).itt(), itt);
        Pdu::parse(&header).expect("a command")
    }

    fn departed(mark: Mark, is_stamped: bool) -> Departed {
        Departed { tag: mark.tag, begin: 100, end: 148, at: at(5), is_stamped }
    }

    fn stamped(mark: Mark) -> Stamped {
        Stamped { tag: mark.tag, queued: Some(at(6)), wire: None, acked: Some(at(8)) }
    }

    /// A command is sent, and its place is wanted.
    fn sent(ledger: &mut Ledger<NearTimes>, itt: u32, cmd_sn: u32) -> Mark {
        let place = ledger.begin(request(itt, cmd_sn));
        ledger.sends(0, &command(itt, cmd_sn), (Some(cmd_sn), Some(place)), at(4)).unwrap()
    }

    fn end(ledger: &mut Ledger<NearTimes>, itt: u32) {
        let place = ledger.close(itt).unwrap();
        ledger.end(place);
    }

    /// Contents of the tables after `play`, with every second request in `pdus`.
    fn recorded(play: impl FnOnce(&mut Ledger<NearTimes>)) -> (LayerColumns, Pdus) {
        let dir = tempfile::tempdir().unwrap();
        let sampling = Sampling { layers: 1, pdus: 2 };
        let tracer = Rc::new(Tracer::create(dir.path(), Host::Near, sampling).unwrap());
        let mut ledger = Ledger::new(Rc::clone(&tracer), 7);
        play(&mut ledger);
        ledger.end_all();
        drop(ledger);
        let traced = Rc::into_inner(tracer).expect("nobody else has it").finish().unwrap();
        let read = |dir: &Path| (tables::read::<Layers>(dir).unwrap(), tables::read::<PduSeen>(dir).unwrap());
        let (layers, pdus) = read(dir.path());
        assert_eq!(traced.layers.rows as usize, layers.itt.len());
        assert_eq!(traced.pdus.rows as usize, pdus.itt.len());
        (layers, pdus)
    }

    #[test]
    fn nothing_is_kept_of_a_connection_that_is_gone() {
        let (layers, pdus) = recorded(|ledger| {
            let mark = sent(ledger, 30, 4);
            ledger.departed(&departed(mark, true));
            let other = Layers { id: RequestId { connection: 1, ..request(31, 6).id }, ..request(31, 6) };
            let place = ledger.begin(other);
            ledger.sends(1, &command(31, 6), (Some(6), Some(place)), at(4)).unwrap();
            ledger.leave(0);
            assert_eq!((ledger.open.len(), ledger.away.len()), (1, 1), "those of the other connection");
            ledger.leave(1);
            assert_eq!((ledger.open.len(), ledger.late.len(), ledger.away.len()), (0, 0, 0));
        });
        assert_eq!((layers.cmd_sn, pdus.cmd_sn), (vec![4, 6], vec![4, 6]));
    }

    #[test]
    fn a_request_that_is_in_pdus_waits_for_the_times_of_tcp() {
        for stamps_first in [false, true] {
            let (layers, pdus) = recorded(|ledger| {
                let mark = sent(ledger, 30, 4);
                assert!(mark.is_stamped);
                let place = ledger.departed(&departed(mark, true)).unwrap();
                assert_eq!(ledger.at(place).map(|request| request.id.cmd_sn), Some(4));
                if stamps_first {
                    ledger.stamped(&stamped(mark));
                    end(ledger, 30);
                } else {
                    end(ledger, 30);
                    // Its tag is in use again before its stamps come.
                    ledger.begin(request(30, 5));
                    ledger.stamped(&stamped(mark));
                }
            });
            assert_eq!((layers.cmd_sn[0], layers.tcp_queued_t_ns[0], layers.tcp_acked_t_ns[0]), (4, 6, 8));
            assert!(layers.tcp_acked_t_ns[1..].iter().all(|t| *t == 0));
            let place = (pdus.stream_begin[0], pdus.stream_end[0], pdus.socketed_t_ns[0]);
            assert_eq!((place, pdus.t_ns[0], pdus.tcp_acked_t_ns[0]), ((100, 148, 5), 4, 8));
        }
    }

    #[test]
    fn a_pdu_without_stamps_is_not_waited_for() {
        let (layers, pdus) = recorded(|ledger| {
            let mark = sent(ledger, 30, 4);
            ledger.departed(&departed(mark, false));
            end(ledger, 30);
            assert!(ledger.late.is_empty() && ledger.away.is_empty());
        });
        assert_eq!((layers.cmd_sn, layers.tcp_acked_t_ns, pdus.itt), (vec![4], vec![0], vec![30]));
    }

    #[test]
    fn one_in_so_many_has_its_pdus_and_all_are_told_where_they_lie() {
        let (layers, pdus) = recorded(|ledger| {
            let mark = sent(ledger, 31, 5);
            assert!(!mark.is_stamped);
            assert_eq!(ledger.departed(&departed(mark, false)), ledger.place(31));
            assert_eq!(ledger.sends(0, &command(31, 5), (Some(5), None), at(4)), None);
        });
        assert_eq!((layers.cmd_sn, pdus.itt.len()), (vec![5], 0));
    }

    #[test]
    fn a_tag_that_is_used_again_ends_its_former_request_and_a_lost_session_forgets_all() {
        let (layers, _) = recorded(|ledger| {
            ledger.begin(request(1, 11));
            ledger.begin(request(1, 13));
            ledger.forget(1);
            ledger.begin(request(2, 15));
            ledger.begin_again(8);
            ledger.begin(request(3, 17));
        });
        assert_eq!(layers.cmd_sn, [11, 17]);
    }
    #[test]
    fn a_closed_request_is_known_by_its_place_alone_and_its_tag_is_free() {
        let (layers, _) = recorded(|ledger| {
            let first = ledger.begin(request(1, 11));
            assert_eq!(ledger.close(1), Some(first));
            assert_eq!((ledger.place(1), ledger.find(1)), (None, None));
            let second = ledger.begin(request(1, 13));
            assert_eq!(ledger.at(first).map(|request| request.id.cmd_sn), Some(11));
            ledger.end(first);
            assert_eq!(ledger.place(1), Some(second));
            // The place is taken by another now.
            ledger.begin(request(2, 15));
            assert_eq!(ledger.at(first), None);
            ledger.end(first);
            assert_eq!(ledger.open.len(), 2);
        });
        assert_eq!(layers.cmd_sn[0], 11);
        assert_eq!(layers.cmd_sn.len(), 3);
    }
}
