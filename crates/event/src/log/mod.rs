//! Text of logs, messages and run files: removal of secrets, rate limit on log lines.

pub(crate) mod command_line;
pub(crate) mod line_rate;
