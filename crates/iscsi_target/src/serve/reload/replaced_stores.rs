//! Changed stores of LUNs: stores that have grown, and stores that replace others which sessions still know under the
//! number.

use crate::lun::{Lun, LunSpec, Luns, Port, Served, Source};
use crate::serve::log;

/// Sessions that a message names; of others it says how many there are.
const NAMED_MAX: usize = 8;
/// The place of a session that has ended without a logout.
pub(crate) const NOT_CONNECTED: &str = "not connected";

/// A LUN that has grown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grown {
    /// LUN number.
    pub lun: u16,
    /// Size before, in bytes.
    pub before_bytes: u64,
    /// Size now.
    pub bytes: u64,
}

/// A LUN that is closed to sessions that know another store in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CutOff {
    /// LUN number.
    pub lun: u16,
    /// The sessions: initiator, ISID and address.
    pub sessions: Vec<String>,
}

/// LUNs that have grown, and messages on LUNs that cannot be measured.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) grown: Vec<(Grown, u64)>,
    pub(crate) failed: Vec<String>,
}

/// Measures the stores of LUNs that stay; may block.
///
/// # Errors
/// A store has shrunk, or its size is no multiple of the block size.
pub(crate) fn measure<'a>(luns: impl Iterator<Item = (u16, &'a Served)>) -> Result<Measured, String> {
    let mut measured = Measured::default();
    for (number, served) in luns {
        let Some(store) = &served.store else { continue };
        let bytes = match store.measure() {
            Ok(bytes) => bytes,
            Err(error) => {
                measured.failed.push(format!("LUN {number} keeps its size: {error}"));
                continue;
            }
        };
        match size(number, &served.spec, (served.blocks, served.block_len_bytes), bytes)? {
            Some(blocks) if blocks > served.blocks => {
                let block = u64::from(served.block_len_bytes);
                let (before_bytes, bytes) = (served.blocks * block, blocks * block);
                measured.grown.push((Grown { lun: number, before_bytes, bytes }, blocks));
            }
            _ => {}
        }
    }
    Ok(measured)
}

/// Blocks of a store of so many bytes that had `blocks`; `None` if nothing has changed.
fn size(
    number: u16,
    spec: &LunSpec,
    (blocks, block_len_bytes): (u64, u32),
    bytes: u64,
) -> Result<Option<u64>, String> {
    let block = u64::from(block_len_bytes);
    let before_bytes = blocks * block;
    if bytes < before_bytes {
        return Err(format!(
            "LUN {number} ({spec}) has shrunk from {before_bytes} to {bytes} bytes while it is served, and sessions would \
             lose what was behind; let it grow again, or take it out, reload, and put it in again"
        ));
    }
    // A device has the size it has; a file was cut somewhere, or is still growing.
    if matches!(spec.source, Source::File { .. }) && !bytes.is_multiple_of(block) {
        return Err(format!(
            "LUN {number} ({spec}) has {bytes} bytes, which is not a multiple of its block size of {block} bytes; round it \
             up (truncate -s %{block}) and reload"
        ));
    }
    Ok(Some(bytes / block).filter(|now| *now != blocks))
}

/// Error of a reload that replaces a LUN which these sessions know; `away` of the sessions are not connected.
pub(crate) fn refusal(lun: &Lun, sessions: &[String], away: usize) -> String {
    let text = format!(
        "LUN {} ({}) is another disk than the one that these sessions know under its number, and they would write into it: \
         {}; have them log out, give the LUN another number, or set replace = \"force\" with it, which closes the LUN to them \
         until they log out",
        lun.number(),
        lun.spec(),
        list(sessions)
    );
    match away {
        0 => text,
        _ => format!(
            "{text}; {away} of {} not connected: a session whose host or process is gone cannot log out, and replace = \
             \"force\" is safe for it",
            sessions.len()
        ),
    }
}

/// Says which LUNs are closed to sessions of an earlier process.
pub(crate) fn tell_shut_out(luns: &Luns) {
    for lun in luns.iter() {
        let sessions: Vec<String> =
            luns.shut_out(lun).iter().map(|stranger| name(&stranger.port, NOT_CONNECTED)).collect();
        if !sessions.is_empty() {
            log(format_args!(
                "LUN {} ({}) is another disk than the one that these sessions know under its number; it is closed to them \
                 until they log out: {}",
                lun.number(),
                lun.spec(),
                list(&sessions)
            ));
        }
    }
}

/// Name of a session in messages.
pub(crate) fn name(port: &Port, place: &str) -> String {
    let isid: String = port.isid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{} (ISID {isid}, {place})", port.name)
}

/// The first of them, and how many more there are.
fn list(sessions: &[String]) -> String {
    let named = sessions.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match sessions.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named}, and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lun::Opening;

    #[test]
    fn sizes() {
        let file: LunSpec = "file:/srv/disk".parse().unwrap();
        let device: LunSpec = "block:/dev/sdb".parse().unwrap();
        let of = |spec: &LunSpec, bytes| size(3, spec, (100, 512), bytes);
        assert_eq!(of(&file, 51_200), Ok(None));
        assert_eq!(of(&file, 102_400), Ok(Some(200)));
        assert_eq!(of(&device, 102_401), Ok(Some(200)), "what makes no whole block is not served");
        assert_eq!(of(&device, 51_201), Ok(None));
        let text = of(&file, 102_401).unwrap_err();
        assert!(
            text.contains("LUN 3 (file:/srv/disk) has 102401 bytes") && text.contains("-s %512"),
            "{text}"
        );
        for (spec, bytes) in [(&file, 51_199), (&device, 51_199), (&device, 0)] {
            let text = of(spec, bytes).unwrap_err();
            assert!(text.contains(&format!("has shrunk from 51200 to {bytes} bytes")), "{text}");
        }
    }

    #[test]
    fn sessions_that_are_not_connected_are_counted() {
        let lun = Lun::open(&"memory:1MiB".parse().unwrap(), 3, Opening::of("iqn.t", None)).unwrap();
        let names = ["one".to_owned(), "two".to_owned()];
        let said = |away| refusal(&lun, &names, away);
        assert!(!said(0).contains("not connected") && said(0).contains("one, two; have them log out"));
        assert!(said(1).contains("1 of 2 not connected: a session whose host or process is gone"));
    }

    #[test]
    fn many_sessions_are_counted() {
        let names = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>();
        assert_eq!(list(&names(2)), "0, 1");
        assert_eq!(list(&names(10)), "0, 1, 2, 3, 4, 5, 6, 7, and 2 more");
        let port = Port { name: "iqn.a".to_owned(), isid: [0x80, 0, 0, 0, 1, 2], user: None };
        assert_eq!(name(&port, NOT_CONNECTED), "iqn.a (ISID 800000000102, not connected)");
    }
}
