//! Types of columns, and the visitor that walks over the columns of a table.
//!
//! There are three: unsigned 64-bit (times and counters), unsigned 32-bit (sizes and small counts), and words (a few
//! fixed strings, stored as UTF-8 with a dictionary). None is nullable.

use std::convert::Infallible;
use std::sync::Arc;

use event::{
    CongestionChoice, CongestionState, Direction, Fate, Host, KernelEvent, LossReason, MayChange, Op,
    PduKind, Way, WindowKind,
};
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};

/// One row of a table, and the layout of its columns.
pub trait Row: Copy + Send + 'static {
    /// The table's name: its files are `NAME*.parquet`.
    const TABLE: &'static str;
    /// The table as plain columns of equal length.
    type Columns: Default + Send;

    /// Appends this row to the columns.
    fn push(&self, columns: &mut Self::Columns);

    /// Shows every column, in file order, to `visitor`.
    fn visit<V: Visit>(columns: &mut Self::Columns, visitor: &mut V) -> Result<(), V::Error>;
}

/// Walks over the columns of a table, one call per column in file order.
pub trait Visit {
    /// Error of a visitor.
    type Error;

    /// A column of unsigned 64-bit numbers.
    fn u64(&mut self, name: &'static str, column: &mut Vec<u64>) -> Result<(), Self::Error>;

    /// A column of unsigned 32-bit numbers.
    fn u32(&mut self, name: &'static str, column: &mut Vec<u32>) -> Result<(), Self::Error>;

    /// A column of words.
    fn word<W: Word>(&mut self, name: &'static str, column: &mut Vec<W>) -> Result<(), Self::Error>;
}

/// A value that a table spells out as one of a few fixed words.
pub trait Word: Copy + 'static {
    /// All values of the type.
    const ALL: &'static [Self];

    /// The word in the file.
    fn word(self) -> &'static str;
}

impl Word for Direction {
    const ALL: &'static [Direction] = &[Direction::NearToFar, Direction::FarToNear];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for Fate {
    const ALL: &'static [Fate] = &[
        Fate::Delivered,
        Fate::QueueFull,
        Fate::Lost,
        Fate::Policed,
        Fate::LineDown,
        Fate::Duplicate,
        Fate::NoBuffer,
        Fate::DeviceRefused,
        Fate::Seen,
    ];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for Host {
    const ALL: &'static [Host] = &[Host::Near, Host::Far];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for CongestionState {
    const ALL: &'static [CongestionState] = &[
        CongestionState::Open,
        CongestionState::Disorder,
        CongestionState::Cwr,
        CongestionState::Recovery,
        CongestionState::Loss,
    ];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for CongestionChoice {
    const ALL: &'static [CongestionChoice] = &[CongestionChoice::Hosts, CongestionChoice::RateBased];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for LossReason {
    const ALL: &'static [LossReason] = &[
        LossReason::None,
        LossReason::RandomLoss,
        LossReason::Remembered,
        LossReason::CongestionLoss,
        LossReason::NoGain,
        LossReason::MoreLoss,
        LossReason::NotPermitted,
    ];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for MayChange {
    const ALL: &'static [MayChange] =
        &[MayChange::Unasked, MayChange::Yes, MayChange::Explicit, MayChange::Locked, MayChange::Denied];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for Op {
    const ALL: &'static [Op] = &[Op::Read, Op::Write];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for Way {
    const ALL: &'static [Way] = &[Way::Out, Way::In];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for PduKind {
    const ALL: &'static [PduKind] = &[
        PduKind::Command,
        PduKind::Response,
        PduKind::DataIn,
        PduKind::DataOut,
        PduKind::R2t,
        PduKind::Management,
        PduKind::Nop,
        PduKind::Text,
        PduKind::Logout,
        PduKind::Async,
        PduKind::Reject,
        PduKind::Other,
    ];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for KernelEvent {
    const ALL: &'static [KernelEvent] = &[
        KernelEvent::Received,
        KernelEvent::State,
        KernelEvent::Retransmitted,
        KernelEvent::BlockIssued,
        KernelEvent::BlockCompleted,
    ];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for Option<Host> {
    const ALL: &'static [Option<Host>] = &[None, Some(Host::Near), Some(Host::Far)];

    fn word(self) -> &'static str {
        self.map_or("none", Host::name)
    }
}

impl Word for Option<Op> {
    const ALL: &'static [Option<Op>] = &[None, Some(Op::Read), Some(Op::Write)];

    fn word(self) -> &'static str {
        self.map_or("none", Op::name)
    }
}

impl Word for Option<CongestionState> {
    const ALL: &'static [Option<CongestionState>] = &[
        None,
        Some(CongestionState::Open),
        Some(CongestionState::Disorder),
        Some(CongestionState::Cwr),
        Some(CongestionState::Recovery),
        Some(CongestionState::Loss),
    ];

    fn word(self) -> &'static str {
        self.map_or("none", CongestionState::name)
    }
}

impl Word for Option<WindowKind> {
    const ALL: &'static [Option<WindowKind>] = &[
        None,
        Some(WindowKind::CutHere),
        Some(WindowKind::CutByLoss),
        Some(WindowKind::CutByTimeout),
        Some(WindowKind::Limit),
    ];

    fn word(self) -> &'static str {
        self.map_or("none", WindowKind::name)
    }
}

/// Storage type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    U64,
    U32,
    Word,
}

impl Kind {
    /// Name in error messages and docs/reference/tables.md.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::U64 => "uint64",
            Kind::U32 => "uint32",
            Kind::Word => "string",
        }
    }
}

/// The columns of a table, in file order.
pub(super) fn columns<R: Row>() -> Vec<(&'static str, Kind)> {
    let mut list = List(Vec::new());
    match R::visit(&mut R::Columns::default(), &mut list) {
        Ok(()) => list.0,
        Err(never) => match never {},
    }
}

/// The Parquet schema of a table.
pub(super) fn parquet_schema<R: Row>() -> Result<TypePtr, ParquetError> {
    let mut fields = Vec::new();
    for (name, kind) in columns::<R>() {
        let unsigned = |bit_width| LogicalType::integer(bit_width, false);
        let (physical, logical) = match kind {
            Kind::U64 => (PhysicalType::INT64, unsigned(64)),
            Kind::U32 => (PhysicalType::INT32, unsigned(32)),
            Kind::Word => (PhysicalType::BYTE_ARRAY, LogicalType::String),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(logical))
            .build()?;
        fields.push(Arc::new(field));
    }
    Ok(Arc::new(Type::group_type_builder(R::TABLE).with_fields(fields).build()?))
}

struct List(Vec<(&'static str, Kind)>);

impl Visit for List {
    type Error = Infallible;

    fn u64(&mut self, name: &'static str, _: &mut Vec<u64>) -> Result<(), Infallible> {
        self.0.push((name, Kind::U64));
        Ok(())
    }

    fn u32(&mut self, name: &'static str, _: &mut Vec<u32>) -> Result<(), Infallible> {
        self.0.push((name, Kind::U32));
        Ok(())
    }

    fn word<W: Word>(&mut self, name: &'static str, _: &mut Vec<W>) -> Result<(), Infallible> {
        self.0.push((name, Kind::Word));
        Ok(())
    }
}
