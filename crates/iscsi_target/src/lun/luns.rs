//! The set of LUNs that a target serves, by number, and the sessions that use them. How they come and go is in
//! `inventory.rs`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use wire::scsi::Lun as Address;

use super::nexuses::{KnownStores, Nexuses};
use super::{Attention, Identity, Keeper, Lun, LunError, LunSpec, Nexus, Opening, Port, Save, Source};
use crate::backend::Backend;
use block::Watched;

/// The LUNs of one target by their numbers, which may have gaps.
#[derive(Debug, Default)]
pub struct Luns {
    pub(super) slots: Vec<Option<Lun>>,
    /// LUNs that wait until the one with their number has left.
    pub(super) successors: BTreeMap<u16, Lun>,
    pub(super) sessions: BTreeMap<Nexus, Arc<Port>>,
    pub(super) nexuses: Nexuses,
    /// Stores that a session gets to know that begins now.
    pub(super) current: Arc<KnownStores>,
    /// Registrations that were adopted and are to be kept, by the numbers of their LUNs.
    pub(super) adoptions: Vec<(u16, Save)>,
    /// Sessions of CHAP users whose initiator name and ISID have registrations of another user.
    pub(super) bereft: Vec<Bereft>,
}

/// A session whose initiator name and ISID have registrations of another CHAP user, in which it has no part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bereft {
    /// The session.
    pub nexus: Nexus,
    /// The first LUN with such a registration.
    pub lun: u16,
    /// CHAP user of the registration.
    pub user: String,
}

/// Checks that each of these LUNs keeps its reservations in a file of its own; `state` is the state folder.
///
/// # Errors
/// Two that share one.
pub fn check_reservations<'a>(
    specs: impl Iterator<Item = (&'a u16, &'a LunSpec)>,
    state: &Path,
) -> Result<(), LunError> {
    let mut keepers = BTreeMap::new();
    for (&number, spec) in specs {
        let Some(path) = Keeper::place(&spec.source, &spec.options, state) else { continue };
        if let Some(other) = keepers.insert(path.clone(), number) {
            return Err(LunError::SharedReservations { number, other, path });
        }
    }
    Ok(())
}

/// Checks that no two of these LUNs share a serial number or an NAA designator. Read-only LUNs of one file may: they
/// are one disk.
///
/// # Errors
/// Two that share one.
pub fn check_identities<'a>(
    luns: impl Iterator<Item = (u16, &'a LunSpec, &'a Identity)>,
) -> Result<(), LunError> {
    let mut names = HashMap::new();
    for (number, spec, identity) in luns {
        let serial = ("serial number", identity.serial.to_string(), "serial");
        let naa = ("NAA designator", identity.naa.to_string(), "naa");
        for (what, value, option) in [serial, naa] {
            match names.insert((what, value.clone()), (number, spec)) {
                Some((other, other_spec)) if !is_shared(spec, other_spec) => {
                    return Err(LunError::SharedIdentity { number, other, what, value, option });
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Returns true if two LUNs are the same file, read-only.
fn is_shared(one: &LunSpec, other: &LunSpec) -> bool {
    let file = |spec: &LunSpec| match &spec.source {
        Source::File { path } if spec.options.read_only => path.canonicalize().ok(),
        _ => None,
    };
    file(one).is_some_and(|path| Some(path) == file(other))
}

impl Luns {
    /// Opens every LUN of `specs` in the order of their numbers.
    pub fn open(specs: &BTreeMap<u16, LunSpec>, opening: Opening<'_>) -> Result<Luns, LunError> {
        check_reservations(specs.iter(), opening.state)?;
        let mut luns = Luns::default();
        for (number, spec) in specs {
            luns.put(Lun::open(spec, *number, opening)?);
        }
        check_identities(luns.iter().map(|lun| (lun.number, &lun.spec, &lun.identity)))?;
        luns.look_again();
        Ok(luns)
    }

    /// Puts a LUN in the place of its number.
    pub(super) fn put(&mut self, lun: Lun) {
        let place = usize::from(lun.number);
        if self.slots.len() <= place {
            self.slots.resize_with(place + 1, || None);
        }
        self.slots[place] = Some(lun);
    }

    /// Returns the LUN that a command addresses; also a leaving LUN, for commands under way.
    pub fn lun(&self, address: Address) -> Option<&Lun> {
        self.slots.get(usize::from(address.number()?))?.as_ref()
    }

    /// The LUN that a command is for, to receive into its memory.
    pub fn lun_mut(&mut self, address: Address) -> Option<&mut Lun> {
        self.slots.get_mut(usize::from(address.number()?))?.as_mut()
    }

    /// LUNs that are not leaving, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Lun> {
        self.slots.iter().flatten().filter(|lun| !lun.is_leaving)
    }

    /// Watched files of LUNs with a file, by number.
    pub fn watched(&self) -> Vec<(u16, Arc<Watched>)> {
        let watched = |lun: &Lun| match lun.backend() {
            Backend::Blocking(store) => store.watched(),
            Backend::Inline(_) => None,
        };
        let luns = self.slots.iter().flatten();
        luns.filter_map(|lun| watched(lun).map(|file| (lun.number, file))).collect()
    }

    /// Begins a session of `port`. A unit attention on each LUN reports a possible reset since the initiator's last
    /// session: a memory LUN is empty after a restart of the target.
    ///
    /// Returns the version from which on lists of nexuses have this one ([`Luns::take_nexuses`]).
    pub fn begin(&mut self, nexus: Nexus, port: Port) -> u64 {
        let port = Arc::new(port);
        let version = self.nexuses.begin(&port, &self.current);
        for lun in self.slots.iter_mut().flatten() {
            let knows_another = self.nexuses.knows_another(&port, lun.number, &lun.known());
            let adoption = lun.begin(nexus, &port, knows_another);
            self.adoptions.extend(adoption.map(|save| (lun.number, save)));
        }
        let other = self.iter().find_map(|lun| {
            let user = lun.reservations.other_user(&port)?.to_owned();
            Some(Bereft { nexus, lun: lun.number, user })
        });
        self.bereft.extend(other);
        self.sessions.insert(nexus, port);
        version
    }

    /// Returns true if a session is the only one.
    pub fn is_alone(&self, nexus: Nexus) -> bool {
        self.sessions.keys().all(|other| *other == nexus)
    }

    /// A LUN, or all of them, was reset; see [`Lun::reset`].
    pub fn reset(&mut self, address: Option<Address>) {
        self.concerned(address).for_each(Lun::reset);
    }

    /// Another session ended commands of `nexus` on a LUN, or on all of them.
    pub fn tell_cleared(&mut self, address: Option<Address>, nexus: Nexus) {
        let luns = self.concerned(address);
        luns.for_each(|lun| lun.attentions.raise(Attention::Cleared, |other| other == nexus));
    }

    /// A change of the reservations of LUN `number` was written, and is in force, or could not be, and is not.
    pub(crate) fn settle(&mut self, number: u16, save: &Save, is_kept: bool) {
        if let Some(lun) = self.slots.get_mut(usize::from(number)).and_then(Option::as_mut) {
            lun.settle(save, is_kept);
        }
    }

    fn concerned(&mut self, address: Option<Address>) -> impl Iterator<Item = &mut Lun> {
        let number = address.map(Address::number);
        self.slots
            .iter_mut()
            .flatten()
            .filter(move |lun| number.is_none_or(|number| number == Some(lun.number)))
    }

    /// A session is over. Unless its initiator has logged out of its own accord, its nexus stays known.
    pub fn end(&mut self, nexus: Nexus, is_logout: bool) {
        for lun in self.slots.iter_mut().flatten() {
            lun.attentions.end(nexus);
            lun.reservations.end(nexus);
        }
        if let Some(port) = self.sessions.remove(&nexus) {
            self.nexuses.end(&port, is_logout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IQN: &str = "iqn.2026-11.io.farlun:test";

    fn at(number: u16) -> Address {
        Address::from_number(number)
    }

    fn open(specs: &[&str]) -> Result<Luns, LunError> {
        let specs = (0..).zip(specs.iter().map(|s| s.parse().unwrap()));
        Luns::open(&specs.collect(), Opening::of(IQN, Some(Path::new("/nowhere"))))
    }

    #[test]
    fn no_two_luns_have_one_identity() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, [0; 4096]).unwrap();
        let check = |specs: &[&str], expected: &[&str]| {
            let text = open(specs).unwrap_err().to_string();
            for part in expected {
                assert!(text.contains(part), "'{part}' is missing in: {text}");
            }
        };
        let serial = "memory:1MiB,serial=a";
        check(
            &[serial, "memory:1MiB", serial],
            &["LUN 2 and LUN 0", "the same serial number, a,", "another serial="],
        );
        let naa = "memory:1MiB,naa=3a1b2c3d4e5f6071";
        check(
            &[naa, naa],
            &["LUN 1 and LUN 0", "the same NAA designator, 3a1b2c3d4e5f6071,", "another naa="],
        );
        let shared = format!("file:{},ro", path.display());
        open(&[&shared, &shared]).unwrap();
        check(&[&shared, &format!("{shared},serial=a,naa=3a1b2c3d4e5f6071"), naa], &["LUN 2 and LUN 1"]);
    }

    #[test]
    fn luns_are_numbered_in_the_order_given() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, [0; 4096]).unwrap();
        let mut luns = open(&["memory:1MiB", &format!("file:{},ro", path.display())]).unwrap();
        let seen: Vec<_> =
            luns.iter().map(|l| (l.number(), l.kind(), l.blocks(), l.is_read_only())).collect();
        assert_eq!(seen, [(0, "memory", 2048, false), (1, "file", 8, true)]);
        assert_ne!(luns.lun(at(0)).unwrap().identity(), luns.lun(at(1)).unwrap().identity());
        assert!(luns.lun(at(2)).is_none() && luns.lun_mut(Address(u64::MAX)).is_none());
        assert!(matches!(luns.lun(at(0)).unwrap().backend(), Backend::Inline(_)));
        assert!(luns.lun(at(1)).unwrap().backend().has_write_cache());
    }

    #[test]
    fn errors_name_the_lun() {
        let check = |specs: &[&str], expected: &[&str]| {
            let text = open(specs).unwrap_err().to_string();
            for part in expected {
                assert!(text.contains(part), "'{part}' is missing in: {text}");
            }
        };
        check(&["memory:1000"], &["LUN 0 (memory:1000B)", "1000 bytes", "512"]);
        check(&["memory:0"], &["LUN 0", "0 bytes", "positive multiple"]);
        check(&["memory:1MiB", "file:/nowhere/disk"], &["LUN 1 (file:/nowhere/disk)", "does not exist"]);
        check(&["memory:1000000TiB"], &["LUN 0", "does not fit"]);
        check(
            &["memory:1MiB", "memory:4KiB,fault=read:lba=7-8"],
            &["LUN 1", "fault=read:lba=7-8 is for blocks that are not there", "8 blocks are numbered from 0"],
        );
        check(&["memory:512"; 257], &["no LUN 256", "256 at most"]);
    }

    #[test]
    fn a_session_is_told_of_power_on_and_of_resets_once_each() {
        let mut luns = open(&["memory:1MiB", "memory:1MiB"]).unwrap();
        let (one, two) = (Nexus(1), Nexus(2));
        luns.begin(one, Port::default());
        luns.begin(two, Port::default());
        let lun = luns.lun_mut(at(0)).unwrap();
        assert_eq!(lun.take_attention(one), Some(Attention::PowerOn));
        assert_eq!(lun.take_attention(one), None);
        lun.reset();
        lun.reset();
        assert_eq!(lun.take_attention(one), Some(Attention::Reset));
        assert_eq!(lun.take_attention(one), None, "two resets are one message");
        assert_eq!(lun.take_attention(two), Some(Attention::PowerOn), "the earlier one first");
        assert_eq!(lun.take_attention(two), Some(Attention::Reset));
        assert_eq!(lun.take_attention(Nexus(3)), None, "a session that never began");
        luns.end(two, true);
        assert_eq!(luns.lun_mut(at(1)).unwrap().take_attention(two), None);
        assert_eq!(luns.lun_mut(at(1)).unwrap().take_attention(one), Some(Attention::PowerOn));
    }
}
