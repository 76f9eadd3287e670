//! Losses of a path: random loss told from congestion loss.

pub(crate) mod control;
pub(crate) mod episode;
pub(crate) mod floor;
pub(crate) mod looks;
pub(crate) mod rounds;
pub(crate) mod route;
pub(crate) mod share;
pub(crate) mod trial;
