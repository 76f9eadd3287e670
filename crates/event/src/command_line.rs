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
        match std::mem::replace(&mut is_secret, SECRETS[0] == word) {
            true => HIDDEN.to_owned(),
            false => SECRETS.iter().fold(without_user(&word), |word, name| without_value(word, name)),
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

/// Without what follows `name`, up to the end: where a secret ends in a word depends on how many shells are yet to read it.
fn without_value(word: String, name: &str) -> String {
    match word.split_once(name) {
        Some((before, after)) if !after.is_empty() => {
            let gap = &after[..after.len() - after.trim_start_matches(['=', ' ', '\t', '\n']).len()];
            format!("{before}{name}{gap}{HIDDEN}")
        }
        _ => word,
    }
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
        check(&["FARLUN_CHAP_SECRET='s' FARLUN_CHAP_TARGET_SECRET=t farlun ls"], &["FARLUN_CHAP_SECRET=..."]);
        check(
            &["sleep 1; farlun bench iscsi://a%s@h/x --chap-target-secret 's t' --time 1s"],
            &["sleep 1; farlun bench iscsi://a%...@h/x --chap-target-secret ..."],
        );
        // As `env` has it, within quotes of a shell's, and with the flag itself in quotes.
        for (word, shown) in [
            ("FARLUN_CHAP_SECRET=two words", "FARLUN_CHAP_SECRET=..."),
            (r#"env "FARLUN_CHAP_SECRET=two words" farlun ls"#, r#"env "FARLUN_CHAP_SECRET=..."#),
            ("farlun ls '--chap-target-secret' 's t'", "farlun ls '--chap-target-secret..."),
            (r"farlun ls --chap-target-secret 'it'\''s-secret' --json", "farlun ls --chap-target-secret ..."),
            ("FARLUN_CHAP_TARGET_SECRET=t FARLUN_CHAP_SECRET=s ls", "FARLUN_CHAP_TARGET_SECRET=..."),
        ] {
            check(&[word], &[shown]);
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
