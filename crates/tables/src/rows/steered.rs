//! The last columns of the table `sockets`: the policy's input besides the sample, and its decision.
//!
//! A row without a policy has 0 outstanding bytes, which no policy decides.

use event::{
    CongestionChoice, CongestionDecision, Decided, Granted, LossReason, MayChange, Steered, WindowKind,
    WindowNotice,
};

use crate::column::{Store, record};

record! {
    /// Input of a policy besides the sample, and its decision.
    SteeredColumns of Steered;
    /// Maximum payload that waited at one time since the row before.
    burst_bytes: Vec<u64> = burst_bytes,
    /// 1 if pacing held some of it back.
    was_spaced: Vec<u32> = was_spaced,
    /// Rate at which the held payload went out; 0 if not known.
    handed_bytes_per_s: Vec<u64> = handed_bytes_per_s,
    /// 1 if competing flows of the process had data to send lately.
    has_company: Vec<u32> = has_company,
    /// 1 if the congestion control is rate-based (BBR).
    paces_itself: Vec<u32> = paces_itself,
    /// Permission to change the congestion control.
    may_change: Vec<MayChange> = may_change,
    /// Verdict of other connections on the route.
    remembered_ppm: Vec<u32> = remembered_ppm,
    /// 1 if the device has no segmentation offload.
    paced_one_by_one: Vec<u32> = paced_one_by_one,
    /// 1 if the slow-start threshold can be reset without another effect.
    forgets_freely: Vec<u32> = forgets_freely,
    /// Rate allocated to the connection; 0 without an allocation, 2^64 − 1 is unlimited.
    granted_bytes_per_s: Vec<u64> = granted,
    /// Last window notice of the other end.
    told: NoticeColumns = told,
    /// Decision of the policy.
    decided: DecidedColumns = decided,
}

record! {
    /// A window notice of the other end.
    NoticeColumns of NoticeRow;
    /// Kind of the notice.
    told: Vec<Option<WindowKind>> = kind,
    /// Congestion window in the notice.
    told_cwnd_packets: Vec<u32> = cwnd_packets,
    /// Maximum segment size in the notice.
    told_mss_bytes: Vec<u32> = mss_bytes,
}

record! {
    /// A decision of a policy.
    DecidedColumns of Decided;
    /// Request length; 0 is the caller's.
    decided_block_bytes: Vec<u64> = block_bytes,
    /// Limit of outstanding payload; 0 if no policy was shown the row.
    decided_outstanding_bytes: Vec<u64> = outstanding_bytes,
    /// Command window that the target should open.
    decided_commands: Vec<u32> = commands,
    /// Cap of the pacing rate.
    decided_pacing_bytes_per_s: Vec<u64> = pacing_bytes_per_s,
    /// Rate at which an app-limited sender's data go to TCP.
    decided_burst_bytes_per_s: Vec<u64> = burst_bytes_per_s,
    /// Bucket depth of that rate.
    decided_burst_depth_bytes: Vec<u64> = burst_depth_bytes,
    /// Limit of unsent bytes in the kernel; 2^64 − 1 follows the rate.
    decided_held_bytes: Vec<u64> = held_bytes,
    /// Resets of the slow-start threshold requested so far.
    decided_thresholds_forgotten: Vec<u32> = thresholds_forgotten,
    /// Congestion control to use.
    congestion: CongestionColumns = congestion,
    /// Time until the policy wants the next sample.
    decided_look_ns: Vec<u64> = look_ns,
}

record! {
    /// A decision about the congestion control.
    CongestionColumns of CongestionDecision;
    /// Congestion control to use.
    decided_congestion: Vec<CongestionChoice> = choice,
    /// Reason of that.
    decided_congestion_reason: Vec<LossReason> = reason,
    /// Restarts of a rate-based one requested so far.
    decided_control_restarts: Vec<u32> = restarts,
    /// Share of packets that random loss takes.
    decided_loss_ppm: Vec<u32> = share_ppm,
}

/// A window notice as a row has it; without a kind there was none.
struct NoticeRow {
    kind: Option<WindowKind>,
    cwnd_packets: u32,
    mss_bytes: u32,
}

impl Store<Option<Steered>> for SteeredColumns {
    #[inline]
    fn push(&mut self, steered: &Option<Steered>) {
        match steered {
            Some(steered) => Store::push(self, steered),
            None => Store::push(self, &Steered::default()),
        }
    }

    fn at(&self, row: usize) -> Option<Steered> {
        let steered: Steered = self.at(row);
        (steered.decided.outstanding_bytes > 0).then_some(steered)
    }
}

impl Store<Option<WindowNotice>> for NoticeColumns {
    #[inline]
    fn push(&mut self, notice: &Option<WindowNotice>) {
        let row = NoticeRow {
            kind: notice.map(|notice| notice.kind),
            cwnd_packets: notice.map_or(0, |notice| notice.cwnd_packets),
            mss_bytes: notice.map_or(0, |notice| notice.mss_bytes),
        };
        Store::push(self, &row);
    }

    fn at(&self, row: usize) -> Option<WindowNotice> {
        let NoticeRow { kind, cwnd_packets, mss_bytes }: NoticeRow = self.at(row);
        kind.map(|kind| WindowNotice { kind, cwnd_packets, mss_bytes })
    }
}

/// Bytes per second; 0 is [`Granted::Unsaid`], 2^64 − 1 is [`Granted::All`].
impl Store<Granted> for Vec<u64> {
    #[inline]
    fn push(&mut self, granted: &Granted) {
        Vec::push(
            self,
            match *granted {
                Granted::Unsaid => 0,
                Granted::All => u64::MAX,
                Granted::Part(bytes_per_s) => bytes_per_s,
            },
        );
    }

    fn at(&self, row: usize) -> Granted {
        match self[row] {
            0 => Granted::Unsaid,
            u64::MAX => Granted::All,
            part => Granted::Part(part),
        }
    }
}
