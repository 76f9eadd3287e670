//! A session with its connections and its recovery: construction, settings, and facts for the caller.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use block::Buffers;
use event::{Instant, RequestId};
use net::{Poll, clock};
use wire::iscsi::Lun;

use super::arrival::{lines, note_logins};
use super::growth::Growth;
use super::recovery::{Recovery, Trouble};
use crate::login::establishment::{Arrived, Destination};
use crate::options::Options;
use crate::session::connection::Line;
use crate::session::lun::identity::Known;
use crate::session::request_trace::Trail;
use crate::session::state::SessionState;
use crate::tables::Tables;

/// Number of epoll tokens reserved for the sockets of one session.
const TOKENS_PER_SESSION: u64 = 1 << 16;

/// A session with a target: its connections, outstanding requests and recovery.
pub struct Client {
    pub(crate) poll: Poll,
    pub(crate) side: SessionState,
    /// Connections by CID; empty while there is no session.
    pub(super) lines: Vec<Line>,
    pub(super) state: State,
    /// Chooser of the number of connections, if the caller leaves it open.
    pub(super) growth: Option<Growth>,
    pub(super) trouble: Option<Trouble>,
    /// Losses of the session during a flush, since the last completed flush.
    pub(super) lost_flushes: u32,
    pub(super) reconnects: u64,
    pub(super) destination: Destination,
    pub(super) first_token: u64,
    pub(crate) options: Options,
    pub(super) min_rtt: Option<Duration>,
    pub(super) next_check: Instant,
}

/// Reception on the connections of a session, summed, from TCP_INFO.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reception {
    /// Receive window offered; 0 on kernels before Linux 6.2, which do not report it.
    pub window_bytes: u64,
    /// Packets received out of order, behind a gap of lost or overtaken packets.
    pub behind_gap_packets: u64,
}

/// Phase of the session.
pub(super) enum State {
    Up,
    /// The target requested a logout: outstanding requests may complete until then.
    Draining {
        until: Instant,
    },
    /// The logout request is sent; its response is awaited until then.
    LoggingOut {
        until: Instant,
    },
    /// No session; recovery is in progress.
    Down(Box<Recovery>),
    /// The user closes the session: the logout request is sent, and there is no recovery.
    Closing {
        until: Instant,
    },
    Closed,
}

impl Client {
    pub(crate) fn first_token(number: usize) -> u64 {
        number as u64 * TOKENS_PER_SESSION
    }

    pub(crate) fn new(
        poll: Poll,
        arrived: Arrived,
        destination: &Destination,
        first_token: u64,
        options: &Options,
        tables: Rc<Tables>,
    ) -> Client {
        let now = clock::now();
        let Arrived { session, address, tsih, connections, destination: understood } = arrived;
        let number = RequestId::session_of(destination.request.isid, tsih);
        let trail = tables.tracer().map(|tracer| Trail::new(Rc::clone(tracer), number));
        let growth = Growth::of(options, session.params(), tsih, None);
        let lines = lines(connections, 0, &tables, now);
        note_logins(&lines, &session, (number, options), &tables, now);
        Client {
            poll,
            side: SessionState::new((session, address), (tables, trail), options.timeout, now),
            lines,
            state: State::Up,
            growth,
            trouble: None,
            lost_flushes: 0,
            reconnects: 0,
            // A reconnect starts at the original address, with the login parameters that the target accepted.
            destination: Destination { request: understood.request, ..destination.clone() },
            first_token,
            options: options.clone(),
            min_rtt: None,
            next_check: now,
        }
    }

    /// Sets the LUN for further requests.
    pub(crate) fn set_lun(&mut self, number: u16) {
        self.side.lun.address = Lun::from_number(number);
    }

    /// Sets the facts by which the LUN is re-validated. The first one must use a command that reports unit attentions.
    pub(crate) fn set_known(&mut self, known: Vec<Known>) {
        self.side.lun.known = known;
    }

    /// Pool for the buffers of requests.
    pub fn buffers(&self) -> &Buffers {
        &self.side.buffers
    }

    /// Address of the target.
    pub fn address(&self) -> SocketAddr {
        self.side.address
    }

    /// Software version of a farlun target; `None` for other targets.
    pub fn peer_software(&self) -> Option<&str> {
        self.side.session.params().peer_software.as_deref()
    }

    /// Connections of the session, or of the lost session during recovery.
    pub fn connections(&self) -> u16 {
        self.side.session.next_cid()
    }

    /// Returns true if the number of connections is automatic: one, unless the path needs more.
    pub fn chooses_connections(&self) -> bool {
        self.options.connections.is_none()
    }

    /// Number of times that the session was lost and re-established.
    pub fn reconnects(&self) -> u64 {
        self.reconnects
    }

    /// Number of times that the target may have lost its volatile cache: reconnects and LUN resets.
    pub fn resets(&self) -> u64 {
        self.reconnects + self.side.lun.resets
    }

    /// Returns true if the LUN rejected SYNCHRONIZE CACHE: durability of writes is up to the LUN.
    pub fn is_without_flush(&self) -> bool {
        self.side.lun.is_without_flush
    }

    /// Receive window and out-of-order packets, summed over all connections.
    pub fn reception(&self) -> Reception {
        let read = |line: &Line| net::tcp_info::read(line.connection.stream()).ok();
        self.lines.iter().filter_map(read).fold(Reception::default(), |sum, info| Reception {
            window_bytes: sum.window_bytes + u64::from(info.rcv_wnd_bytes),
            behind_gap_packets: sum.behind_gap_packets + u64::from(info.behind_gap_packets),
        })
    }

    /// Smallest round-trip time measured by TCP on a connection of the session.
    pub fn min_rtt(&self) -> Option<Duration> {
        let read = |line: &Line| net::tcp_info::read(line.connection.stream()).ok()?.min_rtt;
        self.lines.iter().filter_map(read).chain(self.min_rtt).min()
    }

    /// Advice for a change of this host's socket buffer limits, if they may limit the throughput.
    pub fn advice(&self) -> Option<String> {
        self.lines.iter().find_map(|line| line.connection.advice())
    }
}
