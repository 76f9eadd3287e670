//! Size, limits and capabilities of a device: a face announces these and nothing else.

/// Facts of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Size in bytes.
    pub len_bytes: u64,
    /// Block sizes.
    pub blocks: BlockSizes,
    /// Limits of one request.
    pub limits: Limits,
    /// Capabilities.
    pub can: Capabilities,
}

/// Block sizes in bytes, powers of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSizes {
    /// Smallest unit of a request.
    pub logical_bytes: u32,
    /// Smallest unit that the device writes without reading; 1 if there is none.
    pub physical_bytes: u32,
    /// Preferred granularity of requests and of unmapping.
    pub preferred_bytes: u32,
}

/// Limits of one request, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longest read or write.
    pub transfer_bytes: u32,
    /// Longest range that one request fills or unmaps.
    pub range_bytes: u64,
    /// Longest data that one request changes atomically, by OR or by compare-and-write: nothing else is done meanwhile.
    pub atomic_bytes: u32,
}

/// Capabilities of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Writes are refused.
    pub read_only: bool,
    /// A completed write may be lost with the power until a flush.
    pub write_cache: bool,
    /// A read or write with FUA costs no flush of its own.
    pub fua: bool,
    /// Ranges can be unmapped.
    pub unmap: bool,
    /// An unmap makes its ranges read as zeros. Without it they have any contents afterwards, their former ones included.
    pub unmapped_reads_zero: bool,
    /// Ranges can be filled with a pattern.
    pub fill: bool,
    /// Data can be verified, compared, and changed atomically.
    pub compare: bool,
    /// The allocation of a range can be looked up.
    pub extents: bool,
}
