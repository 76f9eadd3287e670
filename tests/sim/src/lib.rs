//! Helpers of the sim tests.
