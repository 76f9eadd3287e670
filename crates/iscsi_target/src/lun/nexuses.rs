//! I_T nexuses and the stores that they know under the numbers of LUNs.
//!
//! An initiator takes a LUN for the disk that it has seen there: it has a file system mounted, and blocks of it in
//! memory. Neither an INQUIRY nor another login shows that it has noticed another disk in its place, because kernels
//! and daemons send both by themselves. So the knowledge of a nexus stands until it logs out of its own accord, over
//! all sessions with the same initiator name and ISID, and a number with another store is closed to it:
//! [`Attention::Replaced`].
//!
//! Bounded: nexuses without a session are forgotten from [`ENDED_MAX`] on, the oldest first.
//!
//! [`Attention::Replaced`]: super::Attention::Replaced

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::attention::Port;

/// Nexuses that are remembered after their session has ended without a logout: twice the connections that a target
/// takes, so that neither an outage nor a restart under a full target loses one.
const ENDED_MAX: usize = 16_384;

/// A store as a nexus knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownStore {
    /// Stands for its names, and for the contents if those do not last.
    pub(super) key: u64,
    pub(super) block_len_bytes: u32,
    /// Size in blocks.
    pub(super) blocks: u64,
}

/// Stores by the numbers of their LUNs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct KnownStores(pub(super) BTreeMap<u16, KnownStore>);

/// All nexuses of a target.
#[derive(Debug, Default)]
pub(super) struct Nexuses {
    entries: BTreeMap<Arc<Port>, Entry>,
    /// Nexuses without a session and the stores that they know, by the numbers of their ends.
    ended: BTreeMap<u64, (Arc<Port>, Arc<KnownStores>)>,
    last_end: u64,
    /// Number of the last change.
    version: u64,
    /// Version of the last list returned by [`Nexuses::take`].
    taken: u64,
}

#[derive(Debug)]
struct Entry {
    stores: Arc<KnownStores>,
    /// Number of its end, if it has no session.
    ended: Option<u64>,
    /// The change since which it knows these stores.
    version: u64,
}

/// All nexuses with the stores they know; nexuses without a session come first, in the order of their ends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NexusList(pub(super) Vec<(Arc<Port>, Arc<KnownStores>)>);

impl KnownStore {
    /// Returns true if `now` is the same store, which may have grown.
    pub(super) fn is_still(&self, now: &KnownStore) -> bool {
        self.key == now.key && self.block_len_bytes == now.block_len_bytes && self.blocks <= now.blocks
    }
}

impl Nexuses {
    /// The nexuses of an earlier process: none has a session.
    pub(super) fn restore(list: NexusList) -> Nexuses {
        let mut nexuses = Nexuses::default();
        for (port, stores) in list.0 {
            nexuses.entries.insert(Arc::clone(&port), Entry { stores, ended: None, version: 0 });
            nexuses.end(&port, false);
        }
        nexuses.version = 0;
        nexuses
    }

    /// A session of `port` begins while `current` are served: it knows them, unless it knows others already. Returns
    /// the version from which on lists say so: an earlier one where the nexus is known, so that most logins change
    /// nothing.
    pub(super) fn begin(&mut self, port: &Arc<Port>, current: &Arc<KnownStores>) -> u64 {
        let next = self.version + 1;
        self.adopt(port, next);
        let fresh = || Entry { stores: Arc::clone(current), ended: None, version: next };
        let entry = self.entries.entry(Arc::clone(port)).or_insert_with(fresh);
        entry.learn(with_new(&entry.stores, current), next);
        let end = entry.ended.take();
        if end.is_some() || entry.version == next {
            self.version = next;
        }
        if let Some(end) = end {
            self.ended.remove(&end);
        }
        entry.version
    }

    /// A nexus that was kept without a user becomes that of the first user with its name and ISID.
    fn adopt(&mut self, port: &Arc<Port>, version: u64) {
        let kept = port.without_user();
        if port.user.is_none() || self.entries.contains_key(port) {
            return;
        }
        let Some(mut entry) = self.entries.remove(&kept) else { return };
        if let Some(end) = entry.ended {
            self.ended.insert(end, (Arc::clone(port), Arc::clone(&entry.stores)));
        }
        entry.version = version;
        self.entries.insert(Arc::clone(port), entry);
    }

    /// A session ends. With a logout of the initiator's own accord nothing is known of it any more.
    pub(super) fn end(&mut self, port: &Arc<Port>, is_logout: bool) {
        self.version += 1;
        if is_logout {
            self.entries.remove(port);
            self.forget_users(port);
        } else if let Some(entry) = self.entries.get_mut(port) {
            self.last_end += 1;
            entry.ended = Some(self.last_end);
            self.ended.insert(self.last_end, (Arc::clone(port), Arc::clone(&entry.stores)));
            self.forget_oldest();
        }
    }

    /// Forgets the nexuses without a session of all users with this name and ISID: without CHAP, the initiator that
    /// logs out may be any of these users.
    fn forget_users(&mut self, port: &Port) {
        if port.user.is_some() {
            return;
        }
        let gone: Vec<_> =
            self.users(port).filter_map(|(port, entry)| Some((Arc::clone(port), entry.ended?))).collect();
        for (port, end) in gone {
            self.entries.remove(&port);
            self.ended.remove(&end);
        }
    }

    /// Nexuses of users with the name and the ISID of a port without one.
    fn users<'a>(&'a self, port: &'a Port) -> impl Iterator<Item = (&'a Arc<Port>, &'a Entry)> {
        let behind = self.entries.range::<Port, _>((Bound::Excluded(port), Bound::Unbounded));
        behind.take_while(|(other, _)| port.user.is_none() && port.is_namesake(other))
    }

    fn forget_oldest(&mut self) {
        while self.ended.len() > ENDED_MAX {
            let Some((_, (port, _))) = self.ended.pop_first() else { return };
            self.entries.remove(&port);
        }
    }

    /// Other LUNs are served: those with a session know the new ones.
    pub(super) fn come(&mut self, current: &Arc<KnownStores>) {
        self.update(|stores| with_new(stores, current));
    }

    /// Records a larger size of a store for the nexuses with a session that know the store.
    pub(super) fn grow(&mut self, number: u16, now: KnownStore) {
        self.update(|stores| match stores.0.get(&number) {
            Some(known) if known.is_still(&now) && *known != now => {
                let mut stores = KnownStores::clone(stores);
                stores.0.insert(number, now);
                Arc::new(stores)
            }
            _ => Arc::clone(stores),
        });
    }

    /// Changes the stores known to all nexuses with a session. Most know the same, and share it.
    fn update(&mut self, change: impl Fn(&Arc<KnownStores>) -> Arc<KnownStores>) {
        self.version += 1;
        let mut changed: HashMap<*const KnownStores, (Arc<KnownStores>, Arc<KnownStores>)> = HashMap::new();
        for entry in self.entries.values_mut().filter(|entry| entry.ended.is_none()) {
            let old = &entry.stores;
            let (_, new) = changed.entry(Arc::as_ptr(old)).or_insert_with(|| (Arc::clone(old), change(old)));
            entry.learn(Arc::clone(new), self.version);
        }
    }

    /// Returns true if `port` knows another store than `now` under this number. Without CHAP the port may belong to any
    /// user with the same name and ISID, so the stores that those users know count as well.
    pub(super) fn knows_another(&self, port: &Port, number: u16, now: &KnownStore) -> bool {
        let users = self.users(port).map(|(_, entry)| entry);
        self.entries.get(port).into_iter().chain(users).any(|entry| entry.knows_another(number, now))
    }

    /// Nexuses that know another store than `next` under this number. Nexuses that the number is closed to already,
    /// because it has `current`, are not among them.
    pub(super) fn strangers<'a>(
        &'a self,
        number: u16,
        current: Option<&'a KnownStore>,
        next: &'a KnownStore,
    ) -> impl Iterator<Item = &'a Arc<Port>> {
        let is_concerned = move |entry: &Entry| {
            entry.knows_another(number, next) && !current.is_some_and(|now| entry.knows_another(number, now))
        };
        self.entries.iter().filter(move |(_, entry)| is_concerned(entry)).map(|(port, _)| port)
    }

    /// Returns true if something has changed since the last [`Nexuses::take`].
    pub(super) fn has_news(&self) -> bool {
        self.version != self.taken
    }

    /// All nexuses, to be kept, and the version of this list.
    pub(super) fn take(&mut self) -> (u64, NexusList) {
        self.taken = self.version;
        (self.version, self.list())
    }

    fn list(&self) -> NexusList {
        // No look-ups: a target remembers thousands, and serves nobody meanwhile.
        let ended = self.ended.values().cloned();
        let open = self.entries.iter().filter(|(_, entry)| entry.ended.is_none());
        let open = open.map(|(port, entry)| (Arc::clone(port), Arc::clone(&entry.stores)));
        NexusList(ended.chain(open).collect())
    }
}

impl Entry {
    fn learn(&mut self, stores: Arc<KnownStores>, version: u64) {
        if !Arc::ptr_eq(&self.stores, &stores) {
            (self.stores, self.version) = (stores, version);
        }
    }

    fn knows_another(&self, number: u16, now: &KnownStore) -> bool {
        self.stores.0.get(&number).is_some_and(|known| !known.is_still(now))
    }
}

/// The stores that are known, those of `current` under other numbers, and the sizes to which known ones have grown.
fn with_new(known: &Arc<KnownStores>, current: &Arc<KnownStores>) -> Arc<KnownStores> {
    let is_news = |(number, now): &(&u16, &KnownStore)| {
        known.0.get(number).is_none_or(|old| old != *now && old.is_still(now))
    };
    if !current.0.iter().any(|entry| is_news(&entry)) {
        return Arc::clone(known);
    }
    let mut stores = KnownStores::clone(known);
    stores.0.extend(current.0.iter().filter(is_news).map(|(number, now)| (*number, *now)));
    Arc::new(stores)
}

/// FNV-1a over parts with their lengths, so that no two lists of parts run together. Published and stable; it is no
/// secret and no proof of anything.
pub(super) fn hash(parts: &[&[u8]]) -> u64 {
    let fnv = |hash, bytes: &[u8]| {
        bytes
            .iter()
            .fold(hash, |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    };
    parts
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, part| fnv(fnv(hash, &(part.len() as u64).to_be_bytes()), part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(n: u32) -> Arc<Port> {
        let [a, b, c, d] = n.to_be_bytes();
        Arc::new(Port { name: "iqn.a".to_owned(), isid: [0x80, 0, a, b, c, d], user: None })
    }

    fn store(key: u64, blocks: u64) -> KnownStore {
        KnownStore { key, block_len_bytes: 512, blocks }
    }

    fn stores(all: &[(u16, KnownStore)]) -> Arc<KnownStores> {
        Arc::new(KnownStores(all.iter().copied().collect()))
    }

    #[test]
    fn size_known_after_another_login() {
        let mut nexuses = Nexuses::default();
        let one = port(1);
        nexuses.begin(&one, &stores(&[(0, store(7, 100))]));
        nexuses.end(&one, false);
        nexuses.begin(&one, &stores(&[(0, store(7, 200))]));
        assert!(nexuses.knows_another(&one, 0, &store(7, 150)), "it was cut");
        assert!(!nexuses.knows_another(&one, 0, &store(7, 200)));
    }

    #[test]
    fn versions_since_which_lists_have_a_nexus() {
        let mut nexuses = Nexuses::default();
        let (one, two) = (port(1), port(2));
        let first = stores(&[(0, store(7, 100))]);
        assert_eq!(nexuses.begin(&one, &first), 1);
        let (version, list) = nexuses.take();
        assert_eq!((version, list.0.len()), (1, 1));
        // A session in the place of another, which is the same nexus.
        assert_eq!(nexuses.begin(&one, &first), 1);
        assert!(!nexuses.has_news());
        assert_eq!(nexuses.begin(&two, &first), 2);
        nexuses.end(&one, false);
        assert_eq!(nexuses.begin(&one, &first), 1, "earlier lists have it");
        assert!(nexuses.has_news(), "lists are in the order of the ends");
        let (version, list) = nexuses.take();
        assert_eq!(nexuses.begin(&one, &stores(&[(1, store(8, 100))])), version + 1);
        nexuses.come(&stores(&[(2, store(9, 100))]));
        assert_eq!(nexuses.begin(&two, &first), version + 2);
        assert!(nexuses.has_news());
        let mut restored = Nexuses::restore(list);
        assert!(!restored.has_news());
        assert_eq!(restored.begin(&one, &first), 0);
        assert_eq!(restored.begin(&port(3), &first), 2);
    }

    #[test]
    fn a_user_knows_nothing_of_another() {
        let mut nexuses = Nexuses::default();
        let of = |user: &str| Arc::new(Port { user: Some(user.to_owned()), ..Port::clone(&port(1)) });
        let (first, other) = (stores(&[(0, store(7, 100))]), store(8, 100));
        // From a register without users.
        nexuses.begin(&port(1), &first);
        let mut nexuses = Nexuses::restore(nexuses.take().1);
        nexuses.begin(&of("alice"), &stores(&[]));
        assert!(nexuses.knows_another(&of("alice"), 0, &other));
        assert_eq!((nexuses.entries.len(), nexuses.ended.len()), (1, 0));
        nexuses.end(&of("alice"), false);
        nexuses.begin(&of("bob"), &stores(&[]));
        assert!(!nexuses.knows_another(&of("bob"), 0, &other));
        nexuses.end(&of("bob"), true);
        assert!(nexuses.knows_another(&of("alice"), 0, &other), "the logout was another's");
    }

    #[test]
    fn knowledge_until_a_logout() {
        let mut nexuses = Nexuses::default();
        let (one, two) = (port(1), port(2));
        nexuses.begin(&one, &stores(&[(0, store(7, 100))]));
        assert!(nexuses.has_news());
        nexuses.take();
        assert!(!nexuses.has_news());
        let knows_another = |nexuses: &Nexuses, port: &Port, now| nexuses.knows_another(port, 0, &now);
        for (now, expected) in [
            (store(7, 100), false),
            (store(7, 101), false),
            (store(7, 99), true),
            (store(8, 100), true),
            (KnownStore { block_len_bytes: 4096, ..store(7, 100) }, true),
        ] {
            assert_eq!(knows_another(&nexuses, &one, now), expected, "{now:?}");
            assert!(!knows_another(&nexuses, &two, now), "it was never there");
        }
        // Lost, and made again: the same nexus.
        nexuses.end(&one, false);
        assert!(knows_another(&nexuses, &one, store(8, 100)));
        nexuses.begin(&one, &stores(&[(0, store(8, 100)), (1, store(9, 10))]));
        assert!(
            knows_another(&nexuses, &one, store(8, 100)) && !knows_another(&nexuses, &one, store(7, 100))
        );
        assert!(nexuses.knows_another(&one, 1, &store(10, 10)), "it has got to know another number");
        nexuses.end(&one, true);
        nexuses.begin(&one, &stores(&[(0, store(8, 100))]));
        assert!(!knows_another(&nexuses, &one, store(8, 100)));
    }

    #[test]
    fn knowledge_of_open_sessions_after_a_reload() {
        let mut nexuses = Nexuses::default();
        let (open, away, shut) = (port(1), port(2), port(3));
        let first = stores(&[(0, store(7, 100))]);
        nexuses.begin(&shut, &stores(&[(0, store(6, 100))]));
        nexuses.begin(&open, &first);
        nexuses.begin(&away, &first);
        nexuses.end(&away, false);
        nexuses.come(&stores(&[(0, store(7, 100)), (5, store(1, 1))]));
        let know = |nexuses: &Nexuses, number, now| {
            [&open, &away, &shut].map(|port| nexuses.knows_another(port, number, &now))
        };
        assert_eq!(know(&nexuses, 5, store(2, 1)), [true, false, true]);
        nexuses.grow(0, store(7, 200));
        assert_eq!(know(&nexuses, 0, store(7, 100)), [true, false, true], "cut to the size before");
        assert_eq!(know(&nexuses, 0, store(7, 200)), [false, false, true]);
        let strangers = |current: Option<KnownStore>, next| {
            let mut found: Vec<_> = nexuses.strangers(0, current.as_ref(), &next).cloned().collect();
            found.sort();
            found
        };
        assert_eq!(strangers(Some(store(7, 200)), store(8, 1)), [Arc::clone(&open), Arc::clone(&away)]);
        assert_eq!(strangers(None, store(8, 1)).len(), 3, "the LUN was taken out before");
        assert_eq!(strangers(Some(store(7, 200)), store(7, 300)), [] as [Arc<Port>; 0]);
    }

    /// CHAP is switched off while a store is replaced: the initiator may still have the old one mounted.
    #[test]
    fn without_chap_an_initiator_knows_what_its_users_knew() {
        let of =
            |user: Option<&str>| Arc::new(Port { user: user.map(str::to_owned), ..Port::clone(&port(1)) });
        let [plain, alices, bobs] = [None, Some("alice"), Some("bob")].map(of);
        let mut nexuses = Nexuses::default();
        nexuses.begin(&alices, &stores(&[(0, store(7, 100))]));
        nexuses.end(&alices, false);
        let now = store(8, 100);
        nexuses.begin(&plain, &stores(&[(0, now)]));
        nexuses.begin(&port(2), &stores(&[(0, now)]));
        let know = |nexuses: &Nexuses| {
            [&plain, &bobs, &alices, &port(2)].map(|port| nexuses.knows_another(port, 0, &now))
        };
        assert_eq!(know(&nexuses), [true, false, true, false]);
        nexuses.end(&plain, true);
        assert_eq!(know(&nexuses), [false; 4]);
        assert!(nexuses.ended.is_empty());
    }

    #[test]
    fn bound_of_nexuses_without_a_session() {
        let mut nexuses = Nexuses::default();
        let current = stores(&[(0, store(7, 100))]);
        let all: Vec<_> = (0..ENDED_MAX as u32 + 5).map(port).collect();
        for port in &all {
            nexuses.begin(port, &current);
        }
        assert_eq!(nexuses.list().0.len(), ENDED_MAX + 5, "those with a session all count");
        all.iter().rev().for_each(|port| nexuses.end(port, false));
        let kept = |port: &Arc<Port>| nexuses.knows_another(port, 0, &store(8, 1));
        let forgotten: Vec<_> = all.iter().filter(|port| !kept(port)).cloned().collect();
        assert_eq!(forgotten, all[ENDED_MAX..], "the first to end");
        let list = nexuses.list();
        assert_eq!(list.0[0].0, all[ENDED_MAX - 1], "in the order of their ends");
        assert_eq!(Nexuses::restore(list.clone()).list(), list);
    }
}
