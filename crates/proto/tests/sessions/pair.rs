//! Initiator and target session joined by two queues, which are served in a random order given by a seed.

use std::collections::VecDeque;

use fastrand::Rng;
use proto::params::Params;
use sim::{Done, Far, Near, Rules, Sent, content};

/// Numbers that a session begins with. They wrap around within a few PDUs.
pub(crate) const CMD_SN: u32 = u32::MAX - 2;
pub(crate) const STAT_SN: u32 = u32::MAX - 1;
/// Initial size of the far end's memory.
pub(crate) const MEMORY_BYTES: usize = 1 << 20;

/// Parameters in force between the two ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) initial_r2t: bool,
    pub(crate) immediate_data: bool,
    pub(crate) first_burst_len: u32,
    pub(crate) max_burst_len: u32,
    /// The target's and the initiator's.
    pub(crate) segment_len: (u32, u32),
    pub(crate) max_outstanding_r2t: u16,
    pub(crate) window: u32,
    /// The status of a read comes in a PDU of its own.
    pub(crate) separate_status: bool,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            initial_r2t: false,
            immediate_data: true,
            first_burst_len: 65_536,
            max_burst_len: 262_144,
            segment_len: (8192, 8192),
            max_outstanding_r2t: 4,
            window: 16,
            separate_status: false,
        }
    }
}

impl Terms {
    fn params(&self, ours: u32, peers: u32) -> Params {
        Params {
            initial_r2t: self.initial_r2t,
            immediate_data: self.immediate_data,
            first_burst_len: self.first_burst_len,
            max_burst_len: self.max_burst_len,
            our_max_recv_data_segment_len: ours,
            peer_max_recv_data_segment_len: peers,
            max_outstanding_r2t: self.max_outstanding_r2t,
            ..Params::RFC_DEFAULT
        }
    }

    /// A target on these terms, just logged in to.
    pub(crate) fn far(&self) -> Far {
        let params = self.params(self.segment_len.0, self.segment_len.1);
        let mut far = Far::new(params, CMD_SN, STAT_SN, self.window, content(MEMORY_BYTES, 1));
        far.session().set_separate_status(self.separate_status);
        far
    }

    /// An initiator on these terms, just logged in.
    pub(crate) fn near(&self) -> Near {
        let params = self.params(self.segment_len.1, self.segment_len.0);
        Near::new(params, CMD_SN, CMD_SN.wrapping_add(self.window - 1), STAT_SN)
    }
}

/// Both ends.
pub(crate) struct Pair {
    pub(crate) near: Near,
    pub(crate) far: Far,
    pub(crate) rules: Rules,
    random: Rng,
    to_far: VecDeque<Sent>,
    to_near: VecDeque<Sent>,
}

impl Pair {
    pub(crate) fn new(terms: &Terms, seed: u64) -> Pair {
        let params = terms.params(terms.segment_len.1, terms.segment_len.0);
        Pair {
            near: terms.near(),
            far: terms.far(),
            rules: Rules::new(&params, CMD_SN, STAT_SN, CMD_SN.wrapping_add(terms.window - 1)),
            random: Rng::with_seed(seed),
            to_far: VecDeque::new(),
            to_near: VecDeque::new(),
        }
    }

    /// Continues until neither end has anything to do. Returns the completions at the near end.
    pub(crate) fn settle(&mut self) -> Vec<Done> {
        let mut done = Vec::new();
        let mut idle = 0;
        while idle < 64 {
            let has_moved = match self.random.u8(0..5) {
                0 => self.near_sends(),
                1 => self.far_sends(),
                2 => self.far_takes(),
                3 => self.near_takes(),
                _ => self.far.release(self.random.usize(..)),
            };
            idle = if has_moved { 0 } else { idle + 1 };
            done.extend(std::iter::from_fn(|| self.near.done()));
        }
        assert!(self.to_far.is_empty() && self.to_near.is_empty(), "both ends come to rest");
        done
    }

    pub(crate) fn near_sends(&mut self) -> bool {
        let Some(sent) = self.near.poll_transmit() else { return false };
        self.rules.near_sent(&sent.header);
        self.to_far.push_back(sent);
        true
    }

    fn far_sends(&mut self) -> bool {
        let Some(sent) = self.far.poll_transmit() else { return false };
        self.rules.far_sent(&sent.header);
        self.to_near.push_back(sent);
        true
    }

    fn far_takes(&mut self) -> bool {
        let Some(sent) = self.to_far.pop_front() else { return false };
        self.far.take(&sent.header, &sent.data).expect("our initiator keeps the protocol");
        true
    }

    fn near_takes(&mut self) -> bool {
        let Some(sent) = self.to_near.pop_front() else { return false };
        self.rules.near_takes(&sent.header);
        self.near.take(&sent.header, &sent.data).expect("our target keeps the protocol");
        true
    }
}
