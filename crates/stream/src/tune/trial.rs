//! Trials of read and write sizes, and their result.

use event::Bytes;
use serde::Serialize;

use crate::flow::source::ZeroCopy;
use crate::spec::Calls;

/// Best sizes of reads and writes, and the trials that found them.
#[derive(Clone, Debug, Serialize)]
pub struct Tuning {
    pub(crate) write_bytes: u32,
    pub(crate) read_bytes: u32,
    pub(crate) zero_copy: bool,
    /// Reason for sending with or without a copy.
    pub(crate) zero_copy_why: &'static str,
    pub(crate) trials: Vec<Trial>,
}

/// One trial.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Trial {
    pub(crate) write_bytes: u32,
    pub(crate) read_bytes: u32,
    pub(crate) zero_copy: ZeroCopy,
    pub(crate) bits_per_s: f64,
    pub(crate) sender_cpu_ns_per_byte: f64,
    pub(crate) receiver_cpu_ns_per_byte: f64,
}

impl Tuning {
    /// The best calls.
    pub fn calls(&self) -> Calls {
        Calls { write_bytes: self.write_bytes, read_bytes: self.read_bytes, zero_copy: self.zero_copy }
    }

    /// The result as a sentence.
    pub fn sentence(&self) -> String {
        let (write, read) = (Bytes(self.write_bytes.into()), Bytes(self.read_bytes.into()));
        let copy = if self.zero_copy { "without" } else { "with" };
        format!("write {write} and read {read} at once, send {copy} a copy ({})", self.zero_copy_why)
    }
}

impl Trial {
    /// The trial as a line.
    pub fn sentence(&self) -> String {
        let without = match self.zero_copy {
            ZeroCopy::Off => "",
            ZeroCopy::On => ", without a copy",
            _ => ", asked for no copy",
        };
        format!(
            "write {} read {}{without}: {:.1} Mbit/s, CPU {:.3} + {:.3} ns per byte",
            Bytes(self.write_bytes.into()),
            Bytes(self.read_bytes.into()),
            self.bits_per_s / 1e6,
            self.sender_cpu_ns_per_byte,
            self.receiver_cpu_ns_per_byte
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_lines() {
        let trial = Trial {
            write_bytes: 1 << 16,
            read_bytes: 1 << 20,
            zero_copy: ZeroCopy::Off,
            bits_per_s: 2e9,
            sender_cpu_ns_per_byte: 0.25,
            receiver_cpu_ns_per_byte: 0.25,
        };
        assert_eq!(trial.sentence(), "write 64KiB read 1MiB: 2000.0 Mbit/s, CPU 0.250 + 0.250 ns per byte");
    }
}
