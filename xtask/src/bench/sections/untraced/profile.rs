//! Reader of callgrind's profile: `--dump-instr=yes`, nothing compressed.
//!
//! The format is described in valgrind's manual, "Callgrind Format Specification".

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Executions of each instruction of `program`, by its address in the program's file. The cost of called functions is
/// not included.
pub(super) fn instructions(text: &str, program: &Path) -> Result<HashMap<u64, u64>> {
    let (mut counted, mut is_ours, mut is_call) = (HashMap::new(), false, false);
    for line in text.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            is_ours = Path::new(object) == program;
        } else if line.starts_with("positions:") && line != "positions: instr line" {
            bail!("callgrind counted by `{line}`, expected `positions: instr line`");
        } else if line.starts_with("calls=") {
            // The next line holds the cost of the call, which the callee has too.
            is_call = true;
        } else if let Some(position) = line.strip_prefix("0x")
            && !std::mem::take(&mut is_call)
            && is_ours
        {
            let (address, count) = cost(position)
                .with_context(|| format!("callgrind wrote `{line}`, expected address, line and count"))?;
            *counted.entry(address).or_default() += count;
        }
    }
    if counted.is_empty() {
        bail!("callgrind counted nothing of {}", program.display());
    }
    Ok(counted)
}

/// Address and count of a line without its `0x`.
fn cost(position: &str) -> Option<(u64, u64)> {
    let mut words = position.split_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let _line = words.next()?;
    Some((address, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: &str = "\
version: 1
positions: instr line
events: Ir
summary: 99

ob=/bin/farlun
fl=src/a.rs
fn=one
0x10 7 3
fi=src/b.rs
0x12 9 4
cob=/lib/libc.so
cfi=???
cfn=memcpy
calls=2 0x900 0
0x14 9 1000
0x14 9 5

ob=/lib/libc.so
fn=memcpy
0x10 0 1000

ob=/bin/farlun
fn=one'2
0x10 7 1
";

    #[test]
    fn own_instructions_are_told_from_calls_and_from_libraries() {
        let counted = instructions(COUNTS, Path::new("/bin/farlun")).unwrap();
        assert_eq!(counted, HashMap::from([(0x10, 4), (0x12, 4), (0x14, 5)]));
    }

    #[test]
    fn what_is_not_counted_by_instruction_is_refused() {
        let check = |text: &str, words: &str| {
            let error = instructions(text, Path::new("/bin/farlun")).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        check(&COUNTS.replace("instr line", "line"), "expected `positions: instr line`");
        check(&COUNTS.replace("/bin/", "/opt/"), "counted nothing of /bin/farlun");
        check(&COUNTS.replace("0x12 9 4", "0x12 9"), "wrote `0x12 9`");
    }
}
