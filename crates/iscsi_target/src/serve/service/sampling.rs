//! Periodic checks of connections: TCP_INFO of active ones, and liveness of silent ones.

use std::time::Duration;

use engine::{BlackHole, SAMPLE_EVERY};
use event::{Granted, Instant, Sink};

use crate::serve::Target;
use crate::serve::connection::end_reason::End;
use crate::serve::connection::liveness::Verdict;
use crate::serve::limits::unread::AllCommands;
use crate::serve::service::line_claims::Claims;

/// Largest mean cost of one look, as part of the interval between two looks. The system call takes a few microseconds.
const LOOK_SHARE: Duration = Duration::from_micros(30);

/// Interval of the search for silent peers.
pub(crate) const ROLL_CALL_EVERY: Duration = Duration::from_secs(5);

impl Target {
    /// Pings silent peers, and closes the connections of peers that do not answer.
    pub(crate) fn call_roll(&mut self, now: Instant) {
        let mut gone = Vec::new();
        for (index, client) in &mut self.clients {
            match client.judge(now, &mut self.sides) {
                Verdict::Fine => {}
                Verdict::Ping => client.become_dirty(&mut self.schedule.dirty),
                Verdict::Gone => {
                    // Waiting writes, whose data arrive in large packets.
                    let is_filling =
                        client.place().is_some_and(|(side, _)| self.sides[side].memory.holds.filling > 0);
                    let info = client.tcp_info().filter(|_| is_filling);
                    gone.push((index, End::Silent(info.and_then(|info| BlackHole::of_received(&info)))));
                }
                Verdict::Idle => gone.push((index, End::IdleDiscovery)),
            }
        }
        for (index, end) in gone {
            self.close(index, &end, now);
        }
        self.end_late(now);
        let is_alone = self.clients.is_empty();
        self.sampling.next_roll_call = if is_alone { Instant::FAR_FUTURE } else { now + ROLL_CALL_EVERY };
    }

    /// Looks at every connection that moves data: its TCP_INFO goes to the policy and to the table.
    pub(crate) fn sample(&mut self, now: Instant) {
        let mut failed = Vec::new();
        let mut busy = 0;
        let mut soonest = SAMPLE_EVERY;
        let mut waiting = false;
        let (mut claims, mut claims_of_peers) = (Claims::default(), Claims::default());
        let (mut seen, mut met) = (Vec::new(), Vec::new());
        let has_company = self.sampling.busy > 1;
        let window_max =
            self.config.window_max().min(AllCommands::share(self.shared.admission.open_sessions));
        for (index, client) in &mut self.clients {
            if client.is_overdue(now) {
                failed.push((index, End::LoginTimeout));
                continue;
            }
            waiting |= client.awaits_login();
            match client.sample(now, &mut self.sides, window_max, has_company) {
                Ok(None) => {}
                Ok(Some((sample, look_again))) => {
                    busy += 1;
                    if let Some(train) = client.arrived() {
                        self.shared.crowd.arrived(index, now, train);
                    }
                    if let Some((side, _)) = client.place() {
                        let side = &self.sides[side];
                        let session = (usize::from(side.identity.tsih), side.weight);
                        claims.add(index, session, client.claim());
                        claims_of_peers.add(index, session, client.claim_of_peer());
                    }
                    met.extend(client.met().map(|met| (index, met)));
                    seen.push((index, Duration::from_nanos(sample.rtt_ns)));
                    soonest = soonest.min(look_again);
                    if let Some(sockets) = &mut self.sampling.sockets {
                        sockets.record(&sample);
                    }
                }
                Err(error) => failed.push((index, End::Io(error))),
            }
        }
        // Those in bulk know more of the device.
        let lone = if claims.is_empty() { met.as_slice() } else { &[] };
        self.sampling.sharing.meet(now, lone, self.sampling.gate.take_short());
        for (index, part) in claims.share(&mut self.sampling.sharing, now) {
            self.clients[index].grant(part);
        }
        // A single lone sender needs no joint limit.
        let ring = self.sampling.sharing.ring().filter(|_| has_company || met.len() != 1);
        let (rate, depth_bytes) = ring.unzip();
        self.sampling.gate.set(rate, depth_bytes.unwrap_or(0));
        self.shared.crowd.go_through(rate.filter(|_| lone.len() > 1));
        let mut parts = claims_of_peers.share(&mut self.sampling.receiving, now).into_iter().peekable();
        for (index, rtt) in seen {
            let client = &mut self.clients[index];
            let part = parts.next_if(|(peer, _)| *peer == index);
            let part = part.map_or(Granted::Unsaid, |(_, part)| part.map_or(Granted::All, Granted::Part));
            client.tell(now, rtt, part, &mut self.sides);
            if client.has_to_send(&self.sides) {
                client.become_dirty(&mut self.schedule.dirty);
            }
        }
        for (index, end) in failed {
            self.close(index, &end, now);
        }
        self.sampling.busy = busy;
        self.sampling.no_sample_before = now + LOOK_SHARE * busy;
        self.sampling.next_sample = match busy {
            0 if waiting => now + Duration::from_secs(1),
            0 => Instant::FAR_FUTURE,
            busy => now + look_again(busy, soonest),
        };
    }
}

/// Interval to the next look at `busy` connections, of which one wants it after `soonest`. Each look costs a system
/// call, so many connections are looked at less often.
fn look_again(busy: u32, soonest: Duration) -> Duration {
    match busy {
        0..100 => soonest.max(LOOK_SHARE * busy),
        busy => SAMPLE_EVERY * (busy / 50),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_takes_a_bounded_part_of_the_time() {
        let soonest = Duration::from_millis(1);
        assert_eq!(look_again(1, soonest), soonest);
        assert_eq!(look_again(33, soonest), soonest);
        assert_eq!(look_again(99, soonest), Duration::from_micros(2970));
        for busy in 0..5000 {
            assert!(look_again(busy, soonest) >= LOOK_SHARE * busy, "{busy}");
        }
    }
}
