//! Captures that are kept on another host: `message` is what the two say, `sender` the capturing one, `serve` accepts
//! senders, `keeper` writes what one of them sends.

mod keeper;
pub mod message;
mod sender;
mod serve;

pub(crate) use sender::Sender;
pub use sender::Sent;
pub use serve::{Recorder, RecorderSettings, Totals};
