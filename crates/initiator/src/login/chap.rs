//! CHAP authentication of a session: the user of its URL, and further settings.

use proto::login::{Algorithm, ChapInitiator, Credentials, CredentialsError, Secret, Security};

use crate::url::Url;

/// CHAP settings in addition to the URL.
#[derive(Clone, Debug, Default)]
pub struct Chap {
    /// Secret of the URL's user, if the URL has none.
    pub secret: Option<Secret>,
    /// Name and secret with which the target must authenticate itself.
    pub target: Option<(String, Secret)>,
    /// Algorithms to offer, in order of preference; an empty list offers all, the strongest first.
    pub algorithms: Vec<Algorithm>,
    /// Accept secrets that are shorter than recommended.
    pub allow_short: bool,
}

/// Error of the CHAP settings.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChapError {
    /// Unusable name or secret.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// User without a secret.
    #[error(
        "there is no secret for the CHAP user '{user}'; set FARLUN_CHAP_SECRET, or write {user}%SECRET@ in the URL"
    )]
    NoSecret {
        /// User of the URL.
        user: String,
    },
    /// Authentication of the target without authentication of the initiator.
    #[error("a target proves itself only to those who do; write the CHAP user in the URL: iscsi://USER@HOST")]
    NoUser,
}

impl Chap {
    /// Security settings of a login at this URL.
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
