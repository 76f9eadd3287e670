//! Raw TCP streams under the policy, pacing and socket settings of iSCSI: the baseline of every comparison.
//!
//! A run has one stream or several, each on a thread of its own at both ends. The near end opens them and says on each
//! which way the bytes go and for how long (`ends/`). The far end answers with the limits of its host, and `limits/`
//! predicts from these the rate of the streams. The sender of each stream then sends (`flow/`), the far end reports its
//! counters, and `limits/limiter` names the limiter. `tune/` finds the best sizes of reads and writes by trials.
//!
//! There is no SCSI here, and no output: progress and messages go to functions of the caller.

mod ends;
mod error;
mod flow;
mod limits;
mod report;
mod socket;
mod spec;
mod tune;

pub use ends::far::{ServeOptions, serve};
pub use ends::near::run;
pub use error::StreamError;
pub use flow::transfer::StreamProgress;
pub use report::StreamReport;
pub use spec::{Calls, SOURCE_BYTES, STREAMS_MAX, StreamOptions, StreamSpec};
pub use tune::trial::{Trial, Tuning};
pub use tune::tuner::tune;
