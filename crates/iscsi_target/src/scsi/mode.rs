//! MODE SENSE and MODE SELECT (6) and (10): SPC-4 sections 6.11–6.14, SBC-4 section 6.5.
//!
//! WCE can be changed where there is a write cache, and SWP; until the target is started again. Nothing can
//! be saved.

use wire::scsi::{BlockDescriptor, DataError, ModeForm, ModePage, ModeParameters, PageControl, Sense};

use super::outcome::{Outcome, whole};
use super::transfer::flush;
use crate::lun::{Lun, Nexus, Settings};

/// Fields of a MODE SENSE command; see `wire::scsi::Cdb::ModeSense`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) form: ModeForm,
    pub(super) dbd: bool,
    pub(super) llbaa: bool,
    pub(super) page_control: PageControl,
    pub(super) page: u8,
    pub(super) subpage: u8,
}

/// Subpage code for a page with all its subpages; no page here has subpages.
const ALL_SUBPAGES: u8 = 0xff;

/// MODE SENSE data in full length.
pub(super) fn sense(lun: &Lun, wanted: Wanted) -> Result<Vec<u8>, Sense> {
    if wanted.page_control == PageControl::Saved {
        return Err(Sense::SAVING_NOT_SUPPORTED);
    }
    if !matches!(wanted.subpage, 0 | ALL_SUBPAGES) {
        return Err(Sense::invalid_field(3, None));
    }
    let mut pages = values(lun, wanted.page_control);
    if wanted.page != ModePage::ALL {
        pages.retain(|page| page.page() == wanted.page);
        if pages.is_empty() {
            return Err(Sense::invalid_field(2, Some(5)));
        }
    }
    let data = ModeParameters {
        write_protected: lun.is_read_only(),
        dpo_fua: true,
        block_descriptor: (!wanted.dbd).then(|| block_descriptor(lun, wanted.llbaa)),
        pages,
    };
    Ok(data.emit(wanted.form))
}

/// The parameter list that a MODE SELECT brings; see `wire::scsi::Cdb::ModeSelect`.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) form: ModeForm,
    pub(super) page_format: bool,
    pub(super) save: bool,
    pub(super) len: u16,
}

/// Executes MODE SELECT. All fields must have their current values except changeable ones; the list takes effect as a
/// whole.
pub(super) fn select(lun: &mut Lun, nexus: Nexus, list: List, data: Option<&[u8]>) -> Result<Outcome, Sense> {
    if !list.page_format {
        return Err(Sense::invalid_field(1, Some(4)));
    }
    if list.save {
        return Err(Sense::invalid_field(1, Some(0)));
    }
    if list.len == 0 {
        return Ok(Outcome::Good);
    }
    let Some(data) = whole(data, list.len.into())? else {
        return Ok(Outcome::Parameters { len_bytes: list.len.into() });
    };
    let wanted = ModeParameters::parse_list(list.form, data).map_err(|error| match error {
        DataError::Truncated { .. } => Sense::PARAMETER_LIST_LENGTH,
        DataError::Value { at, .. } => Sense::invalid_parameter(at as u16, None),
    })?;
    if let Some(found) = wanted.block_descriptor {
        let ours = block_descriptor(lun, true);
        // No blocks means that many blocks as there are.
        let same_size = matches!(found.blocks, 0 | 0xffff_ffff) || found.blocks == ours.blocks;
        if found.block_len != ours.block_len || !same_size {
            return Err(Sense::INVALID_FIELD_IN_PARAMETER_LIST);
        }
    }
    let mut settings = lun.settings();
    for page in &wanted.pages {
        match *page {
            ModePage::Caching { write_cache, .. } => settings.write_cache = write_cache,
            ModePage::Control { write_protect, .. } => settings.write_protect = write_protect,
            _ => {}
        }
        // Pages of the LUN with the new settings: a difference is in a field that cannot be changed.
        let possible = settings.write_cache <= lun.backend().has_write_cache();
        if !possible || !pages(lun, settings).contains(page) {
            return Err(Sense::INVALID_FIELD_IN_PARAMETER_LIST);
        }
    }
    let loses_cache = lun.settings().write_cache && !settings.write_cache;
    lun.set(nexus, settings);
    // Writes that were acknowledged from the cache must reach the medium.
    Ok(if loses_cache { flush(lun) } else { Outcome::Good })
}

/// Mode pages with the values that the page control field selects.
fn values(lun: &Lun, page_control: PageControl) -> Vec<ModePage> {
    let cache = lun.backend().has_write_cache();
    match page_control {
        PageControl::Current | PageControl::Saved => pages(lun, lun.settings()),
        PageControl::Default => pages(lun, Settings { write_cache: cache, write_protect: false }),
        PageControl::Changeable => vec![
            ModePage::ErrorRecovery { reallocate_writes: false, reallocate_reads: false },
            ModePage::Caching { write_cache: cache, read_cache_off: false },
            ModePage::Control {
                descriptor_sense: false,
                queue_algorithm: 0,
                write_protect: true,
                task_aborted_status: false,
            },
            ModePage::InformationalExceptions { disabled: false, method: 0 },
        ],
    }
}

/// Mode pages in ascending order, as the all-pages request needs them.
fn pages(lun: &Lun, settings: Settings) -> Vec<ModePage> {
    vec![
        ModePage::ErrorRecovery { reallocate_writes: false, reallocate_reads: false },
        ModePage::Caching {
            write_cache: lun.backend().has_write_cache() && settings.write_cache,
            read_cache_off: false,
        },
        ModePage::Control {
            descriptor_sense: false,
            // Unrestricted reordering: workers finish in any order, and initiators order by waiting.
            queue_algorithm: 1,
            write_protect: settings.write_protect,
            task_aborted_status: false,
        },
        ModePage::InformationalExceptions { disabled: true, method: 0 },
    ]
}

/// A long descriptor only where it is allowed and a short one could not hold the size.
fn block_descriptor(lun: &Lun, long_allowed: bool) -> BlockDescriptor {
    let long = long_allowed && lun.blocks() > u64::from(u32::MAX);
    BlockDescriptor { blocks: lun.blocks(), block_len: lun.block_len_bytes(), long }
}
