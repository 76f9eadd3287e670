//! The policies by their names.

use core::fmt;
use core::str::FromStr;

use crate::policy::Policy;
use crate::policy::auto::Auto;
use crate::policy::none::Fixed;
use crate::policy::pace::Pace;
use crate::policy::study::Study;

/// Which policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// Nothing follows the path: fixed blocks, a fixed amount outstanding, no pacing.
    None,
    /// The control study's: one block outstanding, as large as the sender's window.
    Study,
    /// As `none`, and what is sent is paced by the delivered rate.
    Pace,
    /// Ours: everything follows the path.
    #[default]
    Auto,
}

impl Choice {
    /// All of them.
    pub const ALL: [Choice; 4] = [Choice::None, Choice::Study, Choice::Pace, Choice::Auto];

    /// The name that plans and users see.
    pub const fn name(self) -> &'static str {
        match self {
            Choice::None => "none",
            Choice::Study => "study",
            Choice::Pace => "pace",
            Choice::Auto => "auto",
        }
    }

    /// A policy of this kind, which knows nothing of its path yet.
    pub fn policy(self) -> Box<dyn Policy> {
        match self {
            Choice::None => Box::new(Fixed::new()),
            Choice::Study => Box::new(Study::new()),
            Choice::Pace => Box::new(Pace::new()),
            Choice::Auto => Box::new(Auto::new()),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        Choice::ALL
            .into_iter()
            .find(|choice| choice.name() == text)
            .ok_or_else(|| format!("'{text}' is not a policy: expected none, study, pace or auto"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for choice in Choice::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        assert!("bdp".parse::<Choice>().unwrap_err().contains("none, study, pace or auto"));
    }
}
