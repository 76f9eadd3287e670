//! Namespaces of the kernel: of the network, of process IDs, of users.

mod network;
pub mod pid;
pub mod user;

pub(crate) use network::enter_raw;
pub use network::{Namespace, members};
