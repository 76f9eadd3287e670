//! Exports and limits of a server, and their check.

use std::collections::BTreeSet;

use wire::nbd::{STRING_MAX, transmission_flag};

use super::super::PAYLOAD_MAX_BYTES;
use super::super::request::ExportFacts;
use super::super::violation::NbdViolation;

/// Transmission flags without an implementation here.
const UNSUPPORTED_FLAGS: u16 = !0x0fff | transmission_flag::SEND_RESIZE;

/// An export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NbdExport {
    /// Name of the export, at most [`wire::nbd::STRING_MAX`] bytes without NUL, given once.
    pub name: String,
    /// A text for a human, at most [`wire::nbd::STRING_MAX`] bytes without NUL; may be empty.
    pub description: String,
    /// Size, flags and block sizes. HAS_FLAGS is always announced, SEND_DF with structured replies only.
    pub facts: ExportFacts,
    /// True if NBD_CMD_BLOCK_STATUS is served (`base:allocation`).
    pub has_allocation: bool,
}

/// Answer to NBD_OPT_STARTTLS, and need of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsPolicy {
    /// The server has no TLS: NBD_REP_ERR_UNSUP.
    Unsupported,
    /// The server allows none: NBD_REP_ERR_POLICY.
    Forbidden,
    /// The client may begin TLS.
    Offered,
    /// Every other option but NBD_OPT_ABORT is refused before TLS.
    Required,
}

/// Exports and limits of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NbdServerConfig {
    /// The exports.
    pub exports: Vec<NbdExport>,
    /// Index in `exports` of the one that an empty name means.
    pub default_export: Option<usize>,
    /// TLS.
    pub tls: TlsPolicy,
    /// True if NBD_OPT_LIST names the exports.
    pub lists: bool,
    /// Limit of pending requests and unsent replies together.
    pub requests_max: usize,
    /// Limit of the bytes that pending requests and unsent replies hold: data of reads and writes until they are
    /// released, block status replies, headers. It is checked before a message is taken, so one message may exceed it.
    pub queue_max_bytes: u64,
}

/// A configuration that a server cannot serve.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NbdConfigError {
    /// No request or no byte may wait.
    #[error("{limit} of the NBD server is 0, expected at least 1; raise it")]
    NoQueue {
        /// The limit.
        limit: &'static str,
    },
    /// A default export that is not there.
    #[error("default export has index {index} of {exports} exports; name one of them, or none")]
    DefaultExport {
        /// Index found.
        index: usize,
        /// Number of exports.
        exports: usize,
    },
    /// A name or a description that the protocol cannot carry.
    #[error(
        "{text} of NBD export {index} has {found_bytes} bytes, expected at most {max} without NUL; change it",
        max = STRING_MAX
    )]
    Text {
        /// Name or description.
        text: &'static str,
        /// Index of the export.
        index: usize,
        /// Its length.
        found_bytes: usize,
    },
    /// A name that two exports have.
    #[error("NBD exports {name:?} share one name, expected one export a name; rename one of them")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// Block sizes that no server may announce.
    #[error("NBD export {name:?} has {violation}; change its block sizes")]
    BlockSizes {
        /// Name of the export.
        name: String,
        /// The rule that they break.
        violation: NbdViolation,
    },
    /// A preferred block size above the longest payload.
    #[error(
        "NBD export {name:?} has a preferred block size of {found_bytes} bytes, expected at most {max}; lower it",
        max = PAYLOAD_MAX_BYTES
    )]
    PreferredBlock {
        /// Name of the export.
        name: String,
        /// Size found.
        found_bytes: u32,
    },
    /// Transmission flags without an implementation, or SEND_FAST_ZERO without SEND_WRITE_ZEROES.
    #[error(
        "NBD export {name:?} has the transmission flags {flags:#06x}, expected flags of this server and \
         SEND_WRITE_ZEROES with SEND_FAST_ZERO; clear the others"
    )]
    Flags {
        /// Name of the export.
        name: String,
        /// All flags.
        flags: u16,
    },
}

impl NbdServerConfig {
    /// Checks limits, names, flags and block sizes.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), NbdConfigError> {
        if self.requests_max == 0 {
            return Err(NbdConfigError::NoQueue { limit: "requests_max" });
        }
        if self.queue_max_bytes == 0 {
            return Err(NbdConfigError::NoQueue { limit: "queue_max_bytes" });
        }
        let exports = self.exports.len();
        if let Some(index) = self.default_export.filter(|index| *index >= exports) {
            return Err(NbdConfigError::DefaultExport { index, exports });
        }
        let mut names = BTreeSet::new();
        for (index, export) in self.exports.iter().enumerate() {
            export.check(index)?;
            if !names.insert(&export.name) {
                return Err(NbdConfigError::DuplicateName { name: export.name.clone() });
            }
        }
        Ok(())
    }
}

impl NbdExport {
    fn check(&self, index: usize) -> Result<(), NbdConfigError> {
        for (text, value) in [("name", &self.name), ("description", &self.description)] {
            if value.len() > STRING_MAX || value.contains('\0') {
                return Err(NbdConfigError::Text { text, index, found_bytes: value.len() });
            }
        }
        let (name, ExportFacts { flags, blocks, .. }) = (self.name.clone(), self.facts);
        if let Err(violation) = blocks.check() {
            return Err(NbdConfigError::BlockSizes { name, violation });
        }
        if blocks.preferred > PAYLOAD_MAX_BYTES {
            return Err(NbdConfigError::PreferredBlock { name, found_bytes: blocks.preferred });
        }
        let is_fast_alone = flags
            & (transmission_flag::SEND_FAST_ZERO | transmission_flag::SEND_WRITE_ZEROES)
            == transmission_flag::SEND_FAST_ZERO;
        if flags & UNSUPPORTED_FLAGS != 0 || is_fast_alone {
            return Err(NbdConfigError::Flags { name, flags });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::request::NbdBlockSizes;
    use super::*;

    fn config() -> NbdServerConfig {
        let export = |name: &str| NbdExport {
            name: name.to_owned(),
            description: String::new(),
            facts: ExportFacts { size_bytes: 1 << 20, flags: 0x0dff, blocks: NbdBlockSizes::DEFAULT },
            has_allocation: true,
        };
        NbdServerConfig {
            exports: vec![export("a"), export("b")],
            default_export: Some(1),
            tls: TlsPolicy::Unsupported,
            lists: true,
            requests_max: 1,
            queue_max_bytes: 1,
        }
    }

    #[test]
    fn each_rule_has_its_error() {
        assert_eq!(config().check(), Ok(()));
        let error = |change: fn(&mut NbdServerConfig)| {
            let mut config = config();
            change(&mut config);
            config.check().expect_err("a broken rule").to_string()
        };
        let table: [(fn(&mut NbdServerConfig), &str); 11] = [
            (|config| config.requests_max = 0, "requests_max of the NBD server is 0"),
            (|config| config.queue_max_bytes = 0, "queue_max_bytes of the NBD server is 0"),
            (|config| config.default_export = Some(2), "default export has index 2 of 2 exports"),
            (|config| config.exports[1].name = "n".repeat(4097), "name of NBD export 1 has 4097 bytes"),
            (|config| config.exports[0].name = "\0".to_owned(), "name of NBD export 0 has 1 bytes"),
            (
                |config| config.exports[0].description = "d".repeat(4097),
                "description of NBD export 0 has 4097",
            ),
            (|config| config.exports[1].name = "a".to_owned(), "NBD exports \"a\" share one name"),
            (
                |config| config.exports[0].facts.blocks.minimum = 3,
                "NBD export \"a\" has block sizes of 3, 4096",
            ),
            (
                |config| {
                    let blocks = &mut config.exports[0].facts.blocks;
                    (blocks.preferred, blocks.maximum) = (1 << 26, 1 << 26);
                },
                "NBD export \"a\" has a preferred block size of 67108864 bytes",
            ),
            (
                |config| config.exports[1].facts.flags = 0x0200,
                "NBD export \"b\" has the transmission flags 0x0200",
            ),
            (
                |config| config.exports[1].facts.flags = 0x0800,
                "NBD export \"b\" has the transmission flags 0x0800",
            ),
        ];
        for (change, expected) in table {
            let found = error(change);
            assert!(found.starts_with(expected) && found.contains("; "), "{found}");
        }
    }
}
