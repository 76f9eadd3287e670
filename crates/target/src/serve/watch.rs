//! Looking at connections by the clock: what the kernel says of those that move data, and whether those that are
//! silent are still there.

use std::time::Duration;

use engine::SAMPLE_EVERY;
use event::{Instant, Sink};

use super::Target;
use super::alive::Verdict;
use super::end::End;

/// How often peers that say nothing are looked for.
pub(super) const ROLL_CALL_EVERY: Duration = Duration::from_secs(5);

impl Target {
    /// Pings the peers that are silent and closes the connections of those that do not answer.
    pub(super) fn call_roll(&mut self, now: Instant) {
        let mut gone = Vec::new();
        for (index, client) in &mut self.clients {
            match client.judge(now, &mut self.sides) {
                Verdict::Fine => {}
                Verdict::Ping => client.become_dirty(&mut self.dirty),
                Verdict::Gone => gone.push(index),
            }
        }
        for index in gone {
            self.close(index, &End::Silent, now);
        }
        let is_alone = self.clients.is_empty();
        self.next_roll_call = if is_alone { Instant::FAR_FUTURE } else { now + ROLL_CALL_EVERY };
    }

    /// Looks at every connection that moves data: what the kernel says of it goes to the policy and to
    /// the table.
    pub(super) fn sample(&mut self, now: Instant) {
        let mut failed = Vec::new();
        let mut busy = 0;
        let mut soonest = SAMPLE_EVERY;
        let mut waiting = false;
        let (mut claims, mut claimants) = (Vec::new(), Vec::new());
        for (index, client) in &mut self.clients {
            if client.is_overdue(now) {
                failed.push((index, End::LoginTimeout));
                continue;
            }
            waiting |= client.awaits_login();
            match client.sample(now, &mut self.sides, self.config.window_max()) {
                Ok(None) => {}
                Ok(Some((sample, look_again))) => {
                    busy += 1;
                    if client.has_to_send(&self.sides) {
                        client.become_dirty(&mut self.dirty);
                    }
                    if let Some(claim) = client.claim(&self.sides) {
                        claims.push(claim);
                        claimants.push(index);
                    }
                    soonest = soonest.min(look_again);
                    if let Some(sockets) = &mut self.sockets {
                        sockets.record(&sample);
                    }
                }
                Err(error) => failed.push((index, End::Io(error))),
            }
        }
        let parts = self.sharing.share(now, &claims);
        for (index, part) in claimants.into_iter().zip(parts) {
            self.clients[index].grant(part);
        }
        for (index, end) in failed {
            self.close(index, &end, now);
        }
        // Looking costs a system call each, so a crowd is looked at less often.
        self.next_sample = match busy {
            0 if waiting => now + Duration::from_secs(1),
            0 => Instant::FAR_FUTURE,
            1..100 => now + soonest,
            busy => now + SAMPLE_EVERY * (busy / 50),
        };
    }
}
