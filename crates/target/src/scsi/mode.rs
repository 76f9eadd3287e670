//! MODE SENSE (6) and (10): SPC-4 sections 6.13 and 6.14, SBC-4 section 6.5.
//!
//! Nothing can be changed or saved: the changeable values are all zero, saved values are refused. There is
//! no MODE SELECT.

use wire::scsi::{BlockDescriptor, ModeForm, ModePage, ModeParameters, PageControl, Sense};

use crate::lun::Lun;

/// What a MODE SENSE command asks for; see `wire::scsi::Cdb::ModeSense`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) form: ModeForm,
    pub(super) dbd: bool,
    pub(super) llbaa: bool,
    pub(super) page_control: PageControl,
    pub(super) page: u8,
    pub(super) subpage: u8,
}

/// The subpage code that asks for a page with all its subpages; none here has any.
const ALL_SUBPAGES: u8 = 0xff;

/// All the data that is wanted.
pub(super) fn sense(lun: &Lun, wanted: Wanted) -> Result<Vec<u8>, Sense> {
    if wanted.page_control == PageControl::Saved {
        return Err(Sense::SAVING_NOT_SUPPORTED);
    }
    if !matches!(wanted.subpage, 0 | ALL_SUBPAGES) {
        return Err(Sense::invalid_field(3, None));
    }
    let mut pages = pages(lun);
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
    Ok(data.emit(wanted.form, wanted.page_control))
}

/// In ascending order, as the all-pages request wants them.
fn pages(lun: &Lun) -> Vec<ModePage> {
    vec![
        ModePage::ErrorRecovery { reallocate_writes: false, reallocate_reads: false },
        ModePage::Caching { write_cache: lun.backend().has_write_cache(), read_cache_off: false },
        ModePage::Control {
            descriptor_sense: false,
            // Unrestricted reordering: workers finish in any order, and initiators order by waiting.
            queue_algorithm: 1,
            write_protect: false,
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
