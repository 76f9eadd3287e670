//! Which processor moves packets, and which ones the hosts run on.
//!
//! The thread that moves packets runs before all others, on a busy line most of the time. A host's process that wakes up on
//! its processor waits until it has nothing to do, or must pause; and what it should have handed over meanwhile comes all at
//! once, or never. Half a ring of 80 packets takes as long at 1 Gb/s. So where hosts have rings they have processors of their own:
//! four readers behind such a ring, whose target hands their data over at their time, had 865 Mb/s then, and 727 before; Jain's
//! index of what each had was 0.9997, and 0.988.
//!
//! Without rings everybody runs everywhere: at 9 Gb/s hosts need all that there is, and a moment is nothing to their windows.

use std::io;

use net::scheduling;

use crate::Spec;

/// The processors that a path is run on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Processors {
    /// Moves the packets; any if `None`.
    pub(crate) pump: Option<usize>,
    /// Everybody else runs on them.
    pub(crate) hosts: Vec<usize>,
}

/// Keeps a thread where hosts run, and all that it starts meanwhile; dropped, it lets it go.
pub(crate) struct Aside {
    before: Vec<usize>,
}

impl Processors {
    /// Out of those that the calling thread may run on.
    pub(crate) fn of(spec: &Spec) -> io::Result<Processors> {
        Ok(Processors::among(scheduling::allowed_cpus()?, spec.ring_packets.is_some()))
    }

    /// Has the calling thread, and what it starts from now on, run where hosts do.
    pub(crate) fn leave_to_pump(&self) -> io::Result<Aside> {
        let before = scheduling::allowed_cpus()?;
        scheduling::keep_to(&self.hosts)?;
        Ok(Aside { before })
    }

    fn among(allowed: Vec<usize>, has_rings: bool) -> Processors {
        match *allowed {
            [first, _, ..] if has_rings => Processors { pump: Some(first), hosts: allowed[1..].to_vec() },
            _ => Processors { pump: None, hosts: allowed },
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // It may run on more than it asks for at worst.
        let _ = scheduling::keep_to(&self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_rings_do_not_run_where_packets_are_moved() {
        let among = |allowed: &[usize], has_rings| {
            let Processors { pump, hosts } = Processors::among(allowed.to_vec(), has_rings);
            (pump, hosts)
        };
        assert_eq!(among(&[0, 1], true), (Some(0), vec![1]));
        assert_eq!(among(&[2, 3, 7], true), (Some(2), vec![3, 7]));
        assert_eq!(among(&[2, 3, 7], false), (None, vec![2, 3, 7]));
        assert_eq!(among(&[5], true), (None, vec![5]), "one is all there is");
    }
}
