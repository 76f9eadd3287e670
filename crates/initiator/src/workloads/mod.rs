//! Workloads: a single request, bulk transfers between a LUN and a file, and synthetic load.

pub(crate) mod bulk;
pub(crate) mod early_end;
pub(crate) mod load;
pub(crate) mod single_request;
