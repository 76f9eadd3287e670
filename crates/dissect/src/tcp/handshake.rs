//! TCP options of a SYN: segment size and window scaling (RFC 9293 section 3.7.1, RFC 7323 section 2).

use wire::inet::Options;

/// SYN of one side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handshake {
    /// The SYN is in the capture.
    pub(crate) syn_seen: bool,
    /// The SYN is in the capture with all its options, or at least with its window scale.
    pub(crate) scale_known: bool,
    /// Largest segment that this side accepts.
    mss: Option<u16>,
    /// Shift of the windows that this side advertises; `None` without the option.
    scale: Option<u8>,
}

impl Handshake {
    /// Takes a SYN of this side.
    pub(super) fn take(&mut self, options: &Options) {
        self.syn_seen = true;
        self.mss = options.mss;
        self.scale = options.window_scale;
        self.scale_known = self.scale.is_some() || !options.is_cut;
    }

    /// Largest segment that this side accepts.
    pub(super) fn own_mss(&self) -> Option<u16> {
        self.mss
    }

    /// Largest segment on the connection: the smaller of both sides' values.
    pub(crate) fn mss_with(&self, peer: &Handshake) -> Option<u16> {
        [self.mss, peer.mss].into_iter().flatten().min()
    }

    /// Shift of the windows that this side advertises; `None` if an option of either side is unknown.
    pub(super) fn window_shift(&self, peer: &Handshake) -> Option<u8> {
        match (self.scale, peer.scale) {
            (Some(shift), Some(_)) => Some(shift),
            _ if self.scale_known && peer.scale_known => Some(0),
            _ => None,
        }
    }
}
