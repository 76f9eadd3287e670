//! Devices of the faces beside the iSCSI target: a specification, opened behind the device interface.

use std::rc::Rc;
use std::sync::Arc;

use block::{
    BlockDevice, BlockingStore, FaultStore, FileStore, Lent, LentDevice, Locked, Memory, Null, OpenAs, Pool,
    PooledDevice,
};
use iscsi_target::lun::{LunSpec, Options, Source};

/// Threads that make the calls of a device that blocks. One client alone has half of them.
const WORKERS: usize = 16;
/// Bytes per block, where neither the specification nor the device has another.
const BLOCK_BYTES: u32 = 512;

/// An open device.
pub(crate) struct OpenDevice {
    /// The device.
    pub(crate) device: Box<dyn BlockDevice>,
    /// Threads that make its calls, if they block.
    pub(crate) pool: Option<Rc<Pool>>,
}

/// Opens a device. The signals of the end are taken over before: threads inherit their mask.
pub(crate) fn open(spec: &LunSpec) -> anyhow::Result<OpenDevice> {
    let LunSpec { source, options } = spec;
    let read_only = options.read_only;
    let block_bytes = options.block_len_bytes.unwrap_or(BLOCK_BYTES);
    let open_as = OpenAs { read_only, direct: options.direct == Some(true) };
    let lent = match source {
        Source::Memory { len } => {
            let mut memory = Memory::zeroed(whole_blocks(len.0, block_bytes)?)?;
            if options.prealloc {
                memory.take_all();
            }
            Lent::Memory(memory)
        }
        Source::Null { len } => Lent::Null(Null::new(whole_blocks(len.0, block_bytes)?)),
        Source::File { path } => {
            let store = FileStore::open_file(path, open_as, block_bytes)?;
            return pooled(Arc::new(store), block_bytes, options);
        }
        Source::Block { path } => {
            let store = FileStore::open_device(path, open_as, options.block_len_bytes)?;
            let block_bytes = store.block_len_bytes();
            return pooled(Arc::new(store), block_bytes, options);
        }
    };
    if options.faults.is_empty() {
        let device = Box::new(LentDevice::from_lent(lent, block_bytes, read_only));
        return Ok(OpenDevice { device, pool: None });
    }
    pooled(Arc::new(Locked::new(lent)), block_bytes, options)
}

/// Option of a specification that only an iSCSI LUN has.
pub(crate) fn lun_option(options: &Options) -> Option<&'static str> {
    let set = [
        ("serial", options.serial.is_some()),
        ("naa", options.naa.is_some()),
        ("reservations", options.reservations.is_some()),
        ("delay", !options.delays.is_none()),
        ("rate", options.rate.is_some()),
    ];
    set.into_iter().find(|(_, is_set)| *is_set).map(|(name, _)| name)
}

fn pooled(store: Arc<dyn BlockingStore>, block_bytes: u32, options: &Options) -> anyhow::Result<OpenDevice> {
    let pool = Pool::start(WORKERS)?;
    let seed = options.seed.unwrap_or_default();
    let store: Arc<dyn BlockingStore> = match options.faults.is_empty() {
        true => store,
        false => Arc::new(FaultStore::new(store, &options.faults, block_bytes, seed)),
    };
    let device = Box::new(PooledDevice::from_store(store, block_bytes, options.read_only, &pool));
    Ok(OpenDevice { device, pool: Some(pool) })
}

fn whole_blocks(len_bytes: u64, block_bytes: u32) -> anyhow::Result<u64> {
    if len_bytes == 0 || !len_bytes.is_multiple_of(block_bytes.into()) {
        anyhow::bail!(
            "{len_bytes} bytes is not a positive multiple of the block size of {block_bytes} bytes; choose another size"
        );
    }
    Ok(len_bytes)
}
