//! What each fuzz target runs, callable from plain tests.
