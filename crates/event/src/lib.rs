//! Units of time and data, ids, one struct per traced event, and command lines without secrets.
//!
//! Plain data: no clock is read and nothing is written. `net` reads the clock, `tables` writes the tables whose rows
//! these structs are, `analysis` reads them back. Add a traced event or a field of one in `trace/`, a unit in `units/`,
//! a rule for text that is shown or logged in `log/`.

mod log;
mod trace;
mod units;

pub use log::command_line::{shown_json, shown_text, shown_url, shown_words};
pub use log::line_rate::{LineRate, PeerAddress};
pub use trace::congestion::{CongestionChoice, CongestionDecision, LossReason, MayChange};
pub use trace::cut::{Cut, Look};
pub use trace::io::{Io, Op};
pub use trace::kernel::{KernelEvent, KernelPoint};
pub use trace::login::Login;
pub use trace::packet::{Direction, Fate, Packet, Tcp};
pub use trace::request::{
    FarTimes, LayerTimes, Layers, NearTimes, PduKind, PduSeen, RequestId, TcpTimes, Way,
};
pub use trace::sink::Sink;
pub use trace::socket::{CongestionState, Host, SocketSample};
pub use trace::steered::{Decided, Granted, Steered};
pub use trace::tapped::Tapped;
pub use trace::window::{WindowKind, WindowNotice};
pub use units::instant::Instant;
pub use units::quantity::{BitRate, Bytes, ParseError, format_delay, parse_delay};
