//! Files of CHAP names and secrets: one `NAME SECRET` a line, `#` begins a comment, readable only by their
//! owner.
//!
//! Blanks within a secret belong to it. One before or behind it would be seen by nobody, so it is refused.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proto::login::{ChapTarget, Credentials, Secret};

/// A file of secrets that was read. Nothing shows them.
pub(crate) struct SecretFile {
    shown: String,
    secrets: Vec<(String, String)>,
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
        let secrets = read(&text).map_err(|problem| format!("{shown}: {problem}"))?;
        let owned = secrets.into_iter().map(|(name, secret)| (name.to_owned(), secret.to_owned()));
        Ok(SecretFile { secrets: owned.collect(), shown })
    }

    /// The secret on the line of `name`.
    pub(crate) fn secret_of(&self, name: &str) -> Result<Secret, String> {
        let found = self.secrets.iter().find(|(known, _)| known == name);
        let (_, secret) = found.ok_or_else(|| format!("{}: there is no line for '{name}'", self.shown))?;
        Ok(Secret::new(secret.as_bytes()))
    }

    /// What a target takes from it: those of `users` may log in, `ours` is what it proves itself with.
    pub(crate) fn chap_target(
        &self,
        users: &[String],
        ours: Option<&str>,
        allow_short: bool,
    ) -> Result<ChapTarget, String> {
        let failed = |error| format!("{}: {error}", self.shown);
        let credentials =
            |name: &str| Credentials::new(name, self.secret_of(name)?, allow_short).map_err(failed);
        let users = users.iter().map(|name| credentials(name)).collect::<Result<_, _>>()?;
        let ours = ours.map(credentials).transpose()?;
        ChapTarget::new(users, ours).map_err(failed)
    }
}

/// Names and secrets; what is wrong is told by its line and never shown.
fn read(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut secrets: Vec<(&str, &str)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
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
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_file() {
        let text = "# who may\n \nalice one  secret\n\tbob\ttwo # not a comment\r\n";
        assert_eq!(read(text), Ok(vec![("alice", "one  secret"), ("bob", "two # not a comment")]));
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
}
