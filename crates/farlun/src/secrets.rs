//! Files of CHAP names and secrets: one `NAME SECRET` a line, `#` begins a comment, readable only by their
//! owner.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proto::login::{ChapTarget, Credentials, Secret};

use crate::exit::Exit;

/// What a target takes from a file: those of `users` may log in, `ours` is what it proves itself with.
pub(crate) fn chap_target(
    file: &Path,
    users: &[String],
    ours: Option<&str>,
    allow_short: bool,
) -> anyhow::Result<ChapTarget> {
    let shown = file.display();
    let failed = |error| Exit::usage(format!("{shown}: {error}"));
    let mode = std::fs::metadata(file).map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(Exit::usage(format!(
            "{shown}: others may read or write the secrets in it (mode {mode:03o}); chmod 600 {shown}"
        )));
    }
    let text = std::fs::read_to_string(file).map_err(failed)?;
    let secrets = read(&text).map_err(|problem| Exit::usage(format!("{shown}: {problem}")))?;
    let credentials = |name: &str| {
        let found = secrets.iter().find(|(known, _)| *known == name);
        let (_, secret) =
            found.ok_or_else(|| Exit::usage(format!("{shown}: there is no line for '{name}'")))?;
        Credentials::new(name, Secret::new(secret.as_bytes()), allow_short)
            .map_err(|error| Exit::usage(format!("{shown}: {error}")))
    };
    let users = users.iter().map(|name| credentials(name)).collect::<anyhow::Result<_>>()?;
    let ours = ours.map(credentials).transpose()?;
    ChapTarget::new(users, ours).map_err(|error| Exit::usage(format!("{shown}: {error}")))
}

/// Names and secrets; what is wrong is told by its line and never shown.
fn read(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut secrets: Vec<(&str, &str)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, secret) = line
            .split_once(char::is_whitespace)
            .ok_or_else(|| format!("line {} is no 'NAME SECRET'", index + 1))?;
        if secrets.iter().any(|(known, _)| *known == name) {
            return Err(format!("line {}: '{name}' has a secret already", index + 1));
        }
        secrets.push((name, secret.trim_start()));
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_file() {
        let text = "# who may\n\nalice  one secret\n\tbob\ttwo # not a comment\r\n";
        assert_eq!(read(text), Ok(vec![("alice", "one secret"), ("bob", "two # not a comment")]));
        assert_eq!(read("a b\nhunter2"), Err("line 2 is no 'NAME SECRET'".to_owned()));
        assert_eq!(read("a b\na c"), Err("line 2: 'a' has a secret already".to_owned()));
    }
}
