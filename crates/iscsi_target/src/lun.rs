//! A logical unit (LUN): a numbered range of blocks with an identity of its own, and the set of LUNs that a target
//! serves.
//!
//! A LUN knows its size, its backend and its pending unit attentions ([`Attention`]). The meaning of a command is
//! decided in [`crate::scsi`]; the serving loop moves the bytes. Addressing: SAM-5 section 4.7; identity: SPC-4 section
//! 7.8.6.

mod artificial_limits;
mod attention;
mod error;
mod identity;
mod inventory;
mod luns;
mod nexuses;
mod options;
mod persistent;
mod reservation;
mod source;
mod spec;

use std::path::Path;
use std::sync::Arc;

use block::{BlockingStore, FaultStore, FileStore, Lent, Locked, Memory, Null, OpenAs};
use event::Instant;

use crate::backend::Backend;

pub use attention::{Attention, Nexus, Port};
pub use error::{LunError, ReserveError};
pub use identity::{Identity, Naa, PORTAL_GROUP_TAG, Serial};
pub use inventory::{Served, Stranger};
pub use luns::{Bereft, Luns, check_identities, check_reservations};
pub use nexuses::{KnownStore, NexusList};
pub use options::{BLOCK_LENS_BYTES, OPTIONS, Options};
pub use persistent::file_names::{Opening, STATE_DIR};
pub use persistent::nexus_register::{Register, RegisterError};
pub use persistent::reservation_file::{Keeper, KeptError, Save};
pub use persistent::store_identity::LabelError;
pub use reservation::{Need, Request, Reservations};
pub use source::Source;
pub use spec::{LUNS_MAX, LunSpec, SpecError};

use artificial_limits::ArtificialLimits;
use attention::Attentions;
use persistent::file_names::{in_state, with_suffix};
use persistent::store_identity::{self, Label, Place};
use reservation::{Change, Notice};

/// Default bytes per block: the size that every initiator can boot from and partition.
pub const BLOCK_LEN_BYTES: u32 = 512;

/// A logical unit.
#[derive(Debug)]
pub struct Lun {
    number: u16,
    spec: LunSpec,
    is_leaving: bool,
    block_len_bytes: u32,
    blocks: u64,
    identity: Identity,
    /// Random number of a store whose contents do not last; 0 for others.
    contents: u64,
    read_only: bool,
    backend: Backend,
    limits: ArtificialLimits,
    settings: Settings,
    attentions: Attentions,
    reservations: Reservations,
    /// File that keeps persistent reservations over a restart (APTPL); `None` for a LUN without one.
    keeper: Option<Arc<Keeper>>,
}

/// Mode parameters that an initiator can change; a restart of the target resets them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// WCE: writes are answered before they are on the medium. Only ever set where there is a cache.
    pub write_cache: bool,
    /// SWP: writes are refused.
    pub write_protect: bool,
}

/// Effects of a PERSISTENT RESERVE OUT command.
#[derive(Debug)]
pub struct Reserved {
    /// Sessions whose registrations the command removed.
    pub preempted: Vec<Nexus>,
    /// State that must reach stable storage before the change is in force and the command is answered.
    pub save: Option<Save>,
}

impl Lun {
    /// Opens the store of `spec` as LUN `number`.
    pub fn open(spec: &LunSpec, number: u16, opening: Opening<'_>) -> Result<Lun, LunError> {
        if usize::from(number) >= LUNS_MAX {
            return Err(LunError::TooMany { number });
        }
        let place = || (usize::from(number), Box::new(spec.clone()));
        let opened = |source| {
            let (number, spec) = place();
            LunError::File { number, spec, source }
        };
        let options = &spec.options;
        let open_as = OpenAs { read_only: options.read_only, direct: options.direct == Some(true) };
        let block_len_bytes = options.block_len_bytes.unwrap_or(BLOCK_LEN_BYTES);
        let identity = |store: Option<&FileStore>| {
            let identity = identity(spec, store, opening);
            identity.map_err(|source| {
                let (number, spec) = place();
                LunError::Label { number, spec, source }
            })
        };
        let (backend, block_len_bytes, identity) = match &spec.source {
            Source::Memory { len } | Source::Null { len } => {
                let len_bytes = len.0;
                let (number, spec) = place();
                if len_bytes == 0 || !len_bytes.is_multiple_of(u64::from(block_len_bytes)) {
                    return Err(LunError::Size { number, spec, len_bytes, block_len_bytes });
                }
                let inline = match &spec.source {
                    Source::Null { .. } => Lent::Null(Null::new(len_bytes)),
                    _ => {
                        let memory = Memory::zeroed(len_bytes);
                        let mut memory =
                            memory.map_err(|source| LunError::Memory { number, spec, source })?;
                        if options.prealloc {
                            memory.take_all();
                        }
                        Lent::Memory(memory)
                    }
                };
                (Backend::Inline(inline), block_len_bytes, identity(None)?)
            }
            Source::File { path } => {
                let store = FileStore::open_file(path, open_as, block_len_bytes).map_err(opened)?;
                let identity = identity(Some(&store))?;
                (Backend::Blocking(Arc::new(store)), block_len_bytes, identity)
            }
            Source::Block { path } => {
                let store = FileStore::open_device(path, open_as, options.block_len_bytes).map_err(opened)?;
                let (block_len_bytes, identity) = (store.block_len_bytes(), identity(Some(&store))?);
                (Backend::Blocking(Arc::new(store)), block_len_bytes, identity)
            }
        };
        let blocks = backend.len_bytes() / u64::from(block_len_bytes);
        if let Some(rule) = options.faults.iter().find(|rule| rule.last_block() >= Some(blocks)) {
            let (number, spec) = place();
            return Err(LunError::FaultRange { number, spec, rule: *rule, blocks });
        }
        let backend = wrap(backend, options, block_len_bytes);
        let kept = Keeper::open(&spec.source, options, opening.state).map_err(|source| {
            let (number, spec) = place();
            LunError::Reservations { number, spec, source }
        })?;
        let (keeper, reservations) = match kept {
            Some((keeper, kept)) => (Some(keeper), Reservations::restore(kept)),
            None => (None, Reservations::default()),
        };
        Ok(Lun {
            number,
            spec: spec.clone(),
            is_leaving: false,
            block_len_bytes,
            blocks,
            identity,
            contents: if spec.source.is_volatile() { identity::random() } else { 0 },
            read_only: options.read_only,
            settings: Settings { write_cache: backend.has_write_cache(), write_protect: false },
            backend,
            limits: ArtificialLimits::from_options(options),
            attentions: Attentions::default(),
            reservations,
            keeper,
        })
    }

    /// Logical unit number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Specification that the LUN was opened with.
    pub fn spec(&self) -> &LunSpec {
        &self.spec
    }

    /// Kind of source, as in the specification: `memory`, `null`, `file`, `block`.
    pub fn kind(&self) -> &'static str {
        self.spec.source.kind()
    }

    /// Bytes per logical block.
    pub fn block_len_bytes(&self) -> u32 {
        self.block_len_bytes
    }

    /// Number of logical blocks, at least one.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Size in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.blocks * u64::from(self.block_len_bytes)
    }

    /// Serial number and designators.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Description of the store, as the register of nexuses records it.
    pub(super) fn known(&self) -> KnownStore {
        let Identity { serial, naa, .. } = &self.identity;
        let key = nexuses::hash(&[serial.as_str().as_bytes(), naa.as_bytes(), &self.contents.to_be_bytes()]);
        KnownStore { key, block_len_bytes: self.block_len_bytes, blocks: self.blocks }
    }

    /// Returns true if a session may use the LUN: the LUN is not leaving, and its store is the one that the session
    /// knows.
    pub fn is_open_to(&self, nexus: Nexus) -> bool {
        !self.is_leaving && !self.attentions.is_closed_to(nexus)
    }

    /// Returns true if the LUN has another store than the session knows.
    pub fn is_closed_to(&self, nexus: Nexus) -> bool {
        self.attentions.is_closed_to(nexus)
    }

    /// Sets a larger size in blocks after the store has grown, and raises a unit attention for all sessions.
    fn grow(&mut self, blocks: u64) {
        self.blocks = blocks;
        if let Backend::Blocking(store) = &self.backend {
            store.set_len(self.len_bytes());
        }
        self.attentions.raise(Attention::CapacityChanged, |_| true);
    }

    /// Returns true if writes are refused, by option or by an initiator's SWP bit.
    pub fn is_read_only(&self) -> bool {
        self.read_only || self.settings.write_protect
    }

    /// Current mode parameters.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Returns true if every write must reach the medium before its status: an initiator has switched the write cache
    /// off.
    pub fn writes_through(&self) -> bool {
        self.backend.has_write_cache() && !self.settings.write_cache
    }

    /// Changes mode parameters for `nexus`; all other sessions get a unit attention.
    pub fn set(&mut self, nexus: Nexus, settings: Settings) {
        if self.settings != settings {
            self.settings = settings;
            self.attentions.raise(Attention::ModeChanged, |other| other != nexus);
        }
    }

    /// Reservations and registrations.
    pub fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// Reservations and registrations, mutable for RESERVE and RELEASE.
    pub fn reservations_mut(&mut self) -> &mut Reservations {
        &mut self.reservations
    }

    /// Returns true if reservations can persist over a restart of the target (APTPL).
    pub fn can_persist(&self) -> bool {
        self.keeper.is_some()
    }

    /// Executes PERSISTENT RESERVE OUT for `nexus` and raises unit attentions for the affected sessions. State to be
    /// kept must be written before the command is answered; `Lun::settle` puts it in force.
    pub fn persistent_reserve(&mut self, nexus: Nexus, request: Request) -> Result<Reserved, ReserveError> {
        let (change, kept) = self.reservations.out(nexus, request, self.keeper.is_some())?;
        let goes = |(_, attention): &&Notice| *attention == Attention::RegistrationsPreempted;
        let gone = change.notices.iter().filter(goes);
        let preempted = gone.flat_map(|(port, _)| self.reservations.sessions_of(port)).collect();
        let save = kept.zip(self.keeper.as_ref()).map(|((version, kept), keeper)| keeper.save(version, kept));
        if save.is_none() {
            self.tell(change);
        }
        Ok(Reserved { preempted, save })
    }

    /// Completes the write of a change of reservations: a change that was kept comes into force, one that was not is
    /// dropped.
    pub(super) fn settle(&mut self, save: &Save, is_kept: bool) {
        // A LUN that is gone may have had this number.
        if self.keeper.as_ref().is_some_and(|keeper| save.is_of(keeper)) {
            let changes = self.reservations.settle(save.version(), is_kept);
            changes.into_iter().for_each(|change| self.tell(change));
        }
    }

    fn tell(&mut self, Change { nexus, notices }: Change) {
        for (port, attention) in notices {
            let sessions: Vec<Nexus> = self.reservations.sessions_of(&port).collect();
            self.attentions.raise(attention, |other| other != nexus && sessions.contains(&other));
        }
    }

    /// Returns the time at which the next read or write may begin, from `now` on: after its delay, and after its turn
    /// under the rate limit.
    pub fn begins(&mut self, is_read: bool, len_bytes: u64, now: Instant) -> Instant {
        self.limits.begins(is_read, len_bytes, now)
    }

    /// Backend with the bytes of the LUN.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Mutable backend, for writes.
    pub fn backend_mut(&mut self) -> &mut Backend {
        &mut self.backend
    }

    /// Executes LOGICAL UNIT RESET: every session gets a unit attention, the requesting one as well (SAM-5 section
    /// 6.3.3), a RESERVE ends, and mode parameters return to their defaults.
    pub fn reset(&mut self) {
        self.attentions.raise_reset();
        self.reservations.reset();
        self.settings = Settings { write_cache: self.backend.has_write_cache(), write_protect: false };
    }

    /// Pending unit attention of `nexus`, which is cleared by this call.
    pub fn take_attention(&mut self, nexus: Nexus) -> Option<Attention> {
        self.attentions.take(nexus)
    }
}

/// Wraps `backend` in the delays, rate limit and faults of `options`. An inline backend cannot wait, so wrapping makes
/// a blocking store of it; without wrappers it stays inline.
fn wrap(backend: Backend, options: &Options, block_len_bytes: u32) -> Backend {
    if options.faults.is_empty() && options.delays.is_none() && options.rate.is_none() {
        return backend;
    }
    let mut store: Arc<dyn BlockingStore> = match backend {
        Backend::Inline(inline) => Arc::new(Locked::new(inline)),
        Backend::Blocking(store) => store,
    };
    if !options.faults.is_empty() {
        store = Arc::new(FaultStore::new(
            store,
            &options.faults,
            block_len_bytes,
            options.seed.unwrap_or_default(),
        ));
    }
    Backend::Blocking(store)
}

/// Places for the identity of a store, in the order in which they are looked at.
fn places<'a>(source: &'a Source, store: Option<&'a FileStore>, state: &Path) -> Vec<Place<'a>> {
    const SUFFIX: &str = ".farlun-identity";
    match source {
        Source::Memory { .. } | Source::Null { .. } => Vec::new(),
        Source::File { path } => {
            let beside = path.canonicalize().unwrap_or_else(|_| path.clone());
            let kept = in_state(state, &beside, SUFFIX);
            let attribute = store.map(|store| Place::Attribute(store.descriptor(), path));
            attribute
                .into_iter()
                .chain([Place::File(with_suffix(beside, SUFFIX)), Place::File(kept)])
                .collect()
        }
        // The name that is given: `/dev/disk/by-id/…` stays, the device node that it leads to may not.
        Source::Block { path } => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            vec![Place::File(in_state(state, &path, SUFFIX))]
        }
    }
}

/// The names of a store: as they are set, or else as they are kept with it. Memory that is taken anew holds nothing of
/// the bytes that were written before, so it has another identity.
fn identity(spec: &LunSpec, store: Option<&FileStore>, opening: Opening<'_>) -> Result<Identity, LabelError> {
    let Opening { iqn, state, is_look } = opening;
    let Options { serial, naa, .. } = &spec.options;
    let iqn = iqn.to_owned();
    if let (Some(serial), Some(naa)) = (serial, naa) {
        return Ok(Identity { iqn, serial: serial.clone(), naa: *naa });
    }
    let marks = store.map_or(Vec::new(), |store| store_identity::marks(store.descriptor()));
    let label = Label::of(&places(&spec.source, store, state), &marks, is_look)?;
    Ok(Identity { iqn, serial: serial.clone().unwrap_or(label.serial), naa: naa.unwrap_or(label.naa) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IQN: &str = "iqn.2026-11.io.farlun:test";

    fn identity(spec: &str, number: u16, iqn: &str, state: &Path) -> Identity {
        Lun::open(&spec.parse().unwrap(), number, Opening::of(iqn, Some(state))).unwrap().identity().clone()
    }

    #[test]
    fn a_file_keeps_its_identity_under_any_number_and_any_name_of_the_target() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, [0; 4096]).unwrap();
        let of = |spec: &str, number, iqn| {
            let Identity { serial, naa, .. } =
                identity(&spec.replace("DIR", &dir.path().display().to_string()), number, iqn, dir.path());
            (serial, naa)
        };
        let plain = of("file:DIR/disk", 0, IQN);
        assert_eq!(plain, of("file:DIR/./disk,ro", 3, "iqn.2026-11.io.farlun:other"));
        std::fs::write(dir.path().join("second"), [0; 4096]).unwrap();
        let second = of("file:DIR/second", 0, IQN);
        assert!(second.0 != plain.0 && second.1 != plain.1, "the same number of the same target");
        // Each name is set by itself.
        let (serial, naa) = of("file:DIR/disk,serial=mine", 0, IQN);
        assert_eq!((serial.as_str(), naa), ("mine", plain.1));
        let (serial, naa) = of("file:DIR/disk,naa=5000c500a1b2c3d4", 0, IQN);
        assert_eq!((serial, naa.to_string().as_str()), (plain.0, "5000c500a1b2c3d4"));
    }

    #[test]
    fn a_device_has_its_identity_in_the_state_folder_by_the_name_that_is_given() {
        let source = Source::Block { path: "/dev/disk/by-id/a".into() };
        let places = places(&source, None, Path::new("/state"));
        let [Place::File(path)] = &places[..] else { panic!("{places:?}") };
        assert_eq!(path, Path::new("/state/dev!disk!by-id!a.farlun-identity"));
    }

    #[test]
    fn memory_that_is_taken_anew_is_another_one() {
        let dir = tempfile::tempdir().unwrap();
        for spec in ["memory:1MiB", "null:1MiB"] {
            let [one, other] = [(), ()].map(|()| identity(spec, 0, IQN, dir.path()));
            assert!(one.serial != other.serial && one.naa != other.naa, "{spec}");
        }
        let set = identity("memory:1MiB,serial=a,naa=3a1b2c3d4e5f6071", 0, IQN, dir.path());
        assert_eq!((set.serial.as_str(), set.naa.to_string().as_str()), ("a", "3a1b2c3d4e5f6071"));
    }
}
