//! CHAP: names, secrets, algorithms, and the numbers of its keys (RFC 7143 sections 9.2.1 and 12.1.3,
//! RFC 1994).
//!
//! The steps of the exchange are in `security`. Secrets are compared in constant time and never shown. The caller
//! provides random bytes.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use sha3::Sha3_256;
use subtle::{Choice, ConstantTimeEq};
use wire::iscsi::login_status;

use super::{LoginError, Status, shortened};
use crate::name;

/// Length of the challenges that this side sends, in bytes.
const CHALLENGE_BYTES: usize = 16;

/// Random bytes of one challenge with its identifier.
pub const RANDOM_BYTES: usize = 1 + CHALLENGE_BYTES;

/// The longest challenge that a peer may send (RFC 7143 section 12.1.3). Bytes.
const CHALLENGE_MAX_BYTES: usize = 1024;

/// The least length of a secret, 96 bits (RFC 7143 section 9.2.1). Bytes.
pub const SECRET_MIN_BYTES: usize = 12;

/// The longest name or secret. Bytes.
const LONGEST_BYTES: usize = 255;

/// A hash algorithm of CHAP_A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// MD5: CHAP_A code 5.
    Md5,
    /// SHA-1: CHAP_A code 6.
    Sha1,
    /// SHA-256: CHAP_A code 7.
    Sha256,
    /// SHA3-256: CHAP_A code 8.
    Sha3_256,
}

impl Algorithm {
    /// All algorithms, strongest first.
    pub const STRONGEST_FIRST: &'static [Algorithm] =
        &[Algorithm::Sha3_256, Algorithm::Sha256, Algorithm::Sha1, Algorithm::Md5];

    /// Name in command-line flags.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Md5 => "md5",
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha3_256 => "sha3-256",
        }
    }

    /// Parses a flag name such as `sha256`; `None` for an unknown one.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        Algorithm::STRONGEST_FIRST.iter().copied().find(|algorithm| algorithm.name() == name)
    }

    /// CHAP_A code.
    pub(super) const fn number(self) -> u8 {
        match self {
            Algorithm::Md5 => 5,
            Algorithm::Sha1 => 6,
            Algorithm::Sha256 => 7,
            Algorithm::Sha3_256 => 8,
        }
    }

    fn hash(self, parts: [&[u8]; 3]) -> Vec<u8> {
        fn hash<D: Digest>(parts: [&[u8]; 3]) -> Vec<u8> {
            parts.iter().fold(D::new(), D::chain_update).finalize().to_vec()
        }
        match self {
            Algorithm::Md5 => hash::<Md5>(parts),
            Algorithm::Sha1 => hash::<Sha1>(parts),
            Algorithm::Sha256 => hash::<Sha256>(parts),
            Algorithm::Sha3_256 => hash::<Sha3_256>(parts),
        }
    }
}

/// A challenge with its identifier: CHAP_I and CHAP_C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) id: u8,
    pub(super) bytes: Vec<u8>,
}

impl Challenge {
    pub(super) fn new(random: [u8; RANDOM_BYTES]) -> Challenge {
        Challenge { id: random[0], bytes: random[1..].to_vec() }
    }

    /// Parses the values of the two keys; `None` for an invalid value.
    pub(super) fn read(id: &str, bytes: &str) -> Option<Challenge> {
        let bytes = binary(bytes).filter(|bytes| (1..=CHALLENGE_MAX_BYTES).contains(&bytes.len()))?;
        Some(Challenge { id: u8::try_from(number(id)?).ok()?, bytes })
    }

    /// CHAP_R for this challenge, computed with the secret.
    pub(super) fn response(&self, algorithm: Algorithm, secret: &Secret) -> Vec<u8> {
        algorithm.hash([&[self.id], &secret.0, &self.bytes])
    }
}

/// Shared secret of two parties. Its Debug form does not show the secret.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// A secret as configured; [`Credentials::new`] checks the length.
    pub fn new(bytes: &[u8]) -> Secret {
        Secret(bytes.to_vec())
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Defect of a CHAP name or secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// A name that does not fit a key.
    #[error("the CHAP name '{}' has {} bytes, 1 to {LONGEST_BYTES} without control characters are allowed", super::shortened(.name), .name.len())]
    Name {
        /// The name.
        name: String,
    },
    /// A secret short enough to be guessed from one recorded exchange.
    #[error(
        "the CHAP secret of '{name}' has {found} bytes, at least {SECRET_MIN_BYTES} are needed; take a longer one, \
         or give --insecure"
    )]
    Short {
        /// CHAP name that the secret belongs to.
        name: String,
        /// Length in bytes.
        found: usize,
    },
    /// A secret longer than other implementations accept.
    #[error("the CHAP secret of '{name}' has {found} bytes, at most {LONGEST_BYTES} are allowed")]
    Long {
        /// CHAP name that the secret belongs to.
        name: String,
        /// Length in bytes.
        found: usize,
    },
    /// One secret for both directions: each side could replay the response of the other.
    #[error("'{name}' has the same CHAP secret as the other direction; each direction needs its own")]
    Same {
        /// CHAP name that the secret belongs to.
        name: String,
    },
}

/// A CHAP name with its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    name: String,
    secret: Secret,
}

impl Credentials {
    /// Checks both lengths; a secret below [`SECRET_MIN_BYTES`] passes only with `allow_short`.
    ///
    /// # Errors
    /// [`CredentialsError`] without the secret.
    pub fn new(name: &str, secret: Secret, allow_short: bool) -> Result<Credentials, CredentialsError> {
        let name = name.to_owned();
        let found = secret.0.len();
        if !(1..=LONGEST_BYTES).contains(&name.len()) || name.contains(char::is_control) {
            return Err(CredentialsError::Name { name });
        }
        if found == 0 || found < SECRET_MIN_BYTES && !allow_short {
            return Err(CredentialsError::Short { name, found });
        }
        if found > LONGEST_BYTES {
            return Err(CredentialsError::Long { name, found });
        }
        Ok(Credentials { name, secret })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn respond(&self, algorithm: Algorithm, challenge: &Challenge) -> String {
        hex(&challenge.response(algorithm, &self.secret))
    }

    /// Returns true for the right name and response. The time does not depend on which of the two is wrong.
    pub(super) fn prove(
        &self,
        algorithm: Algorithm,
        challenge: &Challenge,
        name: &str,
        response: &str,
    ) -> bool {
        let right_name = Choice::from(u8::from(self.name == name));
        let expected = challenge.response(algorithm, &self.secret);
        (right_name & expected.ct_eq(&binary(response).unwrap_or_default())).into()
    }
}

/// CHAP settings of an initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChapInitiator {
    /// The algorithms to offer, the preferred one first.
    pub algorithms: Vec<Algorithm>,
    pub(super) ours: Credentials,
    pub(super) theirs: Option<Credentials>,
}

impl ChapInitiator {
    /// The initiator authenticates with `ours`; with `theirs` the target must authenticate itself too.
    ///
    /// # Errors
    /// [`CredentialsError::Same`].
    pub fn new(ours: Credentials, theirs: Option<Credentials>) -> Result<ChapInitiator, CredentialsError> {
        if let Some(theirs) = &theirs {
            differ(&ours, theirs)?;
        }
        Ok(ChapInitiator { algorithms: Algorithm::STRONGEST_FIRST.to_vec(), ours, theirs })
    }

    /// Returns true if the target must authenticate itself too.
    pub fn is_mutual(&self) -> bool {
        self.theirs.is_some()
    }

    /// Value of CHAP_A.
    pub(super) fn numbers(&self) -> String {
        let numbers: Vec<String> = self.algorithms.iter().map(|a| a.number().to_string()).collect();
        numbers.join(",")
    }

    /// The offer in words.
    pub(super) fn offered(&self) -> String {
        let names: Vec<&str> = self.algorithms.iter().map(|algorithm| algorithm.name()).collect();
        format!("CHAP_A={} (--chap-algorithms {})", self.numbers(), names.join(","))
    }

    /// Error for an answer that was not offered.
    pub(super) fn not_offered(&self, answer: &str) -> LoginError {
        let status = Status::new(login_status::AUTHENTICATION_FAILURE);
        LoginError::Unchallenged {
            status,
            step: format!("it answered {} to {}", shortened(answer), self.offered()),
            is_choice: true,
        }
    }
}

/// CHAP settings of a target: with them, every login requires authentication.
#[derive(Clone, Debug)]
pub struct ChapTarget {
    /// The algorithms that are allowed, the preferred one first.
    pub algorithms: Arc<[Algorithm]>,
    pub(super) users: Arc<[Credentials]>,
    pub(super) ours: Option<Credentials>,
    /// Initiator names that a user is bound to, by user name; users without an entry may log in under any name.
    bound: Arc<BTreeMap<String, Vec<String>>>,
}

impl ChapTarget {
    /// Settings with the credentials of the users, and the target's own credentials for mutual CHAP.
    ///
    /// # Errors
    /// [`CredentialsError::Same`].
    pub fn new(users: Vec<Credentials>, ours: Option<Credentials>) -> Result<ChapTarget, CredentialsError> {
        for user in &users {
            if let Some(ours) = &ours {
                differ(ours, user)?;
            }
        }
        let algorithms = Algorithm::STRONGEST_FIRST.into();
        Ok(ChapTarget { algorithms, users: users.into(), ours, bound: Arc::default() })
    }

    /// Restricts the algorithms to these, the preferred one first.
    pub fn with_algorithms(self, algorithms: &[Algorithm]) -> ChapTarget {
        ChapTarget { algorithms: algorithms.into(), ..self }
    }

    /// Binds users to initiator names.
    pub fn with_initiators(self, bound: BTreeMap<String, Vec<String>>) -> ChapTarget {
        ChapTarget { bound: bound.into(), ..self }
    }

    /// Initiator names that users are bound to, by user name.
    pub fn initiators(&self) -> &BTreeMap<String, Vec<String>> {
        &self.bound
    }

    /// Returns true if a user may log in as an initiator of this name.
    pub fn may_be(&self, user: &str, initiator_name: &str) -> bool {
        let names = self.bound.get(user);
        names.is_none_or(|names| names.iter().any(|bound| name::is_same(bound, initiator_name)))
    }

    /// Names of the users that may log in.
    pub fn user_names(&self) -> impl Iterator<Item = &str> {
        self.users.iter().map(Credentials::name)
    }

    /// CHAP name of the target for mutual CHAP.
    pub fn target_name(&self) -> Option<&str> {
        self.ours.as_ref().map(Credentials::name)
    }

    /// Returns true if the name is a user's and the response is right. For an unknown name the response is compared
    /// with one for a fixed secret, so that the time is the same.
    pub(super) fn admits(
        &self,
        algorithm: Algorithm,
        challenge: &Challenge,
        name: &str,
        response: &str,
    ) -> bool {
        let nobody = Credentials { name: String::new(), secret: Secret(vec![0; CHALLENGE_BYTES]) };
        let user = self.users.iter().find(|user| user.name == name).unwrap_or(&nobody);
        user.prove(algorithm, challenge, name, response) && user.name == name && !name.is_empty()
    }
}

fn differ(ours: &Credentials, theirs: &Credentials) -> Result<(), CredentialsError> {
    if ours.secret == theirs.secret {
        Err(CredentialsError::Same { name: theirs.name.clone() })
    } else {
        Ok(())
    }
}

/// Bytes as the value of a key.
pub(super) fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A decimal or hexadecimal number (RFC 7143 section 6.1).
pub(super) fn number(text: &str) -> Option<u32> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((text, 10), |digits| (digits, 16));
    // `from_str_radix` takes a sign as well.
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, radix).ok())?
}

/// A large binary value: hexadecimal or base64 (RFC 7143 section 6.1).
pub(super) fn binary(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| (b as char).to_digit(16).map(|digit| digit as u8);
    match text.get(..2)? {
        "0x" | "0X" => text.as_bytes()[2..]
            .chunks(2)
            .map(|pair| match pair {
                &[high, low] => Some(digit(high)? << 4 | digit(low)?),
                _ => None,
            })
            .collect(),
        "0b" | "0B" => base64(&text.as_bytes()[2..]),
        _ => None,
    }
}

fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let value = |b: u8| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let body = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    if !text.len().is_multiple_of(4) || body.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::new();
    for group in body.chunks(4) {
        let mut word = 0;
        for (index, &b) in group.iter().enumerate() {
            word |= u32::from(value(b)?) << (18 - 6 * index);
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..][..group.len() - 1]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_values_in_both_forms() {
        assert_eq!(binary("0xdeadBEEF").as_deref(), Some(&[0xde, 0xad, 0xbe, 0xef][..]));
        assert_eq!(binary("0bZm9vYmE=").as_deref(), Some(&b"fooba"[..]));
        assert_eq!(binary("0bZm9vYg==").as_deref(), Some(&b"foob"[..]));
        assert_eq!(binary("0x").as_deref(), Some(&[][..]));
        for wrong in ["", "0", "0xabc", "0xzz", "12", "0bZ", "0bZm9vY", "0b*aaa", "ä"] {
            assert_eq!(binary(wrong), None, "{wrong}");
        }
        assert_eq!(binary(&hex(&[0, 1, 0xff])), Some(vec![0, 1, 0xff]));
        assert_eq!(
            (number("17"), number("0x11"), number("+1"), number("-1"), number("")),
            (Some(17), Some(17), None, None, None)
        );
    }

    /// The hash of `id secret challenge` as coreutils and OpenSSL compute it.
    #[test]
    fn known_responses() {
        let challenge = Challenge { id: b'a', bytes: b"c".to_vec() };
        let check = |algorithm, expected: &str| {
            assert_eq!(hex(&challenge.response(algorithm, &Secret::new(b"b"))), expected);
        };
        check(Algorithm::Md5, "0x900150983cd24fb0d6963f7d28e17f72");
        check(Algorithm::Sha1, "0xa9993e364706816aba3e25717850c26c9cd0d89d");
        check(Algorithm::Sha256, "0xba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check(Algorithm::Sha3_256, "0x3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532");
    }

    #[test]
    fn what_is_taken_as_credentials_and_never_shown() {
        let new =
            |name: &str, secret: &str, short| Credentials::new(name, Secret::new(secret.as_bytes()), short);
        let good = new("me", "123456789012", false).unwrap();
        assert!(!format!("{good:?}").contains("123456789012"));
        assert_eq!(
            new("me", "12345678901", false),
            Err(CredentialsError::Short { name: "me".to_owned(), found: 11 })
        );
        assert!(new("me", "12345678901", true).is_ok());
        assert!(new("me", "", true).is_err() && new("", "123456789012", true).is_err());
        assert!(new("me", &"x".repeat(256), true).is_err() && new("a\nb", "123456789012", false).is_err());
        let same = new("you", "123456789012", false).unwrap();
        assert!(ChapInitiator::new(good.clone(), Some(same.clone())).is_err());
        assert!(ChapTarget::new(vec![good], Some(same)).is_err());
    }
}
