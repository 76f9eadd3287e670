//! Random walks: negotiation, requests of all kinds, answers in any order, and an end in good order.

use std::collections::VecDeque;

use fastrand::Rng;

use crate::far::Far;
use crate::near::Near;

/// Both ends and the bytes between them.
pub(crate) struct Pair {
    pub(crate) near: Near,
    pub(crate) far: Far,
    pub(crate) to_far: VecDeque<u8>,
    pub(crate) to_near: VecDeque<u8>,
}

impl Pair {
    pub(crate) fn new(random: &mut Rng) -> Pair {
        Pair {
            near: Near::new(random),
            far: Far::new(random),
            to_far: VecDeque::new(),
            to_near: VecDeque::new(),
        }
    }

    /// One step of either end. Returns true if anything happened; `asks` lets new requests begin.
    pub(crate) fn step(&mut self, asks: bool, random: &mut Rng) -> Result<bool, proto::nbd::NbdFault> {
        Ok(match random.u8(0..6) {
            0 => asks && self.near.ask(random),
            1 => self.near.send(&mut self.to_far),
            2 => self.far.take(&mut self.to_far, random)?,
            3 => self.far.execute(random),
            4 => self.far.send(&mut self.to_near),
            _ => self.near.take(&mut self.to_near, random)?,
        })
    }

    fn settle(&mut self, random: &mut Rng) {
        let mut idle = 0;
        while idle < 400 {
            let has_moved = self.step(false, random).expect("both ends keep the protocol");
            idle = if has_moved { 0 } else { idle + 1 };
        }
    }
}

#[test]
fn both_machines_agree() {
    let (mut completed, mut structured, mut allocations) = (0, 0, 0);
    for seed in 0..300 {
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let mut pair = Pair::new(&mut random);
        for _ in 0..2000 {
            pair.step(true, &mut random).expect("both ends keep the protocol");
        }
        pair.settle(&mut random);
        assert!(pair.to_far.is_empty() && pair.to_near.is_empty(), "both ends come to rest");
        assert_eq!((pair.near.client.open_requests(), pair.far.server.open_requests()), (0, 0));
        assert_eq!((pair.near.held(), pair.far.held()), (0, 0), "every buffer is free");
        assert!(pair.near.model == pair.far.disk, "both ends know the same contents");
        let agreement = *pair.near.client.agreement().expect("an agreement");
        structured += usize::from(agreement.is_structured);
        allocations += usize::from(agreement.has_allocation);
        completed += pair.near.completed;
        pair.near.client.disconnect();
        pair.settle(&mut random);
        assert!(pair.near.client.is_finished() && pair.far.server.is_finished());
        let error = pair.far.server.handle(&[0; 28]).expect_err("a request after NBD_CMD_DISC");
        assert_eq!(error, proto::nbd::NbdFault::Over);
    }
    assert!(completed > 10_000, "{completed} requests");
    assert!((1..300).contains(&structured) && (1..300).contains(&allocations), "{structured}, {allocations}");
}
