//! Helpers of the e2e tests.
