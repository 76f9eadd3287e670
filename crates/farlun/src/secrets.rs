//! Files of CHAP names and secrets: one `NAME SECRET` a line, `#` begins a comment, readable only by their
//! owner. `@NAME IQN…` binds a user of the file to the initiators that it may log in as.
//!
//! Blanks within a secret belong to it. A leading or trailing blank would be invisible, so it is refused.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proto::login::{ChapTarget, Credentials, Secret};

/// A file of secrets that was read. Nothing shows them.
pub(crate) struct SecretFile {
    shown: String,
    secrets: Vec<(String, String)>,
    bound: BTreeMap<String, Vec<String>>,
}

/// The lines of a file.
#[derive(PartialEq, Eq, Default, Debug)]
struct Lines<'a> {
    secrets: Vec<(&'a str, &'a str)>,
    /// Initiators by users.
    bound: Vec<(&'a str, Vec<&'a str>)>,
}

impl SecretFile {
    /// Reads a file; one that others may read or write is refused.
    pub(crate) fn read(path: &Path) -> Result<SecretFile, String> {
        let shown = path.display().to_string();
        let failed = |error| format!("{shown}: {error}");
        let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(format!(
                "{shown}: others may read or write the secrets in it (mode {mode:03o}); chmod 600 {shown}"
            ));
        }
        let text = crate::text_file::read(path).map_err(failed)?;
        let Lines { secrets, bound } = read(&text).map_err(|problem| format!("{shown}: {problem}"))?;
        let owned = secrets.into_iter().map(|(name, secret)| (name.to_owned(), secret.to_owned()));
        let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let bound = bound.into_iter().map(|(user, initiators)| (user.to_owned(), names(initiators)));
        Ok(SecretFile { secrets: owned.collect(), bound: bound.collect(), shown })
    }

    /// The secret on the line of `name`.
    pub(crate) fn secret_of(&self, name: &str) -> Result<Secret, String> {
        let found = self.secrets.iter().find(|(known, _)| known == name);
        let (_, secret) = found.ok_or_else(|| format!("{}: there is no line for '{name}'", self.shown))?;
        Ok(Secret::new(secret.as_bytes()))
    }

    /// The initiators that `name` may log in as, by a line of its own, as `node_name` reads them; `None` if it is any.
    pub(crate) fn initiators_of(
        &self,
        name: &str,
        node_name: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Option<Vec<String>>, String> {
        let Some(names) = self.bound.get(name) else { return Ok(None) };
        let names = names.iter().map(|name| node_name(name)).collect::<Result<_, _>>();
        names.map(Some).map_err(|error| format!("{}: @{name}: {error}", self.shown))
    }

    /// CHAP settings of a target: `users` may log in, `ours` authenticates the target.
    pub(crate) fn chap_target(
        &self,
        users: &[String],
        ours: Option<&str>,
        allow_short: bool,
        node_name: impl Fn(&str) -> Result<String, String>,
    ) -> Result<ChapTarget, String> {
        let failed = |error| format!("{}: {error}", self.shown);
        let credentials =
            |name: &str| Credentials::new(name, self.secret_of(name)?, allow_short).map_err(failed);
        let mut bound = BTreeMap::new();
        for user in users {
            bound.extend(self.initiators_of(user, &node_name)?.map(|names| (user.clone(), names)));
        }
        let users = users.iter().map(|name| credentials(name)).collect::<Result<_, _>>()?;
        let ours = ours.map(credentials).transpose()?;
        Ok(ChapTarget::new(users, ours).map_err(failed)?.with_initiators(bound))
    }
}

/// Names and secrets; an error names the line and never shows its content.
fn read(text: &str) -> Result<Lines<'_>, String> {
    let Lines { mut secrets, mut bound } = Lines::default();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(binding) = line.strip_prefix('@') {
            let mut words = binding.split_whitespace();
            let user = words.next().filter(|_| !binding.starts_with(char::is_whitespace));
            let initiators: Vec<&str> = words.collect();
            match user {
                Some(user) if bound.iter().any(|(known, _)| *known == user) => {
                    return Err(format!("line {number}: '@{user}' is there already"));
                }
                Some(user) if !initiators.is_empty() => bound.push((user, initiators)),
                _ => return Err(format!("line {number} is no '@NAME IQN', with an IQN or more")),
            }
            continue;
        }
        let (name, secret) = line
            .split_once([' ', '\t'])
            .filter(|(_, secret)| !secret.trim().is_empty())
            .ok_or_else(|| format!("line {number} is no 'NAME SECRET'"))?;
        if secret.starts_with(char::is_whitespace) {
            return Err(format!(
                "line {number}: the secret of '{name}' begins with a blank; leave one blank or tab between the two"
            ));
        }
        if secret.ends_with(char::is_whitespace) {
            return Err(format!(
                "line {number}: the secret of '{name}' ends with a blank; remove it, or choose another secret"
            ));
        }
        if secrets.iter().any(|(known, _)| *known == name) {
            return Err(format!("line {number}: '{name}' has a secret already"));
        }
        secrets.push((name, secret));
    }
    // A name that was mistyped would leave its user without a bond.
    let is_known = |user: &str| secrets.iter().any(|(known, _)| *known == user);
    if let Some((user, _)) = bound.iter().find(|(user, _)| !is_known(user)) {
        return Err(format!("'@{user}' is there, and no line with a secret of '{user}'"));
    }
    Ok(Lines { secrets, bound })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_file() {
        let text = "# who may\n \nalice one  secret\n\tbob\ttwo # not a comment\r\n";
        let secrets = vec![("alice", "one  secret"), ("bob", "two # not a comment")];
        assert_eq!(read(text), Ok(Lines { secrets, bound: Vec::new() }));
        assert_eq!(read("a b\nhunter2"), Err("line 2 is no 'NAME SECRET'".to_owned()));
        assert_eq!(read("hunter2 \n"), Err("line 1 is no 'NAME SECRET'".to_owned()));
        for (text, expected) in [
            ("a b\nc  d", "line 2: the secret of 'c' begins with a blank"),
            ("c \td", "line 1: the secret of 'c' begins with a blank"),
            ("c d ", "line 1: the secret of 'c' ends with a blank"),
            ("c d\t\r\n", "line 1: the secret of 'c' ends with a blank"),
            ("c d\u{a0}", "line 1: the secret of 'c' ends with a blank"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        assert_eq!(read("a b\na c"), Err("line 2: 'a' has a secret already".to_owned()));
    }

    #[test]
    fn users_are_bound_to_initiators() {
        let lines = read("@alice iqn.a  iqn.b\nalice one secret\nbob @two\n").unwrap();
        assert_eq!(lines.bound, [("alice", vec!["iqn.a", "iqn.b"])]);
        assert_eq!(lines.secrets, [("alice", "one secret"), ("bob", "@two")]);
        for (text, expected) in [
            ("@alice\nalice s", "line 1 is no '@NAME IQN'"),
            ("alice s\n@ alice iqn.a", "line 2 is no '@NAME IQN'"),
            ("alice s\n@alice iqn.a\n@alice iqn.b", "line 3: '@alice' is there already"),
            ("alice s\n@alcie iqn.a", "'@alcie' is there, and no line with a secret of 'alcie'"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
