//! State of a session without its sockets: sends commands, and handles the events of the session.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use block::Buffers;
use event::Instant;
use proto::initiator::{Command, Event, Function, Session, TASKS_MAX, Transfer};
use proto::notification::{self, Notification};
use wire::iscsi::{TaskAttribute, reject_reason};

use crate::error::Error;
use crate::request::{Body, Request};
use crate::session::command_timeout::Watch;
use crate::session::lun::command_limit::CommandLimit;
use crate::session::lun::identity::Attention;
use crate::session::lun::state::LunState;
use crate::session::request_trace::Trail;
use crate::session::requests::Requests;
use crate::tables::Tables;

/// Limit of the pool of free buffers.
const BUFFERS_KEEP_BYTES: usize = 256 << 20;
/// Maximum number of vendor notifications kept between two turns; a farlun target sends ten a second on a connection.
const TOLD_MAX: usize = 64;

/// State of a session except its sockets.
pub(crate) struct SessionState {
    pub(crate) session: Session,
    pub(crate) address: SocketAddr,
    pub(crate) requests: Requests,
    pub(crate) lun: LunState,
    pub(crate) text: TextExchange,
    pub(crate) end: SessionEnd,
    pub(crate) records: Records,
    /// Notifications of the target that have not been processed, with the CID of their connection.
    pub(crate) told: Vec<(u16, Notification)>,
    pub(crate) buffers: Buffers,
    pub(crate) watch: Watch,
    pub(crate) now: Instant,
    pub(crate) timeout: Duration,
}

/// Text request of the caller, and its response.
pub(crate) struct TextExchange {
    /// Text request that awaits its response.
    pub(crate) request: Option<Vec<u8>>,
    pub(crate) answer: Option<Vec<u8>>,
    /// Time at which the request was sent.
    pub(crate) sent: Instant,
}

/// End of the session, as the target has announced or confirmed it.
#[derive(Default)]
pub(crate) struct SessionEnd {
    /// The target wants the session to end.
    pub(crate) leave: Option<Leave>,
    /// Time2Wait of the answered logout: minimum time before the next login.
    pub(crate) logged_out: Option<Duration>,
}

/// Records of the session's requests.
pub(crate) struct Records {
    pub(crate) tables: Rc<Tables>,
    /// Recorder of the requests' times in each layer, if they are traced.
    pub(crate) trail: Option<Trail>,
}

impl Records {
    /// Drops the trace of a request that is submitted again later with another tag.
    pub(crate) fn forget(&mut self, itt: u32) {
        if let Some(trail) = &mut self.trail {
            trail.forget(itt);
        }
    }
}

/// Ways in which a target ends a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leave {
    /// After a logout of the initiator, within this time.
    LogOut { within: Duration },
    /// At once; `time2wait` is the minimum time before the next login.
    Now { time2wait: Duration },
}

impl SessionState {
    /// Creates the state of a session that has just logged in.
    pub(crate) fn new(
        (session, address): (Session, SocketAddr),
        (tables, trail): (Rc<Tables>, Option<Trail>),
        timeout: Duration,
        now: Instant,
    ) -> SessionState {
        SessionState {
            session,
            address,
            requests: Requests::default(),
            lun: LunState::default(),
            text: TextExchange { request: None, answer: None, sent: now },
            end: SessionEnd::default(),
            records: Records { tables, trail },
            told: Vec::new(),
            buffers: Buffers::new(BUFFERS_KEEP_BYTES),
            watch: Watch::new(now),
            now,
            timeout,
        }
    }

    pub(crate) fn submit(&mut self, token: usize) {
        let open = &mut self.requests.open[token];
        open.submitted = self.now;
        let Request { cdb, body, .. } = &open.request;
        let transfer = match body {
            Body::None => Transfer::None,
            Body::Read(buffer) => Transfer::In(buffer.len() as u32),
            Body::Write(buffer) => Transfer::Out(buffer.len() as u32),
        };
        open.itt = self.session.submit(Command {
            token: token as u64,
            lun: self.lun.address,
            cdb: cdb.emit(),
            transfer,
            attribute: TaskAttribute::Simple,
        });
        if let Some(trail) = &mut self.records.trail {
            trail.submitted(open.itt, open, self.lun.address, self.now);
        }
    }

    /// Continues with a new session: every outstanding request is issued again, if the LUN's identity is unchanged.
    /// All requests of this crate are idempotent: the same blocks are read, or written with the same bytes.
    pub(crate) fn begin_again(&mut self, session: Session, address: SocketAddr) {
        (self.session, self.address) = (session, address);
        (self.end.leave, self.end.logged_out, self.requests.refusal) = (None, None, None);
        self.watch = Watch::new(self.now);
        self.lun.command_limit = CommandLimit::OPEN;
        self.requests.again.clear();
        self.requests.refused.clear();
        // The notifications refer to connections of the lost session.
        self.told.clear();
        self.ask_first();
        self.go_on();
        if let Some(question) = self.text.request.clone() {
            self.text.sent = self.now;
            self.session.send_text(question);
        }
    }

    /// Returns true if another request may be issued. `depth` is the workload's queue depth; with `None` the limit is
    /// `outstanding_bytes`.
    pub(crate) fn has_room(&self, depth: Option<usize>, outstanding_bytes: u64) -> bool {
        let may_issue = self.requests.refused.is_empty() && self.lun.asking.is_none();
        may_issue
            && self.requests.open.len() < TASKS_MAX - self.lun.known.len()
            && match depth {
                Some(depth) => self.requests.open.len() < depth,
                None => self.requests.outstanding_bytes < outstanding_bytes,
            }
    }

    pub(crate) fn handle_events(&mut self) -> Result<(), Error> {
        let address = self.address;
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Completed(completion) => {
                    self.complete(&completion)?;
                    self.go_on();
                }
                Event::Text(text) => (self.text.request, self.text.answer) = (None, Some(text)),
                Event::LoggedOut { time2wait_s } => self.end.logged_out = Some(seconds(time2wait_s)),
                Event::LogoutRequested { within_s } => self.log_out_within(seconds(within_s)),
                // Without one of its connections a session at error recovery level 0 is lost.
                Event::Dropping { time2wait_s, .. } => {
                    self.end.leave = Some(Leave::Now { time2wait: seconds(time2wait_s) });
                }
                Event::Rejected { reason: reject_reason::WAITING_FOR_LOGOUT, .. } => {
                    self.log_out_within(Duration::ZERO);
                }
                Event::Rejected { reason, .. } => return Err(Error::Rejected { address, reason }),
                Event::Managed { function: Function::AbortTask { token }, response } => {
                    self.watch.answered(token, response);
                }
                Event::Managed { function: Function::LogicalUnitReset { .. }, response } => {
                    self.watch.reset_answered(response);
                }
                Event::Vendor { cid, code, data } => self.hear(cid, code, &data),
                Event::Aborted { token, is_fenced } => {
                    if self.watch.let_go(token, &self.requests.open[token as usize]) {
                        self.put_back(token as usize, Attention::Passing);
                    } else if !self.watch.is_aborting() && !is_fenced {
                        return Err(Error::Unfenced { address });
                    } else if !self.watch.is_aborting() {
                        // The reset was requested because of another command, which has been answered meanwhile.
                        self.put_back(token as usize, Attention::Reset);
                    }
                    // Otherwise the watch gives up the session, and with it the command.
                }
                Event::Managed { .. } | Event::Pong => {}
            }
        }
        Ok(())
    }

    /// Queues a command for another submission after the target ended it without a status.
    fn put_back(&mut self, token: usize, attention: Attention) {
        let open = &mut self.requests.open[token];
        open.submitted = Instant::FAR_FUTURE;
        self.records.forget(open.itt);
        self.attend(token, attention);
        // The command may have been the last one that re-validation waited for.
        self.go_on();
    }

    /// Queues a vendor notification of a farlun target: a congestion window, or the share of a line that this
    /// connection gets. Notifications of other targets are ignored.
    fn hear(&mut self, cid: u16, code: u8, data: &[u8]) {
        if self.session.params().peer_software.is_some()
            && self.told.len() < TOLD_MAX
            && let Some(told) = notification::read(code, data)
        {
            self.told.push((cid, told));
        }
    }

    fn log_out_within(&mut self, within: Duration) {
        // The first request counts: a repetition does not extend the time.
        self.end.leave = self.end.leave.or(Some(Leave::LogOut { within }));
    }
}

fn seconds(count: u16) -> Duration {
    Duration::from_secs(count.into())
}

#[cfg(test)]
mod tests;
