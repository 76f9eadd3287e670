//! Questions asked of a run: tables in, plain results out.
