//! Captures on another host: `message` is the protocol, `sender` the capturing end, `serve` accepts senders, `keeper`
//! writes the packets of one of them.

mod keeper;
pub mod message;
mod sender;
mod serve;

pub(crate) use sender::Sender;
pub use sender::Sent;
pub use serve::{Recorder, RecorderSettings, Totals};
