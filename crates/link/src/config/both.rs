//! A value for both directions of a path, or one for each: `8ms`, `near:2ms,far:40ms`.

use core::str::FromStr;

/// A setting for each direction of a path; `None` where it is not configured.
#[derive(Clone, PartialEq, Debug)]
pub struct Both<T> {
    /// For packets sent by near.
    pub near: Option<T>,
    /// For packets sent by far.
    pub far: Option<T>,
}

impl<T> Default for Both<T> {
    fn default() -> Both<T> {
        Both { near: None, far: None }
    }
}

impl<T> Both<T> {
    /// The value of one direction.
    pub const fn of(&self, near: bool) -> Option<&T> {
        if near { self.near.as_ref() } else { self.far.as_ref() }
    }

    /// True if `holds` is true for every configured value.
    pub fn all(&self, holds: impl Fn(&T) -> bool) -> bool {
        self.near.iter().chain(&self.far).all(holds)
    }
}

const NEAR: &str = "near:";
const FAR: &str = "far:";

impl<T: FromStr<Err: ToString> + Clone> FromStr for Both<T> {
    type Err = String;

    fn from_str(s: &str) -> Result<Both<T>, String> {
        let read = |text: &str| text.parse::<T>().map_err(|error| error.to_string());
        if !s.starts_with(NEAR) && !s.starts_with(FAR) {
            let value = read(s)?;
            return Ok(Both { near: Some(value.clone()), far: Some(value) });
        }
        let mut both = Both::default();
        for part in parts(s) {
            let (side, value) = match part.strip_prefix(NEAR) {
                Some(value) => (&mut both.near, value),
                None => (&mut both.far, part.strip_prefix(FAR).unwrap_or(part)),
            };
            if side.replace(read(value)?).is_some() {
                return Err(format!("'{s}' names one side twice, expected a value for near and one for far"));
            }
        }
        Ok(both)
    }
}

/// Splits before `near:` and `far:`; a value may itself have commas.
fn parts(s: &str) -> Vec<&str> {
    let cut = [",near:", ",far:"].iter().filter_map(|word| s.find(word)).min();
    match cut {
        Some(at) => [vec![&s[..at]], parts(&s[at + 1..])].concat(),
        None => vec![s],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_or_one_for_each() {
        for (text, near, far) in [
            ("7", Some(7), Some(7)),
            ("near:1,far:2", Some(1), Some(2)),
            ("far:2,near:1", Some(1), Some(2)),
            ("far:9", None, Some(9)),
        ] {
            assert_eq!(text.parse::<Both<u32>>(), Ok(Both { near, far }), "{text}");
        }
        for text in ["", "near:", "near:1,near:2", "near:1,2", "up:1"] {
            assert!(text.parse::<Both<u32>>().is_err(), "{text}");
        }
        let lists: Both<String> = "near:a,b,far:c,d".parse().expect("two lists");
        assert_eq!((lists.near.as_deref(), lists.far.as_deref()), (Some("a,b"), Some("c,d")));
    }
}
