//! Dissection of packet captures: packets in, TCP connections, iSCSI PDUs and commands out.
//!
//! [`Dissector`] takes packets one by one, puts them in the order of their stamps and leaves out copies (`packets`). It
//! reports each segment, PDU and command as a row to a [`RowSink`], and
//! totals of the whole capture as a [`Dissection`]. Memory is bounded: connections, out-of-order segments,
//! unacknowledged segments and outstanding commands share one budget. No input is trusted, and no input causes a panic.
//!
//! Nothing is judged here: `analysis` names the limiter of a connection. `docs/reference/analyze.md` defines every figure.

mod budget;
mod connection;
mod connections;
mod dissector;
mod events;
mod figures;
mod iscsi;
mod output;
mod packets;
mod placement;
mod rows;
mod serial;
mod summary;
mod tcp;

pub use dissector::Dissector;
pub use events::event::{ConnectionEvent, SenseCodes};
pub use figures::delivery::DeliverySummary;
pub use figures::distribution::Durations;
pub use figures::level::LevelSummary;
pub use figures::slow_start::SlowStartSummary;
pub use figures::time_use::TimeUse;
pub use figures::trains::TrainSummary;
pub use iscsi::commands::count::Count;
pub use iscsi::commands::summary::CommandSummary;
pub use iscsi::commands::window::CommandWindowSummary;
pub use iscsi::login::negotiation::{LoginParameters, Negotiation};
pub use packets::census::PacketCount;
pub use packets::copies::CopyCounts;
pub use packets::file::{FileEnd, FileError, PacketReader, read_packets};
pub use packets::first::FirstPackets;
pub use packets::interfaces::CaptureInterface;
pub use packets::order::OrderSummary;
pub use rows::{CommandRow, DirectionKey, PacketRow, PduRow, RowSink};
pub use summary::confidence::Confidence;
pub use summary::connection::ConnectionSummary;
pub use summary::direction::DirectionSummary;
pub use summary::dissection::{CaptureTotals, Dissection};
pub use summary::events::{EventSummary, OutstandingSummary};
pub use summary::framing::FramingSummary;
pub use summary::iscsi::IscsiSummary;
pub use summary::merge::shared_connections;
pub use tcp::black_hole::BlackHole;
pub use tcp::kind::{SegmentKind, SegmentKindCounts};
