//! A LUN in memory: zeroes at first, gone with the process.
//!
//! Pages are taken from the system when they are first written, so a LUN that is large and mostly empty costs little;
//! pages new to the machine may cost some milliseconds, in a virtual one. It is not shared, not locked and not written
//! anywhere.

use std::fs;
use std::hint::black_box;

use event::Bytes;
use thiserror::Error;

use crate::composite::ByteRange;
use crate::device::Extent;

/// The memory of one LUN, owned by the reactor that serves it.
pub struct Memory {
    bytes: Vec<u8>,
}

const PAGE_BYTES: usize = 4096;
/// Longest range that one lookup of extents compares with zeros: a tenth of a millisecond.
const SCAN_BYTES: u64 = 1 << 20;
static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Why a LUN of this size cannot be had.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MemoryError {
    /// More than the machine has.
    #[error(
        "a memory LUN of {wanted} does not fit: this machine has {present} of memory; use a smaller one, or a file LUN"
    )]
    MoreThanPresent {
        /// Size wanted.
        wanted: Bytes,
        /// All memory of the machine.
        present: Bytes,
    },
    /// The system refused it (a limit on the address space, strict overcommit).
    #[error(
        "the system refused {wanted} of memory for a LUN; use a smaller one, raise 'ulimit -v', or use a file LUN"
    )]
    Refused {
        /// Size wanted.
        wanted: Bytes,
    },
}

impl Memory {
    /// `len_bytes` zeroes.
    pub fn zeroed(len_bytes: u64) -> Result<Memory, MemoryError> {
        let wanted = Bytes(len_bytes);
        if let Some(present) = machine_memory()
            && len_bytes > present.0
        {
            return Err(MemoryError::MoreThanPresent { wanted, present });
        }
        let refused = || MemoryError::Refused { wanted };
        let len = usize::try_from(len_bytes).map_err(|_| refused())?;
        // `vec![0; n]` maps zero pages lazily but aborts the process when the system refuses; a trial
        // reservation of the same size, given back untouched, refuses politely first. The compiler may
        // drop an allocation that nobody looks at, hence the black box.
        let mut trial = Vec::<u8>::new();
        trial.try_reserve_exact(len).map_err(|_| refused())?;
        drop(black_box(trial));
        Ok(Memory { bytes: vec![0; len] })
    }

    /// Takes every page from the system now, so that no first write has to wait for one.
    pub fn take_all(&mut self) {
        for page in self.bytes.chunks_mut(PAGE_BYTES) {
            // The compiler knows that there is a zero already.
            page[0] = black_box(0);
        }
        // They need not begin where a page does.
        if let Some(last) = self.bytes.last_mut() {
            *last = black_box(0);
        }
    }

    /// Size in bytes.
    #[inline]
    pub fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Everything, to send from.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Everything, to receive into.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Allocation of the begin of a range. Pages of zeros are zeros; whether they have memory is unknown.
    pub(super) fn extents(&self, range: ByteRange, extents_max: usize) -> Vec<Extent> {
        let mut extents = Vec::new();
        let bytes = &self.bytes[range.offset_bytes as usize..][..range.len_bytes.min(SCAN_BYTES) as usize];
        for page in bytes.chunks(PAGE_BYTES) {
            let is_zero = *page == ZEROS[..page.len()];
            let before = extents.len();
            Extent { len_bytes: page.len() as u64, is_allocated: true, is_zero }.append_to(&mut extents);
            if extents.len() > extents_max.max(1) {
                extents.truncate(before);
                break;
            }
        }
        extents
    }

    /// Makes a stretch read as zeros. Pages that were never written stay so, and cost nothing.
    pub fn zero(&mut self, offset_bytes: u64, len_bytes: u64) {
        let bytes = &mut self.bytes[offset_bytes as usize..][..len_bytes as usize];
        for page in bytes.chunks_mut(PAGE_BYTES).filter(|page| **page != ZEROS[..page.len()]) {
            page.fill(0);
        }
    }
}

/// Gigabytes of zeroes help nobody in a log.
impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({})", Bytes(self.len_bytes()))
    }
}

/// All memory of this machine, if it is known.
fn machine_memory() -> Option<Bytes> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zero_and_writable() {
        let mut memory = Memory::zeroed(1 << 20).unwrap();
        assert_eq!(memory.len_bytes(), 1 << 20);
        assert!(memory.bytes().iter().all(|&b| b == 0));
        memory.bytes_mut()[4096..8192].fill(0xa5);
        assert_eq!(memory.bytes()[4095..4097], [0, 0xa5]);
        assert_eq!(format!("{memory:?}"), "Memory(1MiB)");
    }

    #[test]
    fn pages_of_zeros_are_extents() {
        let mut memory = Memory::zeroed(4 << 20).unwrap();
        memory.bytes_mut()[8192] = 1;
        memory.bytes_mut()[12_288] = 1;
        let check = |offset_bytes, len_bytes, extents_max, expected: &[(u64, bool)]| {
            let found = memory.extents(ByteRange { offset_bytes, len_bytes }, extents_max);
            let found: Vec<_> = found.iter().map(|extent| (extent.len_bytes, extent.is_zero)).collect();
            assert_eq!(found, expected, "{len_bytes} bytes at {offset_bytes}");
        };
        check(0, 65_536, 9, &[(8192, true), (8192, false), (49_152, true)]);
        check(0, 65_536, 2, &[(8192, true), (8192, false)]);
        check(4608, 512, 9, &[(512, true)]);
        check(0, 4 << 20, 9, &[(8192, true), (8192, false), (SCAN_BYTES - 16_384, true)]);
    }

    #[test]
    fn what_has_been_taken_is_there() {
        const LEN_BYTES: u64 = 64 << 20;
        let mut memory = Memory::zeroed(LEN_BYTES).unwrap();
        memory.take_all();
        let place = memory.bytes().as_ptr() as u64;
        let maps = fs::read_to_string("/proc/self/smaps").expect("this is Linux");
        let is_ours = |line: &&str| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |hex| u64::from_str_radix(hex, 16).ok();
            range.is_some_and(|(from, to)| number(from) <= Some(place) && number(to) > Some(place))
        };
        let of_ours = maps.lines().skip_while(|line| !is_ours(line));
        let resident = of_ours.filter_map(|line| line.strip_prefix("Rss:")).next().expect("it is mapped");
        let resident_kib: u64 = resident.trim().trim_end_matches("kB").trim().parse().expect("a number");
        assert!(resident_kib << 10 >= LEN_BYTES, "{resident}");
        assert_eq!(memory.bytes()[LEN_BYTES as usize - 1], 0);
    }

    #[test]
    fn more_than_the_machine_has_is_one_clear_error() {
        for wanted in [1 << 50, u64::MAX] {
            let text = Memory::zeroed(wanted).unwrap_err().to_string();
            assert!(text.contains(&Bytes(wanted).to_string()), "{text}");
            assert!(text.ends_with("or a file LUN"), "{text}");
        }
    }
}
