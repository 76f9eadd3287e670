//! The newer format, pcapng: blocks; sections that may each have a byte order, interfaces that each have a resolution.

use super::error::{Error, within};
use super::integers::Integers;
use super::packet::{BLOCK_LEN_MAX, Found, Packet};

/// Type of the block that a section begins with; reads the same in both byte orders.
pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(super) const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
/// Names of addresses, or padding.
pub(super) const NAMES: u32 = 4;
pub(super) const STATISTICS: u32 = 5;
pub(super) const ENHANCED_PACKET: u32 = 6;

pub(super) const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Type and length in front of a block, length behind it.
pub(super) const FRAME_LEN: usize = 12;
/// Interfaces of one section that are remembered; more are damage.
pub(super) const INTERFACES_MAX: usize = 4096;
/// Bytes of an interface's name that are remembered: more than any system's names have.
const NAME_MAX: usize = 64;

mod option {
    pub(super) const END: u16 = 0;
    /// if_name.
    pub(super) const NAME: u16 = 2;
    /// if_tsresol.
    pub(super) const RESOLUTION: u16 = 9;
    /// if_tsoffset, in seconds.
    pub(super) const OFFSET: u16 = 14;
    /// isb_ifdrop.
    pub(super) const INTERFACE_DROPS: u16 = 5;
    /// isb_osdrop.
    pub(super) const SYSTEM_DROPS: u16 = 7;
}

/// The section that is being read.
#[derive(Clone, Debug, Default)]
pub(super) struct Ng {
    integers: Option<Integers>,
    interfaces: Vec<Interface>,
    /// Drops of sections that have ended.
    dropped_before: u64,
}

#[derive(Clone, Debug)]
struct Interface {
    name: String,
    link: u32,
    snap_len: usize,
    resolution: Resolution,
    offset_s: i64,
    dropped: u64,
}

/// The unit of an interface's times: 10 or 2 to a negative power of seconds.
#[derive(Clone, Copy, Debug)]
struct Resolution {
    units_per_s: u128,
    /// Nanoseconds of a unit; 0 if that is no whole number.
    unit_ns: u64,
}

impl Resolution {
    fn new(code: u8) -> Self {
        let power = u32::from(code & 0x7f);
        // 2^127 is the most the seven bits can say; 10^38 is the largest power of ten in 128 bits.
        let units_per_s = if code & 0x80 != 0 { 1 << power } else { 10_u128.pow(power.min(38)) };
        let is_whole = 1_000_000_000 % units_per_s == 0;
        let unit_ns = if is_whole { (1_000_000_000 / units_per_s) as u64 } else { 0 };
        Self { units_per_s, unit_ns }
    }

    fn to_ns(self, units: u64, offset_s: i64) -> u64 {
        // The case of nearly every file, without a division of each packet's time.
        if offset_s == 0 && self.unit_ns > 0 {
            return units.saturating_mul(self.unit_ns);
        }
        let (seconds, rest) = (u128::from(units) / self.units_per_s, u128::from(units) % self.units_per_s);
        // A rest of units finer than nanoseconds may not leave room for the factor: divide first then.
        let fraction = match rest.checked_mul(1_000_000_000) {
            Some(scaled) => scaled / self.units_per_s,
            None => rest / (self.units_per_s / 1_000_000_000).max(1),
        };
        let seconds = (seconds as i128).saturating_add(i128::from(offset_s)).max(0) as u128;
        u64::try_from(seconds.saturating_mul(1_000_000_000).saturating_add(fraction)).unwrap_or(u64::MAX)
    }
}

impl Ng {
    pub(super) fn dropped(&self) -> u64 {
        self.interfaces
            .iter()
            .fold(self.dropped_before, |sum, interface| sum.saturating_add(interface.dropped))
    }

    /// Name of an interface; empty without a name.
    pub(super) fn interface_name(&self, number: u32) -> &str {
        self.interfaces.get(number as usize).map_or("", |interface| &interface.name)
    }

    pub(super) fn decode<'a>(&mut self, bytes: &'a [u8]) -> Result<Found<'a>, Error> {
        if bytes.len() < FRAME_LEN {
            return Ok(Found::More(FRAME_LEN));
        }
        if bytes[..4] == SECTION_HEADER.to_be_bytes() {
            self.section(bytes)?;
        }
        let Some(integers) = self.integers else { return Err(Error::Magic { found: 0 }) };
        let (kind, len) = (integers.u32_at(bytes, 0), integers.u32_at(bytes, 4) as usize);
        within("a block", len, FRAME_LEN, BLOCK_LEN_MAX)?;
        // Blocks are padded to four bytes; a length that is not rounded up belongs to a careless writer.
        let len = len.next_multiple_of(4);
        let Some(block) = bytes.get(..len) else { return Ok(Found::More(len)) };
        let body = &block[8..len - 4];
        match kind {
            INTERFACE => self.interface(integers, body)?,
            STATISTICS => self.statistics(integers, body),
            ENHANCED_PACKET | OBSOLETE_PACKET | SIMPLE_PACKET => {
                let packet = self.packet(integers, kind, body)?;
                return Ok(Found::Packet { len, packet });
            }
            _ => {}
        }
        Ok(Found::Other(len))
    }

    fn section(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let order = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        self.integers = Some(match order {
            BYTE_ORDER => Integers::Big,
            _ if order.swap_bytes() == BYTE_ORDER => Integers::Little,
            found => return Err(Error::ByteOrder { found }),
        });
        self.dropped_before = self.dropped();
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, integers: Integers, body: &[u8]) -> Result<(), Error> {
        within("the description of an interface", body.len(), 8, BLOCK_LEN_MAX)?;
        within("a list of interfaces", self.interfaces.len() + 1, 1, INTERFACES_MAX)?;
        let mut interface = Interface {
            name: String::new(),
            link: u32::from(integers.u16_at(body, 0)),
            snap_len: integers.u32_at(body, 4) as usize,
            resolution: Resolution::new(6),
            offset_s: 0,
            dropped: 0,
        };
        options(integers, &body[8..], |code, value| match (code, value.len()) {
            (option::NAME, 1..) => interface.name = name(value),
            (option::RESOLUTION, 1..) => interface.resolution = Resolution::new(value[0]),
            (option::OFFSET, 8..) => interface.offset_s = integers.u64_at(value, 0) as i64,
            _ => {}
        });
        self.interfaces.push(interface);
        Ok(())
    }

    fn statistics(&mut self, integers: Integers, body: &[u8]) {
        if body.len() < 12 {
            return;
        }
        let Some(interface) = self.interfaces.get_mut(integers.u32_at(body, 0) as usize) else { return };
        let mut dropped = 0_u64;
        options(integers, &body[12..], |code, value| {
            if matches!(code, option::INTERFACE_DROPS | option::SYSTEM_DROPS) && value.len() >= 8 {
                dropped = dropped.saturating_add(integers.u64_at(value, 0));
            }
        });
        // Statistics count from the beginning of the section: the last word is the sum.
        interface.dropped = interface.dropped.max(dropped);
    }

    fn packet<'a>(&self, integers: Integers, kind: u32, body: &'a [u8]) -> Result<Packet<'a>, Error> {
        let head = if kind == SIMPLE_PACKET { 4 } else { 20 };
        within("a packet block", body.len(), head, BLOCK_LEN_MAX)?;
        let number = match kind {
            ENHANCED_PACKET => integers.u32_at(body, 0) as usize,
            OBSOLETE_PACKET => usize::from(integers.u16_at(body, 0)),
            _ => 0,
        };
        let described = self.interfaces.len();
        let interface = self.interfaces.get(number).ok_or(Error::Interface { found: number, described })?;
        let (units, captured, len) = if kind == SIMPLE_PACKET {
            let len = integers.u32_at(body, 0) as usize;
            let limit = if interface.snap_len == 0 { usize::MAX } else { interface.snap_len };
            // It ends with its block; up to three bytes of padding look like data.
            (0, len.min(limit).min(body.len() - head), len)
        } else {
            let units = u64::from(integers.u32_at(body, 4)) << 32 | u64::from(integers.u32_at(body, 8));
            (units, integers.u32_at(body, 12) as usize, integers.u32_at(body, 16) as usize)
        };
        within("a packet in its block", captured, 0, body.len() - head)?;
        Ok(Packet {
            t_ns: interface.resolution.to_ns(units, interface.offset_s),
            link: interface.link,
            interface: number as u32,
            len: len.max(captured),
            bytes: &body[head..head + captured],
        })
    }
}

/// Text of an option, which some writers end with a zero.
fn name(value: &[u8]) -> String {
    let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(&text[..text.len().min(NAME_MAX)]).into_owned()
}

/// Calls `each` with code and value of every option; a cut-off option ends the list.
fn options(integers: Integers, mut bytes: &[u8], mut each: impl FnMut(u16, &[u8])) {
    while bytes.len() >= 4 {
        let (code, len) = (integers.u16_at(bytes, 0), usize::from(integers.u16_at(bytes, 2)));
        let Some(value) = bytes[4..].get(..len) else { return };
        if code == option::END {
            return;
        }
        each(code, value);
        bytes = bytes.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
    }
}
