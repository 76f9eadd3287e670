//! Facts of an export: size, transmission flags and block sizes as the profile of the device has them.

use block::Profile;
use proto::nbd::{ExportFacts, MINIMUM_BLOCK_MAX_BYTES, NbdBlockSizes, PAYLOAD_MAX_BYTES};
use wire::nbd::transmission_flag as flag;

/// Smallest preferred block size that the protocol permits.
const PREFERRED_MIN_BYTES: u32 = 512;

/// Facts of an export; `None` if its blocks are larger than an NBD export may have.
pub(crate) fn facts(profile: &Profile, read_only: bool) -> Option<ExportFacts> {
    let minimum = profile.blocks.logical_bytes;
    if minimum > MINIMUM_BLOCK_MAX_BYTES {
        return None;
    }
    let maximum = profile.limits.transfer_bytes.min(PAYLOAD_MAX_BYTES);
    let maximum = (maximum - maximum % minimum).max(minimum.max(PREFERRED_MIN_BYTES));
    let wanted = profile.blocks.preferred_bytes.max(profile.blocks.physical_bytes);
    let largest = 1 << maximum.ilog2();
    let preferred = wanted.min(largest).next_power_of_two().max(minimum.max(PREFERRED_MIN_BYTES));
    let blocks = NbdBlockSizes { minimum, preferred, maximum };
    Some(ExportFacts { size_bytes: profile.len_bytes, flags: flags(profile, read_only), blocks })
}

/// Zeros can be made without writing them.
pub(crate) fn makes_zeros(profile: &Profile) -> bool {
    profile.can.unmap && profile.can.unmapped_reads_zero
}

/// One device serves all connections of the process: a flush on one of them covers the writes of all.
fn flags(profile: &Profile, read_only: bool) -> u16 {
    let can = profile.can;
    let is_writable = !read_only && !can.read_only;
    let of = |is_set, bits| if is_set { bits } else { 0 };
    flag::HAS_FLAGS
        | flag::CAN_MULTI_CONN
        | of(!is_writable, flag::READ_ONLY)
        | of(can.compare, flag::SEND_CACHE)
        | of(is_writable && can.write_cache, flag::SEND_FLUSH | flag::SEND_FUA)
        | of(is_writable && can.unmap, flag::SEND_TRIM)
        | of(is_writable && (can.fill || makes_zeros(profile)), flag::SEND_WRITE_ZEROES)
        | of(is_writable && makes_zeros(profile), flag::SEND_FAST_ZERO)
}

#[cfg(test)]
mod tests {
    use block::{BlockSizes, Capabilities, Limits};

    use super::*;

    const NONE: Capabilities = Capabilities {
        read_only: false,
        write_cache: false,
        fua: false,
        unmap: false,
        unmapped_reads_zero: false,
        fill: false,
        compare: false,
        extents: false,
    };

    fn profile(can: Capabilities, blocks: (u32, u32, u32), transfer_bytes: u32) -> Profile {
        let (logical_bytes, physical_bytes, preferred_bytes) = blocks;
        Profile {
            len_bytes: 1 << 30,
            blocks: BlockSizes { logical_bytes, physical_bytes, preferred_bytes },
            limits: Limits { transfer_bytes, range_bytes: 1 << 30, atomic_bytes: 0 },
            can,
        }
    }

    #[test]
    fn flags_are_capabilities() {
        let check = |can, read_only, expected: u16| {
            let found = flags(&profile(can, (512, 512, 4096), 1 << 20), read_only);
            assert_eq!(found, flag::HAS_FLAGS | flag::CAN_MULTI_CONN | expected, "{can:?} {read_only}");
        };
        let cache = flag::SEND_FLUSH | flag::SEND_FUA;
        let zeroes = flag::SEND_WRITE_ZEROES;
        check(NONE, false, 0);
        check(Capabilities { write_cache: true, ..NONE }, false, cache);
        check(Capabilities { fua: true, ..NONE }, false, 0);
        check(Capabilities { unmap: true, ..NONE }, false, flag::SEND_TRIM);
        let unmap = Capabilities { unmap: true, unmapped_reads_zero: true, ..NONE };
        check(unmap, false, flag::SEND_TRIM | zeroes | flag::SEND_FAST_ZERO);
        check(Capabilities { fill: true, ..NONE }, false, zeroes);
        check(Capabilities { compare: true, ..NONE }, false, flag::SEND_CACHE);
        let all = Capabilities { write_cache: true, fill: true, compare: true, ..unmap };
        check(all, true, flag::READ_ONLY | flag::SEND_CACHE);
        check(Capabilities { read_only: true, ..all }, false, flag::READ_ONLY | flag::SEND_CACHE);
    }

    #[test]
    fn block_sizes_keep_to_the_protocol() {
        let check = |blocks, transfer_bytes, expected: (u32, u32, u32)| {
            let found = facts(&profile(NONE, blocks, transfer_bytes), false).unwrap().blocks;
            assert_eq!((found.minimum, found.preferred, found.maximum), expected, "{blocks:?}");
            assert_eq!(found.check(), Ok(()), "{blocks:?}");
        };
        check((512, 512, 4096), 32 << 20, (512, 4096, 32 << 20));
        check((4096, 4096, 4096), 1 << 20, (4096, 4096, 1 << 20));
        check((1, 1, 1), 32 << 20, (1, 512, 32 << 20));
        check((512, 4096, 512), (1 << 20) + 100, (512, 4096, 1 << 20));
        check((512, 512, 1 << 26), 3 << 20, (512, 2 << 20, 3 << 20));
        check((512, 1, 3000), 1 << 30, (512, 4096, 32 << 20));
        assert_eq!(facts(&profile(NONE, (1 << 17, 1 << 17, 1 << 17), 1 << 20), false), None);
    }
}
