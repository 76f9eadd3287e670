//! One file per table: its columns, and the field of an `event` row in each.

mod io;
mod kernel;
mod layers;
mod packets;
mod pdus;
mod sessions;
mod sockets;
mod steered;

pub use io::Ios;
pub use kernel::KernelPoints;
pub use layers::LayerColumns;
pub use packets::Packets;
pub use pdus::Pdus;
pub use sessions::Logins;
pub use sockets::Sockets;
pub use steered::{DecidedColumns, NoticeColumns, SteeredColumns};
