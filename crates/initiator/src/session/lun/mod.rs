//! The LUN of a session: its identity, the re-validation after a change, and its command limit.

pub(crate) mod command_limit;
pub(crate) mod identity;
mod revalidation;
pub(crate) mod state;
