//! One value of a document, and its readers, which name the expected type if it is another.

use event::{BitRate, Bytes};

/// A value as written.
#[derive(Clone, PartialEq, Debug)]
pub enum Scalar {
    /// In quotes.
    Text(String),
    /// A whole number, in any base.
    Integer(i64),
    /// A number with a point.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
}

impl Scalar {
    /// The value without quotes, as it is shown in messages.
    pub fn label(&self) -> String {
        match self {
            Scalar::Text(text) => text.trim().to_owned(),
            Scalar::Integer(number) => number.to_string(),
            Scalar::Float(number) => number.to_string(),
            Scalar::Bool(value) => value.to_string(),
        }
    }

    /// The value as an error shows it: as it was written.
    fn found(&self) -> String {
        match self {
            // `5.0`, which is no whole number.
            Scalar::Float(number) => format!("{number:?}"),
            other => other.label(),
        }
    }

    /// A text that is not empty.
    pub fn text(&self) -> Result<&str, String> {
        match self {
            Scalar::Text(text) if !text.trim().is_empty() => Ok(text.trim()),
            Scalar::Text(_) => Err("the text is empty".to_owned()),
            other => Err(format!("expected a text in quotes, found {}", other.found())),
        }
    }

    /// `true` or `false`.
    pub fn bool(&self) -> Result<bool, String> {
        match self {
            Scalar::Bool(value) => Ok(*value),
            other => Err(format!("expected true or false, found '{}'", other.found())),
        }
    }

    /// A whole number within the limits, which the error shows.
    pub fn number(&self, least: u32, most: u32) -> Result<u32, String> {
        let wrong = || format!("expected a whole number from {least} to {most}, found '{}'", self.found());
        match self {
            Scalar::Integer(number) => {
                u32::try_from(*number).ok().filter(|n| (least..=most).contains(n)).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    /// A size with its unit; a bare whole number means bytes.
    pub fn bytes(&self) -> Result<u64, String> {
        match self {
            Scalar::Integer(number) => {
                u64::try_from(*number).map_err(|_| format!("a size cannot be {number}"))
            }
            other => Bytes::parse(&other.label()).map_err(|e| e.to_string()),
        }
    }

    /// A rate with its unit.
    pub fn rate(&self) -> Result<BitRate, String> {
        self.label().parse().map_err(|e: event::ParseError| e.to_string())
    }

    /// One of several words.
    pub fn word<T: Copy>(&self, known: &[(&str, T)]) -> Result<T, String> {
        let found = self.text()?;
        match known.iter().find(|(name, _)| *name == found) {
            Some((_, value)) => Ok(*value),
            None => {
                let names = known.iter().map(|(name, _)| *name);
                Err(format!("unknown value '{found}'{}", crate::instead(found, names)))
            }
        }
    }
}
