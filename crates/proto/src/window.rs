//! The command window of both sides (RFC 7143 section 4.2.2.1): ExpCmdSN..=MaxCmdSN.
//!
//! The target counts *open* commands against its limit, so a command leaves the window when it completes and not when
//! it is received; MaxCmdSN never moves back. The caller sets the limit.

use crate::serial::{ahead, before};

/// Position of a command that has just arrived, relative to the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admit {
    /// The next in order.
    Next,
    /// Inside the window, but commands before it are missing.
    Early,
    /// Outside the window or already seen: silently ignored, as the RFC demands.
    Outside,
}

/// The target's side of the window.
#[derive(Debug)]
pub(crate) struct TargetWindow {
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
    limit: u32,
    open: u32,
}

impl TargetWindow {
    pub(crate) fn new(exp_cmd_sn: u32, limit: u32) -> TargetWindow {
        let limit = limit.clamp(1, i32::MAX as u32);
        TargetWindow { exp_cmd_sn, max_cmd_sn: exp_cmd_sn.wrapping_add(limit - 1), limit, open: 0 }
    }

    pub(crate) fn exp_cmd_sn(&self) -> u32 {
        self.exp_cmd_sn
    }

    pub(crate) fn max_cmd_sn(&self) -> u32 {
        self.max_cmd_sn
    }

    pub(crate) fn size(&self) -> u32 {
        self.limit
    }

    /// Sets the number of commands that may be open at once. A smaller limit takes effect as commands
    /// complete.
    pub(crate) fn limit(&mut self, limit: u32) {
        self.limit = limit.clamp(1, i32::MAX as u32);
        self.advance();
    }

    pub(crate) fn admit(&self, cmd_sn: u32) -> Admit {
        if cmd_sn == self.exp_cmd_sn && !before(self.max_cmd_sn, cmd_sn) {
            Admit::Next
        } else if before(self.exp_cmd_sn, cmd_sn) && !before(self.max_cmd_sn, cmd_sn) {
            Admit::Early
        } else {
            Admit::Outside
        }
    }

    /// Returns true if a command with this CmdSN is accepted, now or in its order.
    pub(crate) fn admits(&self, cmd_sn: u32) -> bool {
        self.admit(cmd_sn) != Admit::Outside
    }

    /// The next command in order was taken; `opens` if it stays open until [`TargetWindow::complete`].
    pub(crate) fn take(&mut self, opens: bool) {
        self.exp_cmd_sn = self.exp_cmd_sn.wrapping_add(1);
        self.open += u32::from(opens);
        self.advance();
    }

    /// An open command has completed.
    pub(crate) fn complete(&mut self) {
        self.open = self.open.saturating_sub(1);
        self.advance();
    }

    fn advance(&mut self) {
        let free = self.limit.saturating_sub(self.open);
        let max = self.exp_cmd_sn.wrapping_add(free).wrapping_sub(1);
        if before(self.max_cmd_sn, max) {
            self.max_cmd_sn = max;
        }
    }
}

/// The initiator's side of the window.
#[derive(Debug)]
pub(crate) struct InitiatorWindow {
    next_cmd_sn: u32,
    max_cmd_sn: u32,
    widest: u32,
}

impl InitiatorWindow {
    pub(crate) fn new(next_cmd_sn: u32, max_cmd_sn: u32) -> InitiatorWindow {
        let widest = ahead(next_cmd_sn, max_cmd_sn.wrapping_add(1));
        InitiatorWindow { next_cmd_sn, max_cmd_sn, widest }
    }

    /// Takes ExpCmdSN and MaxCmdSN of a PDU. A pair with MaxCmdSN < ExpCmdSN − 1 is ignored, and neither
    /// value moves back (RFC 7143 section 4.2.2.1).
    pub(crate) fn update(&mut self, exp_cmd_sn: u32, max_cmd_sn: u32) {
        let sane = !before(max_cmd_sn, exp_cmd_sn.wrapping_sub(1));
        if sane && before(self.max_cmd_sn, max_cmd_sn) {
            self.max_cmd_sn = max_cmd_sn;
        }
        if sane {
            self.widest = self.widest.max(ahead(exp_cmd_sn, max_cmd_sn.wrapping_add(1)));
        }
    }

    /// The widest window seen so far, in commands.
    pub(crate) fn widest(&self) -> u32 {
        self.widest
    }

    /// Commands that may still be sent.
    pub(crate) fn room(&self) -> u32 {
        ahead(self.next_cmd_sn, self.max_cmd_sn.wrapping_add(1))
    }

    /// The CmdSN of an immediate PDU: carried, not consumed.
    pub(crate) fn peek(&self) -> u32 {
        self.next_cmd_sn
    }

    /// The CmdSN of the next command.
    pub(crate) fn take(&mut self) -> u32 {
        let cmd_sn = self.next_cmd_sn;
        self.next_cmd_sn = cmd_sn.wrapping_add(1);
        cmd_sn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_counts_open_commands() {
        let mut window = TargetWindow::new(u32::MAX, 3);
        assert_eq!(window.max_cmd_sn(), 1);
        for cmd_sn in [u32::MAX, 0, 1] {
            assert_eq!(window.admit(cmd_sn), Admit::Next);
            window.take(true);
        }
        assert_eq!((window.exp_cmd_sn(), window.max_cmd_sn()), (2, 1), "closed");
        assert_eq!(window.admit(2), Admit::Outside);
        window.complete();
        assert_eq!(window.admit(2), Admit::Next);
        assert_eq!(window.admit(3), Admit::Outside);
        window.limit(5);
        assert_eq!(window.admit(3), Admit::Early);
        window.limit(1);
        assert_eq!(window.max_cmd_sn(), 4, "never back");
        assert_eq!(window.admit(0), Admit::Outside, "already seen");
    }

    #[test]
    fn the_initiator_ignores_windows_that_make_no_sense() {
        let mut window = InitiatorWindow::new(10, 10);
        assert_eq!(window.room(), 1);
        assert_eq!(window.take(), 10);
        assert_eq!(window.room(), 0);
        window.update(11, 9);
        assert_eq!(window.room(), 0);
        window.update(11, 20);
        assert_eq!((window.room(), window.peek()), (10, 11));
        window.update(11, 15);
        assert_eq!(window.room(), 10, "never back");
    }
}
