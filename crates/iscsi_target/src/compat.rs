//! Ways of sending that other targets had or have, for experiments that compare them. The defaults are the good ones.
//!
//! The turnaround study of 2005 measured six variants of two targets; `docs/reference/target.md` says which switches
//! make which.

use std::fmt;
use std::str::FromStr;

/// Transmission of responses on the target's connections. Negotiated parameters do not depend on this setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compat {
    /// Nagle's algorithm is on: a small packet waits until the one before it is acknowledged.
    pub nagle: bool,
    /// The status of a read comes in a SCSI Response of its own, which has a send call of its own.
    pub separate_status: bool,
    /// The SCSI Response is in the same send call as the data before it.
    pub joined_send: bool,
}

/// The words of a list, in the order in which they are shown.
const WORDS: [&str; 3] = ["nagle", "separate-status", "joined-send"];

impl Compat {
    /// Returns true if a SCSI Response PDU is sent in a segment of its own.
    pub(crate) fn sends_alone(self) -> bool {
        self.separate_status && !self.joined_send
    }

    /// The same, unless it means nothing.
    pub fn checked(self) -> Result<Compat, String> {
        if self.joined_send && !self.separate_status {
            return Err(
                "joined-send joins the data and a SCSI Response of its own, which there is only with \
                        separate-status; add that, or leave joined-send out"
                    .to_owned(),
            );
        }
        Ok(self)
    }
}

impl FromStr for Compat {
    type Err = String;

    fn from_str(s: &str) -> Result<Compat, String> {
        let mut compat = Compat::default();
        for word in s.split(',') {
            match word.trim() {
                "nagle" => compat.nagle = true,
                "separate-status" => compat.separate_status = true,
                "joined-send" => compat.joined_send = true,
                _ => return Err(format!("'{word}' is none of {}", WORDS.join(", "))),
            }
        }
        compat.checked()
    }
}

impl fmt::Display for Compat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let switches = [self.nagle, self.separate_status, self.joined_send];
        let words: Vec<&str> =
            WORDS.into_iter().zip(switches).filter(|(_, is_on)| *is_on).map(|(word, _)| word).collect();
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_shown() {
        for list in ["nagle", "separate-status", "nagle,separate-status", "nagle,separate-status,joined-send"]
        {
            assert_eq!(list.parse::<Compat>().map(|compat| compat.to_string()), Ok(list.to_owned()));
        }
        let good = Compat::default();
        assert_eq!(good.to_string(), "");
        assert!(!good.nagle && !good.separate_status && !good.sends_alone());
        assert_eq!(
            "joined-send, separate-status".parse(),
            Ok(Compat { nagle: false, separate_status: true, joined_send: true })
        );
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for (list, said) in [
            ("", "'' is none of nagle"),
            ("nagel", "'nagel' is none of"),
            ("nagle,joined-send", "only with separate-status"),
        ] {
            let error = list.parse::<Compat>().expect_err(list);
            assert!(error.contains(said), "{list}: {error}");
        }
    }
}
