//! How a session proves who it is: the user of its URL, and what was given beside it.

use proto::login::{Algorithm, ChapInitiator, Credentials, CredentialsError, Secret, Security};

use crate::url::Url;

/// What is given for CHAP beside the URL.
#[derive(Clone, Debug, Default)]
pub struct Chap {
    /// The secret of the URL's user, if the URL has none.
    pub secret: Option<Secret>,
    /// The name and secret that the target has to prove itself with.
    pub target: Option<(String, Secret)>,
    /// The algorithms to offer, the preferred one first; all of them, the strongest first, if empty.
    pub algorithms: Vec<Algorithm>,
    /// Take secrets that are too short to be safe.
    pub allow_short: bool,
}

/// Why nothing can be proved.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChapError {
    /// A name or secret that cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// A user without a secret.
    #[error(
        "there is no secret for the CHAP user '{user}'; set FARLUN_CHAP_SECRET, or write {user}%SECRET@ in the URL"
    )]
    NoSecret {
        /// The user of the URL.
        user: String,
    },
    /// The target is to prove itself to nobody.
    #[error("a target proves itself only to those who do; write the CHAP user in the URL: iscsi://USER@HOST")]
    NoUser,
}

impl Chap {
    /// How to log in at what this URL names.
    pub(crate) fn security(&self, url: &Url) -> Result<Security, ChapError> {
        let Some(user) = &url.user else {
            return if self.target.is_some() { Err(ChapError::NoUser) } else { Ok(Security::Skip) };
        };
        let secret = url.secret.as_ref().or(self.secret.as_ref());
        let secret = secret.ok_or_else(|| ChapError::NoSecret { user: user.clone() })?;
        let ours = Credentials::new(user, secret.clone(), self.allow_short)?;
        let new =
            |(name, secret): &(String, Secret)| Credentials::new(name, secret.clone(), self.allow_short);
        let theirs = self.target.as_ref().map(new).transpose()?;
        let mut chap = ChapInitiator::new(ours, theirs)?;
        if !self.algorithms.is_empty() {
            chap.algorithms.clone_from(&self.algorithms);
        }
        Ok(Security::Chap(Box::new(chap)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn security(url: &str, chap: &Chap) -> String {
        match chap.security(&url.parse().unwrap()) {
            Ok(Security::Chap(chap)) if chap.is_mutual() => "mutual".to_owned(),
            Ok(Security::Chap(_)) => "one way".to_owned(),
            Ok(_) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_is_proved_with_which_secrets() {
        let nothing = Chap::default();
        let secret = |text: &str| Secret::new(text.as_bytes());
        assert_eq!(security("iscsi://h", &nothing), "none");
        assert_eq!(security("iscsi://u%twelve-bytes@h", &nothing), "one way");
        assert!(security("iscsi://u%short@h", &nothing).contains("at least 12"));
        assert_eq!(security("iscsi://u%short@h", &Chap { allow_short: true, ..Chap::default() }), "one way");
        assert!(security("iscsi://u@h", &nothing).contains("no secret for the CHAP user 'u'"));
        let from_elsewhere = Chap { secret: Some(secret("twelve-bytes")), ..Chap::default() };
        assert_eq!(security("iscsi://u@h", &from_elsewhere), "one way");
        let target = Some(("t".to_owned(), secret("another twelve")));
        let mutual = Chap { target, ..from_elsewhere };
        assert_eq!(security("iscsi://u@h", &mutual), "mutual");
        assert!(security("iscsi://h", &mutual).contains("only to those who do"));
        assert!(security("iscsi://u%another twelve@h", &mutual).contains("the same CHAP secret"));
        let url = "iscsi://u%twelve-bytes@h".parse().unwrap();
        for algorithms in [vec![Algorithm::Sha1, Algorithm::Md5], Vec::new()] {
            let chap = Chap { algorithms: algorithms.clone(), ..Chap::default() };
            let Ok(Security::Chap(made)) = chap.security(&url) else { panic!("CHAP") };
            let expected =
                if algorithms.is_empty() { Algorithm::STRONGEST_FIRST.to_vec() } else { algorithms };
            assert_eq!(made.algorithms, expected);
        }
    }
}
