//! Memory budget of a dissection, shared by all its connections.

use std::cell::Cell;

/// Free memory in bytes. Every structure whose size depends on the capture reserves here before it grows.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBudget {
    free: Cell<usize>,
}

impl MemoryBudget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { free: Cell::new(bytes) }
    }

    /// Reserves `bytes`; false if fewer are free.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let rest = self.free.get().checked_sub(bytes);
        if let Some(rest) = rest {
            self.free.set(rest);
        }
        rest.is_some()
    }

    /// Returns reserved bytes.
    pub(crate) fn release(&self, bytes: usize) {
        self.free.set(self.free.get() + bytes);
    }

    /// Changes a reservation of `held` bytes to `wanted`; false, without any change, if too few are free.
    pub(crate) fn resize(&self, held: &mut usize, wanted: usize) -> bool {
        let fits = wanted <= *held || self.reserve(wanted - *held);
        if fits {
            self.release(held.saturating_sub(wanted));
            *held = wanted;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_memory_can_be_reserved_again() {
        let budget = MemoryBudget::new(10);
        let mut held = 0;
        assert!(budget.resize(&mut held, 8) && !budget.reserve(3));
        assert!(!budget.resize(&mut held, 11) && held == 8);
        assert!(budget.resize(&mut held, 1) && budget.reserve(9) && !budget.reserve(1));
    }
}
