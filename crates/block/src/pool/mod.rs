//! Threads for calls that block, and the order in which waiting work is taken.

mod call;
mod device;
mod fair;
mod workers;

pub use call::{Called, FLUSH_COST_BYTES, Halt, StoreCall};
pub use device::{Pool, PooledDevice};
pub use fair::FairQueue;
pub use workers::{Claim, Step, Workers};
