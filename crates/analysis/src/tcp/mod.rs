//! TCP connections of a load or of this machine: windows, window cuts, congestion states, live rates and limiters.

pub mod cuts;
pub mod live;
pub(crate) mod losses;
pub mod sockets;
pub(crate) mod states;
pub mod windows;
