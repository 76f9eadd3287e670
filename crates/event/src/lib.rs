//! Units of time and data, ids, one struct per traced event, and command lines without secrets.
//!
//! Everything here is plain data: no clock is read and nothing is written. `net` reads the clock,
//! `tables` writes the tables whose rows these structs are, `analysis` reads them back.

mod command_line;
mod congestion;
mod cut;
mod io;
mod kernel;
mod line_rate;
mod login;
mod packet;
mod request;
mod sink;
mod socket;
mod steered;
mod tapped;
mod time;
mod unit;
mod window;

pub use command_line::{shown_json, shown_text, shown_url, shown_words};
pub use congestion::{CongestionChoice, CongestionDecision, LossReason, MayChange};
pub use cut::{Cut, Look};
pub use io::{Io, Op};
pub use kernel::{KernelEvent, KernelPoint};
pub use line_rate::{LineRate, PeerAddress};
pub use login::Login;
pub use packet::{Direction, Fate, Packet, Tcp};
pub use request::{FarTimes, LayerTimes, Layers, NearTimes, PduKind, PduSeen, RequestId, TcpTimes, Way};
pub use sink::Sink;
pub use socket::{CongestionState, Host, SocketSample};
pub use steered::{Decided, Granted, Steered};
pub use tapped::Tapped;
pub use time::Instant;
pub use unit::{BitRate, Bytes, ParseError, format_delay, parse_delay};
pub use window::{WindowKind, WindowNotice};
