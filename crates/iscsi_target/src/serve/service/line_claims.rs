//! Claims of a target's connections to the lines that they share, and the allocated parts. A session has its weight
//! however many connections it has: the claiming connections divide it, and idle ones take no part.

use control::{Claim, Sharing};
use event::Instant;

/// The weight of a session is divided into so many, so that little is lost where its connections share it.
const WEIGHT_UNIT: u32 = 1 << 16;

/// Claims of all connections; see the file's beginning.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    made: Vec<Made>,
}

#[derive(Clone, Copy, Debug)]
struct Made {
    client: usize,
    /// Claim with the session as owner.
    claim: Claim,
}

impl Claims {
    /// Adds the claim of a connection, if there is one, with the TSIH and the weight of its session.
    pub(crate) fn add(&mut self, client: usize, (session, weight): (usize, u32), claim: Option<Claim>) {
        self.made
            .extend(claim.map(|claim| Made { client, claim: Claim { owner: session, weight, ..claim } }));
    }

    /// Returns true without any claim.
    pub(crate) fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    /// Allocated rate of each claiming connection in order of `add`; `None` means unlimited.
    pub(crate) fn share(&self, sharing: &mut Sharing, now: Instant) -> Vec<(usize, Option<u64>)> {
        let parts = sharing.share(now, &self.divided());
        self.made.iter().map(|made| made.client).zip(parts).collect()
    }

    /// The claims, each with its part of its session's weight.
    fn divided(&self) -> Vec<Claim> {
        let mut sessions: Vec<usize> = self.made.iter().map(|made| made.claim.owner).collect();
        sessions.sort_unstable();
        let divided = |made: &Made| {
            let before = sessions.partition_point(|session| *session < made.claim.owner);
            let claiming = sessions[before..].partition_point(|session| *session == made.claim.owner) as u32;
            let weight = made.claim.weight.saturating_mul(WEIGHT_UNIT) / claiming;
            Claim { weight: weight.max(1), ..made.claim }
        };
        self.made.iter().map(divided).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 10_000_000;

    /// Claims of connections, each of a session of such a weight.
    fn claims(made: &[(usize, u32)]) -> Claims {
        let mut claims = Claims::default();
        let claim = Claim {
            weight: 1,
            rate_bytes_per_s: Some(RATE),
            has_queue: true,
            had_queue: true,
            ..Claim::default()
        };
        for (client, session) in made.iter().enumerate() {
            claims.add(client, *session, Some(claim));
        }
        claims
    }

    fn weights(made: &[(usize, u32)]) -> Vec<u32> {
        let twelfths = |claim: &Claim| (claim.weight * 12 + WEIGHT_UNIT / 2) / WEIGHT_UNIT;
        claims(made).divided().iter().map(twelfths).collect()
    }

    #[test]
    fn a_session_has_its_weight_however_many_of_its_connections_claim() {
        // Two of its four: the other two do not claim.
        assert_eq!(weights(&[(3, 1), (3, 1), (7, 1)]), [6, 6, 12]);
        assert_eq!(weights(&[(7, 2), (3, 1), (7, 2), (3, 1), (3, 1)]), [12, 4, 12, 4, 4]);
        let shared = claims(&[(3, 1), (3, 1), (7, 1)]).share(&mut Sharing::new(), Instant::ZERO);
        let (line, clients): (u64, Vec<usize>) =
            (3 * RATE, shared.iter().map(|(client, _)| *client).collect());
        assert_eq!(clients, [0, 1, 2]);
        let percent: Vec<u64> = shared.iter().map(|(_, part)| part.unwrap() * 100 / line).collect();
        assert_eq!(percent, [26, 26, 52], "with what finds a faster line");
    }

    #[test]
    fn nothing_is_rounded_to_no_weight() {
        let mut made = vec![(1, 1); 64];
        made.push((2, 1));
        let divided = claims(&made).divided();
        assert!(divided[..64].iter().all(|claim| claim.weight * 64 == divided[64].weight));
        let crowd = claims(&vec![(1, 1); 100_000]).divided();
        assert!(crowd.iter().all(|claim| claim.weight == 1));
    }
}
