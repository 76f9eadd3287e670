//! The `farlun` binary: one file per subcommand in `command/`.
fn main() {}
