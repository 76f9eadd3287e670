//! The last columns of the table `sockets`: what a policy was shown besides the sample, and what it decided.
//!
//! A row that no policy was shown has an outstanding amount of 0, which no policy decides.

use event::{Decided, Granted, Steered, WindowKind, WindowNotice};

use crate::Visit;

/// The columns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SteeredColumns {
    /// The most payload that had waited at one time since the row before.
    pub burst_bytes: Vec<u64>,
    /// 1 if some of it was held back.
    pub was_spaced: Vec<u32>,
    /// How fast what was held back went out; 0 if not known.
    pub handed_bytes_per_s: Vec<u64>,
    /// 1 if others had moved data of late that go out there too.
    pub has_company: Vec<u32>,
    /// 1 if its congestion control knows itself how fast it may send.
    pub paces_itself: Vec<u32>,
    /// 1 if its device takes packets one by one.
    pub paced_one_by_one: Vec<u32>,
    /// 1 if its slow-start threshold can be forgotten and nothing else changes.
    pub forgets_freely: Vec<u32>,
    /// What the process left the connection of the line; 0 if it said nothing, 2^64 − 1 is everything.
    pub granted_bytes_per_s: Vec<u64>,
    /// The last word of the other end about its window.
    pub told: Vec<Option<WindowKind>>,
    /// Of that word, the window.
    pub told_cwnd_packets: Vec<u32>,
    /// Of that word, the payload of a packet.
    pub told_mss_bytes: Vec<u32>,
    /// Length of requests; 0 is the caller's.
    pub decided_block_bytes: Vec<u64>,
    /// Payload that may be outstanding; 0 if no policy was shown the row.
    pub decided_outstanding_bytes: Vec<u64>,
    /// Commands that the target should let be open.
    pub decided_commands: Vec<u32>,
    /// Cap of the pacing rate.
    pub decided_pacing_bytes_per_s: Vec<u64>,
    /// How fast a lone request's data go to TCP.
    pub decided_burst_bytes_per_s: Vec<u64>,
    /// The most of them at one time.
    pub decided_burst_depth_bytes: Vec<u64>,
    /// Unsent bytes that the kernel may hold; 2^64 − 1 is as its rate is.
    pub decided_held_bytes: Vec<u64>,
    /// How many times by then the slow-start threshold was to have been forgotten.
    pub decided_thresholds_forgotten: Vec<u32>,
    /// How soon the policy wanted to see the connection again.
    pub decided_look_ns: Vec<u64>,
}

/// What stands in a row that no policy was shown.
const NOBODY: Steered = Steered {
    burst_bytes: 0,
    was_spaced: false,
    handed_bytes_per_s: 0,
    has_company: false,
    paces_itself: false,
    paced_one_by_one: false,
    forgets_freely: false,
    granted: Granted::Unsaid,
    told: None,
    decided: Decided {
        block_bytes: 0,
        outstanding_bytes: 0,
        commands: 0,
        pacing_bytes_per_s: 0,
        burst_bytes_per_s: 0,
        burst_depth_bytes: 0,
        held_bytes: 0,
        thresholds_forgotten: 0,
        look_ns: 0,
    },
};

impl SteeredColumns {
    pub(super) fn at(&self, row: usize) -> Option<Steered> {
        let kind = self.told[row];
        let decided = Decided {
            block_bytes: self.decided_block_bytes[row],
            outstanding_bytes: self.decided_outstanding_bytes[row],
            commands: self.decided_commands[row],
            pacing_bytes_per_s: self.decided_pacing_bytes_per_s[row],
            burst_bytes_per_s: self.decided_burst_bytes_per_s[row],
            burst_depth_bytes: self.decided_burst_depth_bytes[row],
            held_bytes: self.decided_held_bytes[row],
            thresholds_forgotten: self.decided_thresholds_forgotten[row],
            look_ns: self.decided_look_ns[row],
        };
        (decided.outstanding_bytes > 0).then(|| Steered {
            burst_bytes: self.burst_bytes[row],
            was_spaced: self.was_spaced[row] != 0,
            handed_bytes_per_s: self.handed_bytes_per_s[row],
            has_company: self.has_company[row] != 0,
            paces_itself: self.paces_itself[row] != 0,
            paced_one_by_one: self.paced_one_by_one[row] != 0,
            forgets_freely: self.forgets_freely[row] != 0,
            granted: match self.granted_bytes_per_s[row] {
                0 => Granted::Unsaid,
                u64::MAX => Granted::All,
                part => Granted::Part(part),
            },
            told: kind.map(|kind| WindowNotice {
                kind,
                cwnd_packets: self.told_cwnd_packets[row],
                mss_bytes: self.told_mss_bytes[row],
            }),
            decided,
        })
    }

    pub(super) fn push(&mut self, steered: Option<&Steered>) {
        let Steered {
            burst_bytes,
            was_spaced,
            handed_bytes_per_s,
            has_company,
            paces_itself,
            paced_one_by_one,
            forgets_freely,
            granted,
            told,
            decided,
        } = *steered.unwrap_or(&NOBODY);
        self.burst_bytes.push(burst_bytes);
        self.was_spaced.push(u32::from(was_spaced));
        self.handed_bytes_per_s.push(handed_bytes_per_s);
        self.has_company.push(u32::from(has_company));
        self.paces_itself.push(u32::from(paces_itself));
        self.paced_one_by_one.push(u32::from(paced_one_by_one));
        self.forgets_freely.push(u32::from(forgets_freely));
        self.granted_bytes_per_s.push(match granted {
            Granted::Unsaid => 0,
            Granted::All => u64::MAX,
            Granted::Part(bytes_per_s) => bytes_per_s,
        });
        self.told.push(told.map(|notice| notice.kind));
        self.told_cwnd_packets.push(told.map_or(0, |notice| notice.cwnd_packets));
        self.told_mss_bytes.push(told.map_or(0, |notice| notice.mss_bytes));
        self.decided_block_bytes.push(decided.block_bytes);
        self.decided_outstanding_bytes.push(decided.outstanding_bytes);
        self.decided_commands.push(decided.commands);
        self.decided_pacing_bytes_per_s.push(decided.pacing_bytes_per_s);
        self.decided_burst_bytes_per_s.push(decided.burst_bytes_per_s);
        self.decided_burst_depth_bytes.push(decided.burst_depth_bytes);
        self.decided_held_bytes.push(decided.held_bytes);
        self.decided_thresholds_forgotten.push(decided.thresholds_forgotten);
        self.decided_look_ns.push(decided.look_ns);
    }

    pub(super) fn append(&mut self, other: SteeredColumns) {
        self.burst_bytes.extend(other.burst_bytes);
        self.was_spaced.extend(other.was_spaced);
        self.handed_bytes_per_s.extend(other.handed_bytes_per_s);
        self.has_company.extend(other.has_company);
        self.paces_itself.extend(other.paces_itself);
        self.paced_one_by_one.extend(other.paced_one_by_one);
        self.forgets_freely.extend(other.forgets_freely);
        self.granted_bytes_per_s.extend(other.granted_bytes_per_s);
        self.told.extend(other.told);
        self.told_cwnd_packets.extend(other.told_cwnd_packets);
        self.told_mss_bytes.extend(other.told_mss_bytes);
        self.decided_block_bytes.extend(other.decided_block_bytes);
        self.decided_outstanding_bytes.extend(other.decided_outstanding_bytes);
        self.decided_commands.extend(other.decided_commands);
        self.decided_pacing_bytes_per_s.extend(other.decided_pacing_bytes_per_s);
        self.decided_burst_bytes_per_s.extend(other.decided_burst_bytes_per_s);
        self.decided_burst_depth_bytes.extend(other.decided_burst_depth_bytes);
        self.decided_held_bytes.extend(other.decided_held_bytes);
        self.decided_thresholds_forgotten.extend(other.decided_thresholds_forgotten);
        self.decided_look_ns.extend(other.decided_look_ns);
    }

    pub(super) fn visit<V: Visit>(&mut self, visitor: &mut V) -> Result<(), V::Error> {
        visitor.u64("burst_bytes", &mut self.burst_bytes)?;
        visitor.u32("was_spaced", &mut self.was_spaced)?;
        visitor.u64("handed_bytes_per_s", &mut self.handed_bytes_per_s)?;
        visitor.u32("has_company", &mut self.has_company)?;
        visitor.u32("paces_itself", &mut self.paces_itself)?;
        visitor.u32("paced_one_by_one", &mut self.paced_one_by_one)?;
        visitor.u32("forgets_freely", &mut self.forgets_freely)?;
        visitor.u64("granted_bytes_per_s", &mut self.granted_bytes_per_s)?;
        visitor.word("told", &mut self.told)?;
        visitor.u32("told_cwnd_packets", &mut self.told_cwnd_packets)?;
        visitor.u32("told_mss_bytes", &mut self.told_mss_bytes)?;
        visitor.u64("decided_block_bytes", &mut self.decided_block_bytes)?;
        visitor.u64("decided_outstanding_bytes", &mut self.decided_outstanding_bytes)?;
        visitor.u32("decided_commands", &mut self.decided_commands)?;
        visitor.u64("decided_pacing_bytes_per_s", &mut self.decided_pacing_bytes_per_s)?;
        visitor.u64("decided_burst_bytes_per_s", &mut self.decided_burst_bytes_per_s)?;
        visitor.u64("decided_burst_depth_bytes", &mut self.decided_burst_depth_bytes)?;
        visitor.u64("decided_held_bytes", &mut self.decided_held_bytes)?;
        visitor.u32("decided_thresholds_forgotten", &mut self.decided_thresholds_forgotten)?;
        visitor.u64("decided_look_ns", &mut self.decided_look_ns)
    }
}
