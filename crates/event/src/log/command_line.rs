//! Command lines and URLs without secrets, for run files, pages and messages. In doubt a word is removed: files of a
//! run are passed on to others.

use std::ffi::OsStr;

/// Begin of a LUN's URL; `user%secret@` may follow.
const SCHEME: &str = "iscsi://";
/// Our flag before a secret, and that of others.
const FLAG: &str = "--chap-target-secret";
const PASSWORD: &str = "--password";
/// Names that precede a secret, in any case, also inside a shell command: our flag and variables, and those of common
/// programs; `password=` is an option of many.
const SECRETS: [&str; 11] = [
    FLAG,
    "FARLUN_CHAP_SECRET",
    "FARLUN_CHAP_TARGET_SECRET",
    "LIBISCSI_CHAP_PASSWORD",
    "LIBISCSI_CHAP_TARGET_PASSWORD",
    PASSWORD,
    "password=",
    ",pass=",
    " pass=",
    "'pass=",
    RECORD,
];
/// Words before a secret that is a word of its own.
const BEFORE_SECRETS: [&str; 3] = [FLAG, PASSWORD, "password"];
/// Ends of words before such a secret.
const OPEN_ENDS: [&str; 2] = ["password=", "pass="];
/// Part of the names of open-iscsi's records that are secrets. The value stands behind one of its flags, before the name or after.
const RECORD: &str = ".auth.password";
const VALUE_FLAGS: [&str; 2] = ["-v", "--value"];
/// Replacement of a secret.
const HIDDEN: &str = "...";
/// A placeholder that messages and documentation have where a secret belongs.
const PLACEHOLDER: &str = "SECRET";

/// Words of a command line without secrets, also where one of them is a command for a shell.
pub fn shown_words<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Vec<String> {
    let words: Vec<String> =
        words.into_iter().map(|word| word.as_ref().to_string_lossy().into_owned()).collect();
    let is_record = words.iter().any(|word| word.contains(RECORD));
    let mut is_secret = false;
    let shown = words.iter().map(|word| {
        let ends_with = |end: &str| {
            let at = word.len().checked_sub(end.len()).and_then(|at| word.get(at..));
            at.is_some_and(|found| found.eq_ignore_ascii_case(end))
        };
        let is_flag = BEFORE_SECRETS.iter().any(|flag| word.eq_ignore_ascii_case(flag))
            || OPEN_ENDS.iter().any(|end| ends_with(end))
            || is_record && VALUE_FLAGS.contains(&word.as_str());
        if std::mem::replace(&mut is_secret, is_flag) {
            return HIDDEN.to_owned();
        }
        let shown = match word.get(..5) {
            Some(name) if name.eq_ignore_ascii_case("pass=") => without_value(word.clone(), name),
            _ => word.clone(),
        };
        let shown = SECRETS.iter().fold(shown_text(&shown), |word, name| without_value(word, name));
        if is_record {
            VALUE_FLAGS.iter().fold(shown, |word, flag| without_record(word, flag))
        } else {
            shown
        }
    });
    shown.collect()
}

/// Text without the secrets of the URLs in it, line by line.
pub fn shown_text(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let mut shown = String::new();
        let mut rest = line;
        // Schemes have no case (RFC 3986 section 3.1).
        let mut behind = find(rest, SCHEME).map(|at| at + SCHEME.len());
        while let Some(at) = behind {
            shown.push_str(&rest[..at]);
            rest = &rest[at..];
            let next = find(rest, SCHEME);
            shown.push_str(&without_login(&rest[..next.unwrap_or(rest.len())]));
            rest = &rest[next.unwrap_or(rest.len())..];
            behind = next.map(|_| SCHEME.len());
        }
        shown.push_str(rest);
        shown
    });
    lines.collect()
}

/// Place of ASCII text in any case.
fn find(text: &str, wanted: &str) -> Option<usize> {
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    text.windows(wanted.len()).position(|window| window.eq_ignore_ascii_case(wanted))
}

/// A JSON document without the secrets of the URLs in its strings.
pub fn shown_json(document: &str) -> String {
    let mut shown = String::with_capacity(document.len());
    let mut rest = document;
    while let Some(open) = rest.find('"') {
        let (before, string) = rest.split_at(open + 1);
        let mut is_escaped = false;
        let close = string.find(|c| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        let (string, after) = string.split_at(close.unwrap_or(string.len()));
        shown.push_str(before);
        shown.push_str(&shown_text(string));
        // The quotation mark that ends it opens no other one.
        let end = after.len().min(1);
        shown.push_str(&after[..end]);
        rest = &after[end..];
    }
    shown.push_str(rest);
    shown
}

/// A text that was meant as a URL, without the secret in it, also where the scheme is missing or misspelt.
pub fn shown_url(url: &str) -> String {
    match find(url, SCHEME) {
        Some(_) => shown_text(url),
        None => without_login(url),
    }
}

/// Rest of a URL behind its scheme, without the secret. A secret may hold any character, so it ends before the last `@`.
fn without_login(part: &str) -> String {
    let Some(at) = part.rfind('@') else {
        return without_parameters(&without_host(part));
    };
    let (login, rest) = part.split_at(at);
    let end = match (login.find('%'), misplaced(login)) {
        (Some(percent), _) if &login[percent + 1..] == PLACEHOLDER => return part.to_owned(),
        (Some(percent), Some(colon)) => percent.min(colon),
        (Some(end), None) | (None, Some(end)) => end,
        (None, None) => return without_parameters(part),
    };
    format!("{}{HIDDEN}{}", &login[..=end], without_parameters(rest))
}

/// Place of the colon that some put between a user and a secret. An iSCSI name may have colons, and so does `HOST:PORT/`.
fn misplaced(login: &str) -> Option<usize> {
    let colon = login.find(':').filter(|_| !login.starts_with("iqn.") && !login.starts_with('['))?;
    let is_port = |(port, _): (&str, &str)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    (!login[colon + 1..].split_once('/').is_some_and(is_port)).then_some(colon)
}

/// `user%secret` of a URL whose `@HOST` is missing: a host has no `%` in it, but for the zone within brackets.
fn without_host(part: &str) -> String {
    let authority = part.find(|c: char| c == '/' || c.is_whitespace()).unwrap_or(part.len());
    match part[..authority].find('%') {
        Some(percent) if !part.starts_with('[') => format!("{}{HIDDEN}", &part[..=percent]),
        _ => part.to_owned(),
    }
}

/// Without the parameters that libiscsi takes in a URL: one of them is a secret. They end with the word.
fn without_parameters(part: &str) -> String {
    let ends = |c: char| c.is_whitespace() || c == '\'' || c == '"';
    match part.split_once('?') {
        Some((before, after)) if !before.contains(ends) && after.contains('=') => {
            format!("{before}?{HIDDEN}{}", after.find(ends).map_or("", |end| &after[end..]))
        }
        _ => part.to_owned(),
    }
}

/// Removes everything after `name`: the end of the secret depends on the number of shells that parse the text.
fn without_value(word: String, name: &str) -> String {
    let Some(end) = find(&word, name).map(|at| at + name.len()).filter(|end| *end < word.len()) else {
        return word;
    };
    let (before, after) = word.split_at(end);
    let gap = &after[..after.len() - after.trim_start_matches(['=', ' ', '\t', '\n']).len()];
    format!("{before}{gap}{HIDDEN}")
}

/// Without the value of a record of open-iscsi behind `flag`, which begins the word or follows a blank of a command line.
fn without_record(word: String, flag: &str) -> String {
    if word.starts_with(flag) {
        return without_value(word, flag);
    }
    without_value(word, &format!(" {flag}"))
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
    fn urls_as_people_mistype_them() {
        for (url, shown) in [
            ("iscsi://me%hunter2", "iscsi://me%..."),
            ("iscsi://me:hunter2@h/iqn.a/0", "iscsi://me:...@h/iqn.a/0"),
            ("iscsi://h/iqn.a/0?target_user=a&target_password=hunter2", "iscsi://h/iqn.a/0?..."),
            ("me%hunter2@h", "me%...@h"),
            ("ISCSI://me%hunter2@h/x", "ISCSI://me%...@h/x"),
        ] {
            assert_eq!(shown_url(url), shown);
        }
        assert_eq!(
            shown_text("no 'iscsi://a%s@h/x'; see\nmail me@there: iscsi://b%t@i\n"),
            "no 'iscsi://a%...@h/x'; see\nmail me@there: iscsi://b%...@i\n"
        );
        let line = "LIBISCSI_CHAP_PASSWORD=hunter2 iscsi-ls 'iscsi://me@h?target_password=hunter2' -s";
        assert_eq!(shown_words([line]), ["LIBISCSI_CHAP_PASSWORD=..."]);
        let line = "iscsi-ls 'iscsi://me@h?target_password=hunter2' -s";
        assert_eq!(shown_words([line]), ["iscsi-ls 'iscsi://me@h?...' -s"]);
    }

    #[test]
    fn secrets_of_other_programs() {
        let record = "node.session.auth.password";
        let words = |words: &[&str]| shown_words(words).join(" ");
        let line = words(&["iscsiadm", "-m", "node", "-n", record, "-v", "hunter2"]);
        assert_eq!(line, "iscsiadm -m node -n node.session.auth.password -v ...");
        let line = words(&["iscsiadm", "--value=hunter2", "-n", record, "-o", "update"]);
        assert_eq!(line, "iscsiadm --value=... -n node.session.auth.password -o update");
        let line = words(&["iscsiadm", "-vhunter2", "-n", record]);
        assert_eq!(line, "iscsiadm -v... -n node.session.auth.password");
        assert_eq!(words(&["iscsiadm -v hunter2 -n node.session.auth.password_in"]), "iscsiadm -v ...");
        let line = words(&["sh", "-c", "iscsiadm -n discovery.sendtargets.auth.password -v hunter2"]);
        assert_eq!(line, "sh -c iscsiadm -n discovery.sendtargets.auth.password ...");
        assert_eq!(
            words(&["qemu", "-iscsi", "user=me,password=hunter2"]),
            "qemu -iscsi user=me,password=..."
        );
        assert_eq!(words(&["Password=hunter2"]), "Password=...");
        assert_eq!(words(&["mount", "--Password", "hunter2"]), "mount --Password ...");
        assert_eq!(words(&["mount", "-o", "user=me,pass=hunter2"]), "mount -o user=me,pass=...");
        assert_eq!(words(&["pass=hunter2", "--bypass=on"]), "pass=... --bypass=on");
        assert_eq!(words(&["set", "auth.Password=", "hunter2", "x"]), "set auth.Password= ... x");
        assert_eq!(words(&["targetcli", "set", "password", "hunter2"]), "targetcli set password ...");
        // Elsewhere it asks for more output.
        assert_eq!(words(&["curl", "-v", "h", "-verbose"]), "curl -v h -verbose");
        assert_eq!(
            shown_text("to ISCSI://a%s@h/x and iScsi://b%t@i/y"),
            "to ISCSI://a%...@h/x and iScsi://b%...@i/y"
        );
    }

    #[test]
    fn strings_of_a_document() {
        let document = r#"{"a":["iscsi://a%s\"t@h/x","me@h"],"b\\":"iscsi://b%t@i"} "c"#;
        let shown = r#"{"a":["iscsi://a%...@h/x","me@h"],"b\\":"iscsi://b%...@i"} "c"#;
        assert_eq!(shown_json(document), shown);
        for document in ["{}", "[1,2]", r#"{"a":"50%@"}"#, ""] {
            assert_eq!(shown_json(document), document);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for word in [
            "iscsi://h/iqn.a/0",
            "iscsi://[fe80::1%eth0]/iqn.a/0",
            "iscsi://me@[fe80::1%eth0]/x",
            "iscsi://h:3260/iqn.a:b/0 --note me@there",
            "iscsi://iqn.2026-11.io.farlun:me@h/iqn.a/0",
            "iscsi://USER%SECRET@HOST",
            "is iscsi://h/iqn.a/0 there? a=b",
            "50%",
            "a%b@c",
        ] {
            assert_eq!(shown_words([word]), [word]);
        }
        assert_eq!(shown_words(["--chap-target-user", "disk", "--chap-target-secret"]).len(), 3);
    }
}
