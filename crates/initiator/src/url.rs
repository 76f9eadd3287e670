//! `iscsi://[user[%secret]@]host[:port][/iqn[/lun]]`, as libiscsi and QEMU write it. The secret is never printed,
//! neither in errors nor by `Display`.

use std::fmt;
use std::str::FromStr;

use proto::login::Secret;

/// Default TCP port of iSCSI.
const PORT: u16 = 3260;
/// Longest iSCSI name (RFC 7143 section 4.2.7.1).
const NAME_MAX_BYTES: usize = 223;

/// Address of a target or of one of its LUNs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// CHAP user name.
    pub user: Option<String>,
    /// CHAP secret of the user; may be given by other means.
    pub secret: Option<Secret>,
    /// Host name or address; an IPv6 address without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Target name; discovery needs none.
    pub target: Option<String>,
    /// LUN number.
    pub lun: Option<u16>,
}

/// Error of a text that is no such URL.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{url}' is no iSCSI URL: {problem}; expected iscsi://HOST[:PORT]/IQN/LUN")]
pub struct UrlError {
    url: String,
    problem: &'static str,
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Url, UrlError> {
        parse(url).map_err(|problem| UrlError { url: event::shown_url(url), problem })
    }
}

fn parse(url: &str) -> Result<Url, &'static str> {
    let rest = url.strip_prefix("iscsi://").ok_or("it does not begin with iscsi://")?;
    // A secret may contain any character; an `@` cannot occur after it.
    let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
    let (user, secret) = match login.map(|login| login.split_once('%').unwrap_or((login, ""))) {
        None => (None, None),
        // The message omits the name: the text after the colon may be meant as a secret.
        Some((user, _)) if user.contains(':') && !user.starts_with("iqn.") => {
            return Err("the user name has a colon in it; a secret is set off by %, as in user%secret@");
        }
        Some(("", _)) => return Err("the user name before the @ is missing"),
        Some((user, "")) => (Some(user.to_owned()), None),
        Some((user, secret)) => (Some(user.to_owned()), Some(Secret::new(secret.as_bytes()))),
    };
    let mut parts = rest.splitn(3, '/');
    let authority = parts.next().unwrap_or_default();
    let (host, port) = match authority.strip_prefix('[') {
        Some(v6) => {
            let (host, rest) = v6.split_once(']').ok_or("the bracket of the IPv6 address is not closed")?;
            (host, rest.strip_prefix(':').or(if rest.is_empty() { None } else { Some("?") }))
        }
        None => match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err("an IPv6 address needs brackets"),
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("the host is missing");
    }
    // An IPv6 zone may contain a `%`, but only within brackets.
    if host.contains('%') && !authority.starts_with('[') {
        return Err("the host has a % in it; is @HOST missing behind user%secret?");
    }
    if rest.contains('?') {
        return Err("there is a ? in it; what libiscsi takes as parameters are flags here, see --help");
    }
    let port = match port.map(str::parse) {
        None => PORT,
        Some(Ok(0)) | Some(Err(_)) => return Err("the port is no number from 1 to 65535"),
        Some(Ok(port)) => port,
    };
    let target = parts.next().filter(|target| !target.is_empty());
    if target.is_some_and(|name| name.len() > NAME_MAX_BYTES || name.bytes().any(|b| b <= b' ')) {
        return Err("the target's name is longer than 223 bytes or has blanks in it");
    }
    let lun = match parts.next().filter(|lun| !lun.is_empty()).map(str::parse) {
        None => None,
        Some(Ok(lun @ 0..16384)) => Some(lun),
        Some(_) => return Err("the LUN is no number from 0 to 16383"),
    };
    Ok(Url { user, secret, host: host.to_owned(), port, target: target.map(str::to_owned), lun })
}

impl Url {
    /// Target name and LUN of the URL.
    ///
    /// # Errors
    /// The URL has no target or no LUN.
    pub fn unit(&self) -> Result<(&str, u16), UrlError> {
        let wrong = |problem| UrlError { url: self.to_string(), problem };
        let target = self.target.as_deref().ok_or_else(|| {
            wrong("the target's name is missing, `farlun ls iscsi://HOST` lists names and LUNs")
        })?;
        Ok((
            target,
            self.lun.ok_or_else(|| wrong("the LUN is missing, `farlun ls iscsi://HOST` lists LUNs"))?,
        ))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "iscsi://[{}]:{}", self.host, self.port)?,
            false => write!(f, "iscsi://{}:{}", self.host, self.port)?,
        }
        if let Some(target) = &self.target {
            write!(f, "/{target}")?;
        }
        if let Some(lun) = self.lun {
            write!(f, "/{lun}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_url() {
        let check = |text: &str, expected: &str| {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), expected);
        };
        check("iscsi://host", "iscsi://host:3260");
        check("iscsi://10.0.0.1:860/iqn.a:b/7", "iscsi://10.0.0.1:860/iqn.a:b/7");
        check("iscsi://[2001:2::1]/iqn.a/0", "iscsi://[2001:2::1]:3260/iqn.a/0");
        check("iscsi://[::1]:99/iqn.a/", "iscsi://[::1]:99/iqn.a");
    }

    #[test]
    fn a_user_and_a_secret_that_is_never_shown() {
        let check = |text: &str, user: &str, secret: Option<&str>| {
            let url: Url = text.parse().unwrap();
            let expected = secret.map(|secret| Secret::new(secret.as_bytes()));
            assert_eq!((url.user.as_deref(), &url.secret), (Some(user), &expected), "{text}");
            assert_eq!(url.to_string(), "iscsi://h:3260/iqn.a/0");
            assert!(secret.is_none_or(|secret| !format!("{url:?}").contains(secret)));
        };
        check("iscsi://me%p/a@s%s@h/iqn.a/0", "me", Some("p/a@s%s"));
        check("iscsi://me@h/iqn.a/0", "me", None);
        check("iscsi://me%@h/iqn.a/0", "me", None);
        check("iscsi://iqn.2026-11.org.example:me%p:s@h/iqn.a/0", "iqn.2026-11.org.example:me", Some("p:s"));
        for text in [
            "iscsi://me%hunter2@h:0/",
            "me%hunter2@h",
            "iscsi://me%hunter2@h/iqn.a/0/7",
            "iscsi://me:hunter2@h/iqn.a/0",
        ] {
            let error = text.parse::<Url>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_is_not() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Url>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("http://host/", "does not begin with iscsi://");
        check("iscsi://", "the host is missing");
        check("iscsi://h:0", "the port is no number");
        check("iscsi://h:70000/", "the port is no number");
        check("iscsi://::1/iqn", "needs brackets");
        check("iscsi://[::1/iqn", "not closed");
        check("iscsi://[::1]x/iqn", "the port is no number");
        check("iscsi://h/iqn.a/x", "the LUN is no number");
        check("iscsi://h/iqn.a/0/1", "the LUN is no number");
        check("iscsi://%p@h/iqn.a/0", "the user name before the @ is missing");
        check("iscsi://me:hunter2@h/iqn.a/0", "a secret is set off by %");
        check("iscsi://h/i q n/0", "blanks");
        let error = "iscsi://h/iqn.a".parse::<Url>().unwrap().unit().unwrap_err().to_string();
        assert!(error.contains("the LUN is missing"), "{error}");
    }
}
