//! A command line as files and pages show it: without secrets. What may be one is left out rather than what must be:
//! files of a run are handed to others.

use std::ffi::OsStr;

/// What a URL of a LUN begins with; `user%secret@` may follow.
const SCHEME: &str = "iscsi://";
/// What a secret follows: the flag, and variables in a command for a shell.
const SECRETS: [&str; 3] = ["--chap-target-secret", "FARLUN_CHAP_SECRET", "FARLUN_CHAP_TARGET_SECRET"];
/// What stands for a secret.
const HIDDEN: &str = "...";

/// The words of a command line, also where one of them is a command for a shell.
pub fn shown_words<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Vec<String> {
    let mut is_secret = false;
    let shown = words.into_iter().map(|word| {
        let word = word.as_ref().to_string_lossy();
        let was_flag = std::mem::replace(&mut is_secret, SECRETS[0] == word);
        match word.split_once('=') {
            _ if was_flag => HIDDEN.to_owned(),
            Some((flag, _)) if flag == SECRETS[0] => format!("{flag}={HIDDEN}"),
            _ => SECRETS.iter().fold(without_user(&word), |word, name| without_value(&word, name)),
        }
    });
    shown.collect()
}

/// Without the secrets of URLs. A secret may hold any character, so it ends before the last `@`.
fn without_user(word: &str) -> String {
    let mut parts = word.split(SCHEME);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(SCHEME);
        match (part.find('%'), part.rfind('@')) {
            (Some(percent), Some(at)) if percent < at => {
                shown.extend([&part[..=percent], HIDDEN, &part[at..]]);
            }
            _ => shown.push_str(part),
        }
    }
    shown
}

/// Without the secrets that follow `name`.
fn without_value(word: &str, name: &str) -> String {
    let mut parts = word.split(name);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(name);
        let secret = part.trim_start_matches(['=', ' ', '\t', '\n']);
        if secret.is_empty() || secret.len() == part.len() {
            shown.push_str(part);
            continue;
        }
        let rest = &secret[end_of_word(secret)..];
        shown.extend([&part[..part.len() - secret.len()], HIDDEN, rest]);
    }
    shown
}

/// Where a shell ends the word that a text begins with.
fn end_of_word(text: &str) -> usize {
    let (mut quote, mut is_escaped) = (None, false);
    let ends = |(_, c): &(usize, char)| {
        if is_escaped {
            is_escaped = false;
            return false;
        }
        match (quote, *c) {
            (None, c) if c.is_whitespace() => return true,
            (None | Some('"'), '\\') => is_escaped = true,
            (None, '\'' | '"') => quote = Some(*c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
        false
    };
    text.char_indices().find(ends).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown() {
        let check = |words: &[&str], expected: &[&str]| assert_eq!(shown_words(words), expected);
        check(
            &["farlun", "bench", "iscsi://me%se/c@ret@h/iqn.a/0"],
            &["farlun", "bench", "iscsi://me%...@h/iqn.a/0"],
        );
        check(&["--chap-target-secret", "s", "--json"], &["--chap-target-secret", "...", "--json"]);
        check(&["--chap-target-secret=s p"], &["--chap-target-secret=..."]);
        check(
            &["FARLUN_CHAP_SECRET='s' FARLUN_CHAP_TARGET_SECRET=t farlun ls"],
            &["FARLUN_CHAP_SECRET=... FARLUN_CHAP_TARGET_SECRET=... farlun ls"],
        );
        check(
            &["sleep 1; farlun bench iscsi://a%s@h/x --chap-target-secret 's t' --time 1s"],
            &["sleep 1; farlun bench iscsi://a%...@h/x --chap-target-secret ... --time 1s"],
        );
        for secret in [r"'it'\''s-secret'", r#"a" b""#, r"my\ secret", r#""a\" b""#] {
            let line = format!("farlun ls --chap-target-secret {secret} --json");
            check(&[&line], &["farlun ls --chap-target-secret ... --json"]);
        }
        check(&["iscsi://a%s@h/x iscsi://b%t@i/y"], &["iscsi://a%...@h/x iscsi://b%...@i/y"]);
    }

    #[test]
    fn what_is_no_secret_stays() {
        for word in [
            "iscsi://h/iqn.a/0",
            "iscsi://[fe80::1%eth0]/iqn.a/0",
            "iscsi://me@[fe80::1%eth0]/x",
            "50%",
            "a%b@c",
        ] {
            assert_eq!(shown_words([word]), [word]);
        }
        assert_eq!(shown_words(["--chap-target-user", "disk", "--chap-target-secret"]).len(), 3);
    }
}
