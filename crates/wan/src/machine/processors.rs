//! Processors of the emulator and of the hosts.
//!
//! The emulator's thread runs at real-time priority, most of the time on a busy line. A host's process that wakes up
//! on its processor waits until it is idle or must pause; the packets that it should have sent meanwhile then come
//! all at once, or never. Half a ring of 80 packets takes as long at 1 Gb/s. So hosts with rings have processors of
//! their own: four readers behind such a ring, with a target that paces in user space, had 865 Mb/s with it and 727
//! without; Jain's index was 0.9997 and 0.988.
//!
//! Without rings all threads run on all processors: at 9 Gb/s hosts need every one, and a short wait is nothing to
//! their windows.

use std::io;

use net::scheduling;

use crate::Spec;

/// The processors that a path is run on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Processors {
    /// Processor of the emulator's thread; any if `None`.
    pub(crate) pump: Option<usize>,
    /// Processors of all other threads.
    pub(crate) hosts: Vec<usize>,
}

/// Restricts a thread and its children to the hosts' processors; dropped, it lifts that.
pub(crate) struct HostProcessors {
    before: Vec<usize>,
}

impl Processors {
    /// Divides the processors that the calling thread may use.
    pub(crate) fn of(spec: &Spec) -> io::Result<Processors> {
        Ok(Processors::among(scheduling::allowed_cpus()?, spec.ring_packets.is_some()))
    }

    /// Restricts the calling thread, and its children from now on, to the hosts' processors.
    pub(crate) fn leave_to_pump(&self) -> io::Result<HostProcessors> {
        let before = scheduling::allowed_cpus()?;
        scheduling::keep_to(&self.hosts)?;
        Ok(HostProcessors { before })
    }

    fn among(allowed: Vec<usize>, has_rings: bool) -> Processors {
        match *allowed {
            [first, _, ..] if has_rings => Processors { pump: Some(first), hosts: allowed[1..].to_vec() },
            _ => Processors { pump: None, hosts: allowed },
        }
    }
}

impl Drop for HostProcessors {
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
