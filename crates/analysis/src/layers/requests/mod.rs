//! Single requests: their stages, and the choice of examples.

pub(super) mod stages;
pub(super) mod survey;
