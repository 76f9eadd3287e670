//! A LUN as a disk: identity, size, and the commands that read and write it.

mod unmap;

use std::rc::Rc;
use std::sync::Arc;

use block::{Buffer, Buffers};
use control::Connections;
use proto::login::{Request as LoginRequest, Session};
use proto::params::Wishes;
use proto::peer_cpu;
use tables::manifest::Trace;
use wire::scsi::{
    Association, BlockForm, BlockLimits, Capacity10, Capacity16, Cdb, DesignatorId, DeviceIdentification,
    LogicalBlockProvisioning, ModeForm, ModeParameters, PageControl, ReportLuns, StandardInquiry,
    UnitSerialNumber, UnmapRange, VpdPage, emit_unmap, page,
};

use crate::client::Client;
use crate::client::opening;
use crate::error::{Error, FLUSH};
use crate::login::establishment::{Destination, random_isid};
use crate::options::Options;
use crate::request::{Body, Request};
use crate::session::lun::identity::{CAPACITY10_BYTES, CAPACITY16_BYTES, INQUIRY_BYTES, Known};
use crate::tables::Tables;
use crate::url::Url;
use unmap::blocks_of_unmap;

pub use unmap::UnmapLimits;

/// A session with a LUN of known identity and size.
pub struct Disk {
    client: Client,
    identity: Identity,
    block_len_bytes: u32,
    blocks: u64,
    form: BlockForm,
    transfer_max_bytes: u32,
}

/// Identity of a LUN, from INQUIRY.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Peripheral device type; 0 is a disk.
    pub device_type: u8,
    /// T10 vendor identification.
    pub vendor: String,
    /// Product identification.
    pub product: String,
    /// Product revision.
    pub revision: String,
    /// Unit serial number (VPD page 80h), if supported.
    pub serial: Option<String>,
}

/// Maximum transfer length for a target that reports no limit.
const TRANSFER_DEFAULT_BYTES: u32 = 1 << 20;

impl Disk {
    /// Logs in and identifies the LUN of `url`.
    pub fn open(url: &Url, options: &Options) -> Result<Disk, Error> {
        Disk::open_with(url, options, 0, &Tables::create(options.trace.as_deref(), options.sampling)?)
    }

    /// Opens several sessions, which share the tables that they record.
    pub fn open_many(url: &Url, options: &Options, sessions: usize) -> Result<Vec<Disk>, Error> {
        let tables = Tables::create(options.trace.as_deref(), options.sampling)?;
        (0..sessions).map(|number| Disk::open_with(url, options, number, &tables)).collect()
    }

    fn open_with(url: &Url, options: &Options, number: usize, tables: &Rc<Tables>) -> Result<Disk, Error> {
        let (target, lun) = url.unit()?;
        let session = Session::Normal { target_name: target.to_owned() };
        let mut client = opening::session(&destination(session, url, options)?, number, options, tables)?;
        client.set_lun(lun);
        let inquired = inquire(&mut client, None)?;
        let inquiry = StandardInquiry::parse(&inquired).map_err(|_| odd("INQUIRY"))?;
        if inquiry.qualifier != 0 || !is_disk(inquiry.device_type) {
            client.set_lun(0);
            let disks = disks(&mut client)?;
            let target = Url { lun: None, ..url.clone() }.to_string();
            return Err(match inquiry.qualifier {
                0 => Error::NoDisk { lun, device_type: inquiry.device_type, target, disks },
                _ => Error::NoLun { lun, target, disks },
            });
        }
        let serial = optional(inquire(&mut client, Some(page::UNIT_SERIAL_NUMBER)))?;
        let known_serial = serial.as_deref().map(Known::serial);
        let serial = serial.and_then(|data| UnitSerialNumber::parse(&data).ok());
        let limits = optional(inquire(&mut client, Some(page::BLOCK_LIMITS)))?;
        let limits = limits.and_then(|data| BlockLimits::parse(&data).ok());
        let Capacity { blocks, block_len_bytes, form, known } = capacity(&mut client)?;
        // INQUIRY never reports a unit attention, so another command comes first.
        let known = [known, Known::inquiry(&inquired)].into_iter().chain(known_serial);
        client.set_known(known.collect());
        let stated = limits.map_or(0, |limits| limits.transfer_max);
        let stated_bytes = match stated.saturating_mul(block_len_bytes) {
            0 => TRANSFER_DEFAULT_BYTES,
            bytes => bytes,
        };
        let form_max_blocks = if form == BlockForm::Ten { u32::from(u16::MAX) } else { u32::MAX };
        let transfer_max_bytes = stated_bytes.min(form_max_blocks.saturating_mul(block_len_bytes));
        let text = |field: &str| field.trim().to_owned();
        let identity = Identity {
            device_type: inquiry.device_type,
            vendor: text(&inquiry.vendor),
            product: text(&inquiry.product),
            revision: text(&inquiry.revision),
            serial: serial.map(|serial| text(&serial.serial)),
        };
        Ok(Disk { client, identity, block_len_bytes, blocks, form, transfer_max_bytes })
    }

    /// Identity of the LUN.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Logical block length in bytes.
    pub fn block_len_bytes(&self) -> u32 {
        self.block_len_bytes
    }

    /// Size in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.blocks * u64::from(self.block_len_bytes)
    }

    /// Maximum transfer length of one command, in bytes.
    pub fn transfer_max_bytes(&self) -> u32 {
        self.transfer_max_bytes
    }

    /// The session, for requests.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// The session, for statistics.
    pub fn session(&self) -> &Client {
        &self.client
    }

    /// Builder of requests for the LUN, which a workload may keep.
    pub fn geometry(&self) -> Geometry {
        let transfer_max_bytes = self.transfer_max_bytes;
        Geometry { transfer_max_bytes, ..Geometry::of(self.block_len_bytes, self.form) }
    }

    /// NAA designator of the LUN (VPD page 83h) in hexadecimal digits, if any.
    pub fn naa(&mut self) -> Result<Option<String>, Error> {
        let page = optional(inquire_all(&mut self.client, page::DEVICE_IDENTIFICATION))?;
        let page = page.and_then(|data| DeviceIdentification::parse(&data).ok());
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let of_lun = page.into_iter().flat_map(|page| page.designators);
        let mut of_lun = of_lun.filter(|designator| designator.association == Association::LogicalUnit);
        Ok(of_lun.find_map(|designator| match designator.id {
            DesignatorId::Naa(bytes) => Some(hex(&bytes)),
            _ => None,
        }))
    }

    /// The session, and the builder of requests for the LUN.
    pub(crate) fn into_parts(self) -> (Client, Geometry) {
        let geometry = self.geometry();
        (self.client, geometry)
    }

    /// Returns true if the LUN supports 16-byte commands.
    pub(crate) fn has_form_16(&self) -> bool {
        self.form == BlockForm::Sixteen
    }

    /// Reads the WP bit of the LUN by MODE SENSE.
    pub fn is_write_protected(&mut self) -> Result<bool, Error> {
        is_write_protected(&mut self.client)
    }

    /// Limits of UNMAP; `None` of a LUN that does not support it.
    pub fn unmap_limits(&mut self) -> Result<Option<UnmapLimits>, Error> {
        let limits = optional(inquire(&mut self.client, Some(page::BLOCK_LIMITS)))?;
        let limits = limits.and_then(|data| BlockLimits::parse(&data).ok()).unwrap_or_default();
        let provisioning = optional(inquire(&mut self.client, Some(page::LOGICAL_BLOCK_PROVISIONING)))?;
        let provisioning = provisioning.and_then(|data| LogicalBlockProvisioning::parse(&data).ok());
        // Targets of older standards lack the Logical Block Provisioning page.
        let has_unmap = provisioning.is_none_or(|page| page.unmap);
        let is_supported = has_unmap && limits.unmap_max > 0 && limits.unmap_descriptors_max > 0;
        Ok(is_supported.then(|| UnmapLimits {
            block_len_bytes: self.block_len_bytes,
            blocks_max: blocks_of_unmap(limits.unmap_max, self.block_len_bytes),
            granularity_blocks: limits.unmap_granularity.max(1),
            alignment_blocks: limits.unmap_alignment.unwrap_or(0),
        }))
    }

    /// Flushes the volatile cache of the LUN.
    pub fn synchronize(&mut self) -> Result<(), Error> {
        self.client.command(self.geometry().flush(), FLUSH).map(drop)
    }

    /// Reads one block.
    pub fn read_block(&mut self, offset_bytes: u64) -> Result<Vec<u8>, Error> {
        let buffer = self.client.buffers().take(self.block_len_bytes as usize);
        self.client.command(self.geometry().read(offset_bytes, buffer), "READ")
    }

    /// Writes one block.
    pub fn write_block(&mut self, offset_bytes: u64, block: &[u8]) -> Result<(), Error> {
        let mut buffer = self.client.buffers().take(block.len());
        buffer.copy_from_slice(block);
        self.client.command(self.geometry().write(offset_bytes, Arc::new(buffer)), "WRITE").map(drop)
    }

    /// CPU time of a farlun target's process, in nanoseconds; `None` for other targets.
    pub fn target_cpu_ns(&mut self) -> Result<Option<u64>, Error> {
        if self.client.peer_software().is_none() {
            return Ok(None);
        }
        Ok(peer_cpu::read_answer(&self.client.text(peer_cpu::request())?))
    }

    /// Logs out; see [`Client::close`].
    pub fn close(self) -> Result<Option<Trace>, Error> {
        self.client.close()
    }
}

/// Builder of requests for a LUN.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    block_len_bytes: u32,
    form: BlockForm,
    /// Maximum transfer length.
    transfer_max_bytes: u32,
}

impl Geometry {
    pub(crate) fn of(block_len_bytes: u32, form: BlockForm) -> Geometry {
        Geometry { block_len_bytes, form, transfer_max_bytes: u32::MAX }
    }

    /// Length of a request of about `bytes` bytes: whole blocks, at least one, at most the maximum transfer length.
    pub(crate) fn whole_blocks(self, bytes: u64) -> u32 {
        let most = u64::from(self.transfer_max_bytes);
        let block = u64::from(self.block_len_bytes);
        (bytes.min(most) / block * block).max(block) as u32
    }

    /// Builds a READ into `buffer`. Offset and length are multiples of the block length.
    pub fn read(self, offset_bytes: u64, buffer: Buffer) -> Request {
        self.read_with(offset_bytes, buffer, false)
    }

    /// Builds a READ, with FUA if `fua` is set.
    pub(crate) fn read_with(self, offset_bytes: u64, buffer: Buffer, fua: bool) -> Request {
        let (lba, blocks) = self.blocks(offset_bytes, buffer.len());
        let cdb = Cdb::Read { form: self.form, lba, blocks, dpo: false, fua };
        Request { cdb, body: Body::Read(buffer), offset_bytes, tag: 0 }
    }

    /// Builds a WRITE of `buffer`.
    pub fn write(self, offset_bytes: u64, buffer: Arc<Buffer>) -> Request {
        self.write_with(offset_bytes, buffer, false)
    }

    /// Builds a WRITE, with FUA if `fua` is set.
    pub(crate) fn write_with(self, offset_bytes: u64, buffer: Arc<Buffer>, fua: bool) -> Request {
        let (lba, blocks) = self.blocks(offset_bytes, buffer.len());
        let cdb = Cdb::Write { form: self.form, lba, blocks, dpo: false, fua };
        Request { cdb, body: Body::Write(buffer), offset_bytes, tag: 0 }
    }

    /// Builds a SYNCHRONIZE CACHE, which makes all writes durable that completed before it was issued.
    pub fn flush(self) -> Request {
        let cdb = Cdb::SynchronizeCache { form: BlockForm::Ten, lba: 0, blocks: 0, immed: false };
        Request { cdb, body: Body::None, offset_bytes: 0, tag: 0 }
    }

    /// Builds a WRITE SAME of `block`. `blocks` is at most MAXIMUM WRITE SAME LENGTH; `unmap` is the UNMAP bit.
    pub(crate) fn write_same(
        self,
        offset_bytes: u64,
        blocks: u32,
        unmap: bool,
        block: Arc<Buffer>,
    ) -> Request {
        let lba = offset_bytes / u64::from(self.block_len_bytes);
        let cdb = Cdb::WriteSame { form: self.form, lba, blocks, unmap, no_data: false };
        Request { cdb, body: Body::Write(block), offset_bytes, tag: 0 }
    }

    /// Builds an UNMAP of one range.
    pub(crate) fn unmap(self, offset_bytes: u64, blocks: u32, buffers: &Buffers) -> Request {
        let lba = offset_bytes / u64::from(self.block_len_bytes);
        let list = emit_unmap(&[UnmapRange { lba, blocks }]);
        let mut buffer = buffers.take(list.len());
        buffer.copy_from_slice(&list);
        let cdb = Cdb::Unmap { list_len: list.len() as u16 };
        Request { cdb, body: Body::Write(Arc::new(buffer)), offset_bytes, tag: 0 }
    }

    /// Length of a block in bytes.
    pub(crate) fn block_len_bytes(self) -> u32 {
        self.block_len_bytes
    }

    fn blocks(self, offset_bytes: u64, len: usize) -> (u64, u32) {
        let block = u64::from(self.block_len_bytes);
        debug_assert!(offset_bytes.is_multiple_of(block) && (len as u64).is_multiple_of(block));
        (offset_bytes / block, (len as u64 / block) as u32)
    }
}

impl Request {
    /// Name of the command, for messages.
    pub fn name(&self) -> &'static str {
        match self.cdb {
            Cdb::Read { .. } => "READ",
            Cdb::Write { .. } => "WRITE",
            Cdb::SynchronizeCache { .. } => FLUSH,
            Cdb::Unmap { .. } => "UNMAP",
            Cdb::WriteSame { .. } => "WRITE SAME",
            Cdb::Inquiry { .. } => "INQUIRY",
            Cdb::ReadCapacity16 { .. } => "READ CAPACITY (16)",
            Cdb::ReadCapacity10 => "READ CAPACITY (10)",
            _ => "command",
        }
    }
}

/// Address and login parameters of a URL.
pub(crate) fn destination(session: Session, url: &Url, options: &Options) -> Result<Destination, Error> {
    // An automatic number of connections can grow only as far as MaxConnections was negotiated at the login.
    let max_connections = options.connections.unwrap_or(Connections::MOST);
    let request = LoginRequest {
        session,
        initiator_name: options.near.name.as_str().to_owned(),
        initiator_alias: None,
        isid: random_isid(),
        cid: 0,
        wishes: Wishes { max_connections, ..options.wishes.clone() },
        security: options.chap.security(url)?,
        private_key: true,
    };
    let connections = options.connections.unwrap_or(1);
    Ok(Destination { host: url.host.clone(), port: url.port, request, connections })
}

/// Treats a failed or unreadable command for an optional feature as `None`; other errors end the session.
pub(crate) fn optional<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Command { .. } | Error::Malformed { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn odd(command: &'static str) -> Error {
    Error::Malformed { command }
}

pub(crate) fn ask(client: &mut Client, cdb: Cdb, len: usize, name: &'static str) -> Result<Vec<u8>, Error> {
    let body = Body::Read(client.buffers().take(len));
    client.command(Request { cdb, body, offset_bytes: 0, tag: 0 }, name)
}

pub(crate) fn inquire(client: &mut Client, page: Option<u8>) -> Result<Vec<u8>, Error> {
    let cdb = Cdb::Inquiry { page, allocation_len: INQUIRY_BYTES as u16 };
    ask(client, cdb, INQUIRY_BYTES, "INQUIRY")
}

/// A VPD page of any length. A page longer than the usual allocation length is requested again, with its own length.
fn inquire_all(client: &mut Client, page: u8) -> Result<Vec<u8>, Error> {
    let data = inquire(client, Some(page))?;
    let Some(len) = longer_page(&data) else { return Ok(data) };
    let cdb = Cdb::Inquiry { page: Some(page), allocation_len: len };
    ask(client, cdb, len.into(), "INQUIRY")
}

/// Length that a VPD page announces (SPC-5 section 7.7.1) if it is longer than `data`, limited to an INQUIRY's
/// allocation length.
fn longer_page(data: &[u8]) -> Option<u16> {
    let &[_, _, high, low, ..] = data else { return None };
    let len = u16::from_be_bytes([high, low]).saturating_add(PAGE_HEADER_BYTES);
    (usize::from(len) > data.len()).then_some(len)
}

/// Bytes of a VPD page header, which the page length excludes.
const PAGE_HEADER_BYTES: u16 = 4;

/// Reads the WP bit in the header of the LUN's mode parameters; a LUN without mode parameters is writable.
pub(crate) fn is_write_protected(client: &mut Client) -> Result<bool, Error> {
    let header = optional(ask_mode(client, ALL_PAGES))?;
    Ok(header.and_then(|data| ModeParameters::is_write_protected(ModeForm::Six, &data)).unwrap_or(false))
}

pub(crate) fn ask_mode(client: &mut Client, page: u8) -> Result<Vec<u8>, Error> {
    const LEN: usize = 252;
    let cdb = Cdb::ModeSense {
        form: ModeForm::Six,
        dbd: true,
        llbaa: false,
        page_control: PageControl::Current,
        page,
        subpage: 0,
        allocation_len: LEN as u16,
    };
    ask(client, cdb, LEN, "MODE SENSE")
}

pub(crate) fn report_luns(client: &mut Client) -> Result<Vec<u16>, Error> {
    let len = 16 << 10;
    let cdb = Cdb::ReportLuns { select: 0, allocation_len: len };
    let data = ask(client, cdb, len as usize, "REPORT LUNS")?;
    let report = ReportLuns::parse(&data).map_err(|_| odd("REPORT LUNS"))?;
    Ok(report.luns.iter().filter_map(|lun| lun.number()).collect())
}

/// Returns true for direct-access block devices, simplified and zoned ones included (SPC-5 table 147).
pub(crate) fn is_disk(device_type: u8) -> bool {
    matches!(device_type, 0x00 | 0x0e | 0x14)
}

/// LUNs of a target that are disks; only the first `LUNS_LOOKED_AT` are examined.
fn disks(client: &mut Client) -> Result<Vec<u16>, Error> {
    let mut disks = Vec::new();
    for lun in report_luns(client)?.into_iter().take(LUNS_LOOKED_AT) {
        client.set_lun(lun);
        let inquiry = optional(inquire(client, None))?;
        let inquiry = inquiry.and_then(|data| StandardInquiry::parse(&data).ok());
        if inquiry.is_some_and(|inquiry| inquiry.qualifier == 0 && is_disk(inquiry.device_type)) {
            disks.push(lun);
        }
    }
    Ok(disks)
}

/// Mode page code of all pages. Some targets support no single page.
pub(crate) const ALL_PAGES: u8 = 0x3f;

/// Maximum number of LUNs that an error message examines: each takes a round trip.
const LUNS_LOOKED_AT: usize = 16;

/// Size of a LUN.
pub(crate) struct Capacity {
    pub(crate) blocks: u64,
    pub(crate) block_len_bytes: u32,
    /// Form of the commands that reach all blocks.
    form: BlockForm,
    known: Known,
}

/// READ CAPACITY (16) is tried first: targets that lack it have no more blocks than READ CAPACITY (10) can report.
pub(crate) fn capacity(client: &mut Client) -> Result<Capacity, Error> {
    capacity_by(|cdb, len, name| ask(client, cdb, len, name))
}

fn capacity_by(
    mut ask: impl FnMut(Cdb, usize, &'static str) -> Result<Vec<u8>, Error>,
) -> Result<Capacity, Error> {
    let (name, len) = ("READ CAPACITY (16)", CAPACITY16_BYTES);
    match ask(Cdb::ReadCapacity16 { allocation_len: len as u32 }, len, name) {
        Ok(data) => {
            let capacity = Capacity16::parse(&data).map_err(|_| odd(name))?;
            let known = Known::capacity16(&data);
            return sane(capacity.last_lba, capacity.block_len, BlockForm::Sixteen, known);
        }
        Err(Error::Command { failure, .. }) if failure.is_illegal_request() => {}
        Err(error) => return Err(error),
    }
    let name = "READ CAPACITY (10)";
    let data = ask(Cdb::ReadCapacity10, CAPACITY10_BYTES, name)?;
    let capacity = Capacity10::parse(&data).map_err(|_| odd(name))?;
    if capacity.last_lba == u32::MAX {
        return Err(odd(name));
    }
    sane(capacity.last_lba.into(), capacity.block_len, BlockForm::Ten, Known::capacity10(&data))
}

fn sane(last_lba: u64, block_len_bytes: u32, form: BlockForm, known: Known) -> Result<Capacity, Error> {
    let blocks = last_lba.checked_add(1);
    let fits = blocks.is_some_and(|n| n.checked_mul(block_len_bytes.into()).is_some());
    if !fits || !block_len_bytes.is_power_of_two() || !(512..=1 << 20).contains(&block_len_bytes) {
        return Err(odd("READ CAPACITY"));
    }
    Ok(Capacity { blocks: last_lba + 1, block_len_bytes, form, known })
}

#[cfg(test)]
mod tests;
