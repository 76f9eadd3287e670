//! The requests of one session that are open, by their tags, and PDUs of theirs that are on their way.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use event::{Instant, LayerTimes, Layers, PduSeen, RequestId, TcpTimes, Way};
use slab::Slab;
use wire::iscsi::Pdu;

use super::{Tracer, seen};
use crate::rx::Span;
use crate::stamping::{Departed, Mark, Stamped};

/// Requests that are known at a time. More are open only if a peer never lets one end; their rows are written
/// as far as they came.
const OPEN_MAX: usize = 1 << 17;
/// Requests that have ended and wait for TCP's times.
const LATE_MAX: usize = 1 << 12;
/// Set in the names of PDUs that have rows of their own; others are named by the tags of their requests.
const PDU_BIT: u64 = 1 << 32;

/// What is known of a session's requests. `T` are the times of this end.
pub struct Ledger<T> {
    tracer: Rc<Tracer>,
    session: u64,
    open: HashMap<u32, Open<T>, BuildHasherDefault<TagHasher>>,
    /// Ended, by command number: the last byte of the PDU that is followed was not acknowledged.
    late: HashMap<u32, Layers<T>, BuildHasherDefault<TagHasher>>,
    away: Slab<Away>,
}

/// A request, and the PDU on its way out that has the times of TCP for it, if it is followed.
struct Open<T> {
    request: Layers<T>,
    edge: Option<usize>,
}

/// A PDU on its way out that has a row.
struct Away {
    row: PduSeen,
    /// TCP's times of it are those of its request.
    is_edge: bool,
}

/// Tags are numbers that count, in whatever bits: one multiplication spreads them.
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

impl<T: Copy + Into<LayerTimes>> Ledger<T> {
    /// For a session, by its number in the tables.
    pub fn new(tracer: Rc<Tracer>, session: u64) -> Ledger<T> {
        Ledger {
            tracer,
            session,
            open: HashMap::with_capacity_and_hasher(1 << 10, BuildHasherDefault::default()),
            late: HashMap::default(),
            away: Slab::with_capacity(1 << 8),
        }
    }

    /// Its number.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// Whether anything is recorded of a command.
    pub fn takes(&self, cmd_sn: u32) -> bool {
        self.tracer.sampling().takes(cmd_sn)
    }

    /// A request is open from now on. One of the same tag that never ended is over.
    pub fn begin(&mut self, request: Layers<T>) {
        if self.open.len() >= OPEN_MAX {
            // PDUs that are on their way keep their names.
            self.end_requests(|_| true);
        }
        if let Some(old) = self.open.insert(request.id.itt, Open { request, edge: None }) {
            self.tracer.request(&old.request.into_row());
        }
    }

    /// What is known of an open request.
    pub fn find(&mut self, itt: u32) -> Option<&mut Layers<T>> {
        Some(&mut self.open.get_mut(&itt)?.request)
    }

    /// A request is of no interest, or begins again.
    pub fn forget(&mut self, itt: u32) {
        self.open.remove(&itt);
    }

    /// A request has ended: its row is complete but for the times of TCP, which are waited for.
    pub fn end(&mut self, itt: u32) {
        let Some(Open { request, edge }) = self.open.remove(&itt) else { return };
        if edge.is_some() && self.late.len() < LATE_MAX {
            self.late.insert(request.id.cmd_sn, request);
        } else {
            self.tracer.request(&request.into_row());
        }
    }

    /// The session is over: what is open has rows as far as it came.
    pub fn end_all(&mut self) {
        self.end_requests(|_| true);
        for away in self.away.drain() {
            self.tracer.pdu(&away.row);
        }
    }

    /// A connection is gone and the session goes on: nothing more comes of the requests and the PDUs that were its own.
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
        let open = self.open.extract_if(|_, open| is_over(&open.request.id)).map(|(_, open)| open.request);
        let late = self.late.extract_if(|_, request| is_over(&request.id)).map(|(_, request)| request);
        for request in open.chain(late) {
            self.tracer.request(&request.into_row());
        }
    }

    /// Forgets what is open, because it is asked for again in another session; what is known of its PDUs has
    /// rows.
    pub fn begin_again(&mut self, session: u64) {
        self.session = session;
        self.open.clear();
        self.end_all();
    }

    /// A PDU is about to be sent. `is_edge` says that its place and times are wanted for its request, which are
    /// told by [`Ledger::departed`].
    pub fn sends(&mut self, connection: u32, pdu: &Pdu, is_edge: bool, now: Instant) -> Option<Mark> {
        let Some(id) = self.row_of(connection, pdu, None) else {
            return is_edge.then_some(Mark { tag: u64::from(pdu.itt()), is_stamped: false });
        };
        let row = self.row(id, pdu, Way::Out, now);
        let key = self.away.insert(Away { row, is_edge });
        if is_edge && let Some(open) = self.open.get_mut(&pdu.itt()) {
            open.edge = Some(key);
        }
        Some(Mark { tag: PDU_BIT | key as u64, is_stamped: true })
    }

    /// A PDU has come. `cmd_sn` is the number of its command, where that is not open yet.
    pub fn receives(
        &mut self,
        connection: u32,
        pdu: &Pdu,
        cmd_sn: Option<u32>,
        (span, now): (Span, Instant),
    ) {
        if let Some(id) = self.row_of(connection, pdu, cmd_sn) {
            let row = self.row(id, pdu, Way::In, now);
            self.tracer.pdu(&PduSeen { stream_begin: span.begin, stream_end: span.end, ..row });
        }
    }

    /// The socket has taken a marked PDU; the tag of its request, if its place is wanted there.
    pub fn departed(&mut self, departed: &Departed) -> Option<u32> {
        if departed.tag & PDU_BIT == 0 {
            return Some(departed.tag as u32);
        }
        let key = (departed.tag & !PDU_BIT) as usize;
        let away = self.away.get_mut(key)?;
        let Departed { begin, end, at, .. } = *departed;
        (away.row.stream_begin, away.row.stream_end, away.row.socketed) = (begin, end, at);
        let itt = away.is_edge.then_some(away.row.id.itt);
        if !departed.is_stamped {
            let row = self.away.remove(key).row;
            self.tracer.pdu(&row);
            if let Some(open) = itt.and_then(|itt| self.open.get_mut(&itt)) {
                open.edge = None;
            }
        }
        itt
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
        if !away.is_edge {
            return;
        }
        let RequestId { itt, cmd_sn, .. } = away.row.id;
        if let Some(mut request) = self.late.remove(&cmd_sn) {
            request.tcp = away.row.tcp;
            self.tracer.request(&request.into_row());
        } else if let Some(open) = self.open.get_mut(&itt).filter(|open| open.request.id.cmd_sn == cmd_sn) {
            (open.request.tcp, open.edge) = (away.row.tcp, None);
        }
    }

    /// Whose PDU it is, if it has a row.
    fn row_of(&self, connection: u32, pdu: &Pdu, cmd_sn: Option<u32>) -> Option<RequestId> {
        let sampling = self.tracer.sampling();
        let is_of_command = matches!(
            pdu,
            Pdu::ScsiCommand(_) | Pdu::ScsiResponse(_) | Pdu::DataIn(_) | Pdu::DataOut(_) | Pdu::R2t(_)
        );
        let cmd_sn = match pdu {
            Pdu::ScsiCommand(command) => command.cmd_sn,
            _ if is_of_command => {
                cmd_sn.or_else(|| self.open.get(&pdu.itt()).map(|open| open.request.id.cmd_sn))?
            }
            _ if sampling.pdus == 0 => return None,
            _ => return Some(self.id(connection, pdu, 0)),
        };
        sampling.takes_pdus(cmd_sn).then(|| self.id(connection, pdu, cmd_sn))
    }

    fn id(&self, connection: u32, pdu: &Pdu, cmd_sn: u32) -> RequestId {
        RequestId { session: self.session, connection, itt: pdu.itt(), cmd_sn }
    }

    fn row(&self, id: RequestId, pdu: &Pdu, way: Way, t: Instant) -> PduSeen {
        let seen::Fields { kind, has_status, stat_sn, data_sn, offset_bytes, len_bytes } = seen::fields(pdu);
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use event::{Host, NearTimes, Op};
    use store::tables::{self, LayerColumns, Pdus};
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

    /// What is in the tables after `play`, with every second request in `pdus`.
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
            ledger.begin(request(30, 4));
            let mark = ledger.sends(0, &command(30, 4), true, at(4)).unwrap();
            ledger.departed(&departed(mark, true));
            let other = Layers { id: RequestId { connection: 1, ..request(31, 6).id }, ..request(31, 6) };
            ledger.begin(other);
            ledger.sends(1, &command(31, 6), true, at(4)).unwrap();
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
                ledger.begin(request(30, 4));
                let mark = ledger.sends(0, &command(30, 4), true, at(4)).unwrap();
                assert!(mark.is_stamped);
                assert_eq!(ledger.departed(&departed(mark, true)), Some(30));
                if stamps_first {
                    ledger.stamped(&stamped(mark));
                    ledger.end(30);
                } else {
                    ledger.end(30);
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
            ledger.begin(request(30, 4));
            let mark = ledger.sends(0, &command(30, 4), true, at(4)).unwrap();
            ledger.departed(&departed(mark, false));
            ledger.end(30);
            assert!(ledger.late.is_empty() && ledger.away.is_empty());
        });
        assert_eq!((layers.cmd_sn, layers.tcp_acked_t_ns, pdus.itt), (vec![4], vec![0], vec![30]));
    }

    #[test]
    fn one_in_so_many_has_its_pdus_and_all_are_told_where_they_lie() {
        let (layers, pdus) = recorded(|ledger| {
            ledger.begin(request(31, 5));
            let mark = ledger.sends(0, &command(31, 5), true, at(4)).unwrap();
            assert!(!mark.is_stamped);
            assert_eq!(ledger.departed(&departed(mark, false)), Some(31));
            assert_eq!(ledger.sends(0, &command(31, 5), false, at(4)), None);
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
}
