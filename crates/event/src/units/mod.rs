//! Units: instants, byte counts, bit rates, delays.

pub(crate) mod instant;
pub(crate) mod quantity;
