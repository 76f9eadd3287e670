//! Losses of a path: random loss told from congestion loss.

pub(crate) mod rounds;
