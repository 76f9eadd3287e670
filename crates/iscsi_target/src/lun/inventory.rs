//! LUNs that are added and removed while a target serves.
//!
//! A removed LUN is *leaving*: new commands do not find it, and commands under way finish. Then the loop releases the
//! LUN, and a successor with the same number takes the place. Sessions get a unit attention for both changes (SPC-4
//! section 6.33: REPORTED LUNS DATA HAS CHANGED).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::luns::Bereft;
use super::nexuses::{KnownStores, Nexuses};
use super::{Attention, Identity, Lun, LunSpec, Luns, Nexus, NexusList, Port, Save};
use crate::backend::Backend;
use block::BlockingStore;

/// A LUN as a reload sees it, which does not use it.
#[derive(Clone, Debug)]
pub struct Served {
    /// Specification of the LUN.
    pub spec: LunSpec,
    /// Serial number and designators.
    pub identity: Identity,
    /// Size in blocks.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_len_bytes: u32,
    /// Store whose size may change; `None` for a volatile one.
    pub store: Option<Arc<dyn BlockingStore>>,
}

/// A nexus that knows another store under a number than the present or coming one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stranger {
    /// Initiator name and ISID.
    pub port: Port,
    /// Open session of the port; `None` without one.
    pub session: Option<Nexus>,
}

impl Lun {
    /// Returns true if the LUN only finishes commands under way.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Begins a session of `port`; `knows_another` is true if the port knows another store under this number. Returns
    /// reservations to be written, if the session has changed any.
    pub(super) fn begin(&mut self, nexus: Nexus, port: &Arc<Port>, knows_another: bool) -> Option<Save> {
        self.attentions.begin(nexus, knows_another);
        let keeper = self.keeper.as_ref();
        let kept = self.reservations.begin(nexus, port, keeper.is_some());
        kept.zip(keeper).map(|((version, kept), keeper)| keeper.save(version, kept))
    }
}

impl Luns {
    /// Specifications by number: LUNs in service, and successors that wait for a leaving LUN.
    pub fn specs(&self) -> BTreeMap<u16, LunSpec> {
        let successors = self.successors.values();
        let specs = self.iter().chain(successors).map(|lun| (lun.number, lun.spec.clone()));
        specs.collect()
    }

    /// Specifications, identities and stores by number: LUNs in service, and successors that wait for a leaving LUN.
    pub fn served(&self) -> BTreeMap<u16, Served> {
        let all = self.iter().chain(self.successors.values());
        let store = |lun: &Lun| match &lun.backend {
            Backend::Blocking(store) if !lun.spec.source.is_volatile() => Some(Arc::clone(store)),
            _ => None,
        };
        let served = |lun: &Lun| Served {
            spec: lun.spec.clone(),
            identity: lun.identity.clone(),
            blocks: lun.blocks,
            block_len_bytes: lun.block_len_bytes,
            store: store(lun),
        };
        all.map(|lun| (lun.number, served(lun))).collect()
    }

    /// Removes LUNs and adds others. A LUN that takes the number of a leaving one waits until that one has left.
    /// Returns the waiting LUNs that were removed before they entered service.
    pub fn change(&mut self, removed: &[u16], added: Vec<Lun>) -> Vec<Lun> {
        let mut gone = Vec::new();
        if removed.is_empty() && added.is_empty() {
            return gone;
        }
        for number in removed {
            gone.extend(self.successors.remove(number));
            if let Some(lun) = self.slots.get_mut(usize::from(*number)).and_then(Option::as_mut) {
                lun.is_leaving = true;
            }
        }
        for lun in added {
            match self.slots.get(usize::from(lun.number)) {
                Some(Some(_)) => gone.extend(self.successors.insert(lun.number, lun)),
                _ => self.come(lun),
            }
        }
        self.look_again();
        self.nexuses.come(&self.current);
        self.tell_changed();
        gone
    }

    /// Registrations that sessions have adopted since the last call, to be kept, with the numbers of their LUNs.
    pub fn take_adoptions(&mut self) -> Vec<(u16, Save)> {
        std::mem::take(&mut self.adoptions)
    }

    /// Sessions that have begun since the last call and whose initiator has registrations of another user.
    pub fn take_bereft(&mut self) -> Vec<Bereft> {
        std::mem::take(&mut self.bereft)
    }

    /// Returns true while a change of the reservations of LUN `number` is on its way to stable storage.
    pub fn is_keeping(&self, number: u16) -> bool {
        let lun = self.slots.get(usize::from(number)).and_then(Option::as_ref);
        lun.is_some_and(|lun| lun.reservations.is_keeping())
    }

    /// Numbers of the leaving LUNs.
    pub fn leaving(&self) -> Vec<u16> {
        let leaving = self.slots.iter().flatten().filter(|lun| lun.is_leaving);
        leaving.map(|lun| lun.number).collect()
    }

    /// Nothing is under way any more on a LUN that is leaving: its number is free.
    pub fn release(&mut self, number: u16) -> Option<Lun> {
        let gone = self.slots.get_mut(usize::from(number))?.take_if(|lun| lun.is_leaving)?;
        if let Some(lun) = self.successors.remove(&number) {
            self.come(lun);
            self.tell_changed();
        }
        Some(gone)
    }

    /// Clears the unit attention for changed LUNs after `nexus` has sent REPORT LUNS.
    pub fn forget_changed(&mut self, nexus: Nexus) {
        self.slots.iter_mut().flatten().for_each(|lun| lun.attentions.forget(Attention::LunsChanged, nexus));
    }

    /// To sessions that are there already it is as new as they are to it.
    fn come(&mut self, mut lun: Lun) {
        for (nexus, port) in &self.sessions {
            let knows_another = self.nexuses.knows_another(port, lun.number, &lun.known());
            let adoption = lun.begin(*nexus, port, knows_another);
            self.adoptions.extend(adoption.map(|save| (lun.number, save)));
        }
        self.put(lun);
    }

    /// Updates the stores that a session gets to know that begins now.
    pub(super) fn look_again(&mut self) {
        let all = self.iter().chain(self.successors.values());
        let current = all.map(|lun| (lun.number, lun.known())).collect();
        self.current = Arc::new(KnownStores(current));
    }

    /// The nexuses of an earlier process.
    pub fn restore(&mut self, list: NexusList) {
        self.nexuses = Nexuses::restore(list);
    }

    /// All nexuses with the stores they know, to be kept, and the version of this list.
    pub fn take_nexuses(&mut self) -> (u64, NexusList) {
        self.nexuses.take()
    }

    /// Returns true if nexuses have changed since the last [`Luns::take_nexuses`].
    pub fn has_news(&self) -> bool {
        self.nexuses.has_news()
    }

    /// Nexuses that know another store than `next` under its number, except those that the number is closed to already.
    pub fn strangers_to(&self, next: &Lun) -> Vec<Stranger> {
        let current = self.current.0.get(&next.number);
        self.strangers(self.nexuses.strangers(next.number, current, &next.known()))
    }

    /// The nexuses of an earlier process that a LUN is closed to.
    pub fn shut_out(&self, lun: &Lun) -> Vec<Stranger> {
        self.strangers(self.nexuses.strangers(lun.number, None, &lun.known()))
    }

    fn strangers<'a>(&self, ports: impl Iterator<Item = &'a Arc<Port>>) -> Vec<Stranger> {
        let sessions: HashMap<&Arc<Port>, Nexus> =
            self.sessions.iter().map(|(nexus, port)| (port, *nexus)).collect();
        let stranger =
            |port: &Arc<Port>| Stranger { port: Port::clone(port), session: sessions.get(port).copied() };
        let mut strangers: Vec<Stranger> = ports.map(stranger).collect();
        strangers.sort_by(|one, other| one.port.cmp(&other.port));
        strangers
    }

    /// A store has grown to so many blocks; raises a unit attention for every session.
    pub fn grow(&mut self, number: u16, blocks: u64) {
        let served = self.slots.iter_mut().flatten().filter(|lun| !lun.is_leaving);
        let Some(lun) = served.chain(self.successors.values_mut()).find(|lun| lun.number == number) else {
            return;
        };
        lun.grow(blocks);
        let known = lun.known();
        self.look_again();
        self.nexuses.grow(number, known);
    }

    fn tell_changed(&mut self) {
        let staying = self.slots.iter_mut().flatten().filter(|lun| !lun.is_leaving);
        staying.for_each(|lun| lun.attentions.raise(Attention::LunsChanged, |_| true));
    }
}

#[cfg(test)]
mod tests {
    use wire::scsi::Lun as Address;

    use super::super::{Opening, Port};
    use super::*;

    const IQN: &str = "iqn.2026-11.io.farlun:test";

    fn lun(number: u16, spec: &str) -> Lun {
        Lun::open(&spec.parse().unwrap(), number, Opening::of(IQN, None)).unwrap()
    }

    fn luns() -> Luns {
        let specs = [(0, "memory:1MiB".parse().unwrap()), (3, "memory:2MiB".parse().unwrap())];
        let mut luns = Luns::open(&specs.into(), Opening::of(IQN, None)).unwrap();
        luns.begin(Nexus(1), Port::default());
        take_all(&mut luns, 0);
        take_all(&mut luns, 3);
        luns
    }

    fn take_all(luns: &mut Luns, number: u16) -> Vec<Attention> {
        let lun = luns.lun_mut(Address::from_number(number)).unwrap();
        std::iter::from_fn(|| lun.take_attention(Nexus(1))).collect()
    }

    fn numbers(luns: &Luns) -> Vec<u16> {
        luns.iter().map(Lun::number).collect()
    }

    #[test]
    fn one_that_leaves_is_there_for_what_is_under_way_only() {
        let mut luns = luns();
        assert!(luns.change(&[3], Vec::new()).is_empty());
        assert_eq!((numbers(&luns), luns.leaving()), (vec![0], vec![3]));
        assert!(luns.lun(Address::from_number(3)).unwrap().is_leaving());
        assert_eq!(take_all(&mut luns, 0), [Attention::LunsChanged]);
        assert!(luns.release(0).is_none(), "it is not leaving");
        assert_eq!(luns.release(3).unwrap().number(), 3);
        assert!(luns.lun(Address::from_number(3)).is_none() && luns.leaving().is_empty());
    }

    #[test]
    fn one_that_comes_is_new_to_all() {
        let mut luns = luns();
        luns.change(&[], vec![lun(200, "memory:1MiB")]);
        assert_eq!(numbers(&luns), [0, 3, 200]);
        assert_eq!(take_all(&mut luns, 200), [Attention::PowerOn, Attention::LunsChanged]);
        luns.forget_changed(Nexus(1));
        assert_eq!(take_all(&mut luns, 0), []);
        luns.change(&[], Vec::new());
        assert_eq!(take_all(&mut luns, 0), [], "nothing has changed");
    }

    #[test]
    fn a_successor_waits() {
        let mut luns = luns();
        luns.change(&[3], vec![lun(3, "memory:4MiB")]);
        assert_eq!(luns.specs()[&3].to_string(), "memory:4MiB", "what will be");
        assert_eq!(numbers(&luns), [0]);
        assert_eq!(luns.release(3).unwrap().len_bytes(), 2 << 20);
        assert_eq!(luns.lun(Address::from_number(3)).unwrap().len_bytes(), 4 << 20);
        assert_eq!(take_all(&mut luns, 0), [Attention::LunsChanged], "two changes are one message");
        // A successor that is removed while it waits never enters service.
        luns.change(&[3], vec![lun(3, "memory:8MiB")]);
        let gone = luns.change(&[3], Vec::new());
        assert_eq!(gone.iter().map(Lun::len_bytes).collect::<Vec<_>>(), [8 << 20]);
        assert!(luns.release(3).is_some() && luns.lun(Address::from_number(3)).is_none());
        assert_eq!(luns.specs().len(), 1);
    }
}
