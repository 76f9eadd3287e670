//! Logical unit numbers: SAM-5 section 4.7.

/// A logical unit number as its eight bytes on the wire, read as one big-endian integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lun(pub u64);

impl Lun {
    /// The usual form of a number: peripheral device addressing below 256, flat space addressing below 16384,
    /// extended flat space addressing above.
    pub const fn from_number(number: u16) -> Self {
        let number = number as u64;
        Self(match number {
            0..0x100 => number << 48,
            0x100..0x4000 => 0x4000 << 48 | number << 48,
            _ => 0xd2 << 56 | number << 32,
        })
    }

    /// The number, if this is a single-level LUN in one of the forms of [`Lun::from_number`], on bus 0.
    pub const fn number(self) -> Option<u16> {
        let first = (self.0 >> 48) as u16;
        let rest = self.0 & 0xffff_ffff_ffff;
        match (first >> 14, first >> 8, rest) {
            (0b00, 0, 0) => Some(first),
            (0b01, _, 0) => Some(first & 0x3fff),
            (0b11, 0xd2, _) if first & 0xff == 0 && rest & 0xffff_ffff == 0 => Some((rest >> 32) as u16),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_both_ways_in_the_form_of_their_size() {
        for number in 0..=u16::MAX {
            assert_eq!(Lun::from_number(number).number(), Some(number));
        }
        assert_eq!(Lun::from_number(1), Lun(0x0001_0000_0000_0000));
        assert_eq!(Lun::from_number(256), Lun(0x4100_0000_0000_0000));
        assert_eq!(Lun::from_number(0x4000), Lun(0xd200_4000_0000_0000));
    }

    #[test]
    fn other_forms_have_no_number() {
        // Another bus, a second level, logical unit addressing, a well-known LUN, an extended flat number of 17 bits.
        for raw in [0x0101 << 48, 0x0001_0002 << 32, 0x8001 << 48, 0xc101 << 48, 0xd201_0000 << 32] {
            assert_eq!(Lun(raw).number(), None);
        }
        assert_eq!(Lun(0x4003 << 48).number(), Some(3), "flat space addressing of a small number");
    }
}
