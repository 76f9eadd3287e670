//! Plans: what to run, what to expect of it, and the run directory that comes of it.
