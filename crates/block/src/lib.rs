//! Block devices: local stores, memory, wrappers, payload buffers, and the pool of threads for blocking calls.
//!
//! Nothing here knows a protocol. A face, such as the iSCSI target, is made on a device and reaches it by bytes:
//!
//! - [`Lent`] is memory that the loop owns and lends to the socket.
//! - A [`BlockingStore`] is called by [`Workers`]: [`FileStore`], and wrappers such as [`FaultStore`].

mod buffer;
mod composite;
mod device;
mod error;
mod lent;
mod local;
mod pool;
mod spec;
mod store;
mod wrap;

pub use buffer::{Buffer, Buffers};
pub use composite::{ByteRange, Composite, CompositeAction};
pub use device::{
    BlockCompletion, BlockDevice, BlockOp, BlockRequest, BlockSizes, Capabilities, Extent, Limits, Owner,
    Profile, Select, Token, check,
};
pub use error::{BlockError, ErrorKind, OperationError};
pub use lent::{Lent, LentDevice, Locked, Memory, MemoryError, Null};
pub use local::{FileStore, Finding, OpenAs, OpenError, Watched};
pub use pool::{
    Called, Claim, FLUSH_COST_BYTES, FairQueue, Halt, Pool, PooledDevice, Step, StoreCall, Workers,
};
pub use spec::{OptionError, nearest_of, not};
pub use store::{
    ATOMIC_MAX_BYTES, BlockingStore, RANGE_MAX_BYTES, TRANSFER_MAX_BYTES, WRITTEN_RANGE_MAX_BYTES,
};
pub use wrap::{Delay, Delays, FaultRule, FaultStore};
