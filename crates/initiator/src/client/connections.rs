//! Additional connections of a running session with an automatic number of connections: `control` decides when, and the
//! new connection logs in (RFC 7143 section 6.3.1: same ISID, the session's TSIH, the next CID) while the others
//! continue. After a failed attempt there are no further ones.

use control::Traffic;
use engine::Scratch;
use event::{Host, Instant, RequestId};
use net::tcp_info;
use proto::login::LoggedIn;

use super::arrival::{lines, note_logins};
use super::state::{Client, State};
use crate::error::Error;
use crate::login::connection_login::{Dial, Dialled};
use crate::login::establishment::{digests, joining};
use crate::session::connection::Line;

impl Client {
    /// Passes the session's statistics to the chooser.
    pub(super) fn watch_growth(&mut self, now: Instant) {
        let Some(growth) = &mut self.growth else { return };
        let told = self.lines.iter_mut().filter_map(|line| line.connection.take_notice());
        told.for_each(|notice| growth.told(Host::Near, &notice));
        let (rtt, rtt_var) = self.lines.iter().filter_map(Line::rtt).min().unwrap_or_default();
        growth.connections.observe(&Traffic {
            now,
            rtt,
            rtt_var,
            min_rtt: self.lines.iter().filter_map(Line::min_rtt).min(),
            received_bytes: self.lines.iter().map(Line::received_bytes).sum(),
            acked_bytes: self.lines.iter().map(Line::acked_bytes).sum(),
            outstanding_bytes: self.side.requests.outstanding_bytes,
            connections: self.side.session.next_cid(),
        });
    }

    /// Opens another connection if the chooser requests one; never blocks.
    pub(super) fn grow(&mut self, scratch: &mut Scratch, now: Instant) {
        let Some(growth) = &mut self.growth else { return };
        if !matches!(self.state, State::Up) || self.side.end.leave.is_some() {
            growth.dial = None;
            return;
        }
        let dialled = match &mut growth.dial {
            Some(dial) => dial.turn(&self.poll, scratch, now),
            None if growth.connections.wants_more() => self.dial(now).map(|()| None),
            None => return,
        };
        match dialled {
            Ok(None) => {}
            Ok(Some(dialled)) => self.joined(dialled, now),
            Err(error) => {
                let found = self.side.session.next_cid();
                (self.options.notice)(&format!("stays at {found} of its connections: {error}"));
                self.stay();
            }
        }
    }

    fn stay(&mut self) {
        if let Some(growth) = &mut self.growth {
            growth.dial = None;
            growth.connections.stay();
        }
    }

    fn dial(&mut self, now: Instant) -> Result<(), Error> {
        // ECN marks mean a queue, but the other end reports a window reduced by a mark as one reduced by a loss.
        let has_marks = |line: &Line| tcp_info::read(line.connection.stream()).is_ok_and(|info| info.has_ecn);
        if self.lines.iter().any(has_marks) {
            self.stay();
            return Ok(());
        }
        let Some(growth) = &mut self.growth else { return Ok(()) };
        let session = &self.side.session;
        let login = joining(&self.destination.request, session, growth.tsih);
        let token = self.first_token + u64::from(session.next_cid());
        let limits = (now + self.options.timeout, self.options.timeout);
        let address = self.side.address;
        growth.dial = Some(Dial::start(&self.poll, token, address, login, &self.options, limits)?);
        Ok(())
    }

    fn joined(&mut self, dialled: Dialled, now: Instant) {
        let Some(growth) = &mut self.growth else { return };
        growth.dial = None;
        let Dialled { mut connection, logged_in } = dialled;
        let LoggedIn { params, exp_stat_sn, exp_cmd_sn, max_cmd_sn, .. } = logged_in;
        connection.set_digests(digests(&params));
        let session = &mut self.side.session;
        let cid = session.next_cid();
        session.join(&params, exp_stat_sn, exp_cmd_sn, max_cmd_sn);
        let line = lines(vec![connection], cid, &self.side.records.tables, now);
        let number = RequestId::session_of(self.destination.request.isid, growth.tsih);
        note_logins(&line, session, (number, &self.options), &self.side.records.tables, now);
        self.lines.extend(line);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use net::clock;
    use proto::params::Params;

    use super::*;
    use crate::client::growth::Growth;
    use crate::client::tests::session;
    use crate::options::Options;
    use crate::session::state::Leave;

    #[test]
    fn a_connection_that_is_being_made_is_given_up_when_its_session_is_not_at_work() {
        let until = Instant::FAR_FUTURE;
        let leave = Some(Leave::Now { time2wait: Duration::ZERO });
        for (state, leave, is_kept) in [
            (State::Up, None, true),
            (State::Up, leave, false),
            (State::Draining { until }, None, false),
            (State::LoggingOut { until }, None, false),
        ] {
            let options = Options { connections: None, ..Options::plain() };
            let peer_software = Some("farlun/1".to_owned());
            let params = Params { max_connections: 8, peer_software, ..Params::default() };
            let (mut client, _peer) = session(&options, params);
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let login = joining(&client.destination.request, &client.side.session, 1);
            let (now, time) = (clock::now(), Duration::from_secs(60));
            let dial = Dial::start(&client.poll, 1, address, login, &options, (now + time, time));
            let growth = client.growth.as_mut().expect("its peer bears more connections");
            growth.dial = Some(dial.unwrap());
            (client.state, client.side.end.leave) = (state, leave);
            client.grow(&mut Scratch::new(), now);
            let is_dialling = client.growth.is_some_and(|growth| growth.dial.is_some());
            assert_eq!(is_dialling, is_kept, "{leave:?}");
        }
    }

    #[test]
    fn a_session_grows_where_its_number_of_connections_is_open_and_its_peer_is_ours() {
        let ours = Some("farlun/1".to_owned());
        for (asked_for, max_connections, peer_software, may_grow) in [
            (None, 8, ours.clone(), true),
            (Some(1), 8, ours.clone(), false),
            (None, 1, ours, false),
            (None, 8, None, false),
        ] {
            let options = Options { connections: asked_for, ..Options::plain() };
            let params = Params { max_connections, peer_software, ..Params::default() };
            let growth = Growth::of(&options, &params, 1, None);
            assert_eq!(growth.is_some(), may_grow, "{asked_for:?} {params:?}");
        }
    }
}
