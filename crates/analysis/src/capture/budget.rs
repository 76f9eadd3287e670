//! What may be held in memory while a capture is read, over all its connections together.

/// Room that is left, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    left: usize,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// Takes room if it is there.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let room = self.left >= bytes;
        if room {
            self.left -= bytes;
        }
        room
    }

    /// Gives back what was taken.
    pub(super) fn give(&mut self, bytes: usize) {
        self.left += bytes;
    }
}
