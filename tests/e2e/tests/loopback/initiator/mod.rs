//! Our initiator against targets that break the rules, and after sessions that were lost.

mod misbehaving_target;
mod recovery;
