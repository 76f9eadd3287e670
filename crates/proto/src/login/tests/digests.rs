//! Digests: the result of each pair of wishes.

use super::*;
use crate::params::Digest;

fn outcome(near: &'static [Digest], far: &'static [Digest]) -> Result<Digest, LoginError> {
    let mut initiator = Initiator::new(Request { wishes: Wishes::default().with_digests(near), ..normal() });
    let wishes = Wishes::default().with_digests(far);
    let mut target = Target::new(LoginPolicy { wishes, ..LoginPolicy::default() });
    run(&mut initiator, &mut target)?;
    let (ours, theirs) = (&initiator.outcome().unwrap().params, &target.outcome().unwrap().params);
    assert_eq!((ours.header_digest, ours.data_digest), (theirs.header_digest, theirs.data_digest));
    assert_eq!(ours.header_digest, ours.data_digest);
    Ok(ours.header_digest)
}

#[test]
fn every_pair_of_wishes() {
    use Digest::{Crc32c, None};
    let (never, asked) = (&[None][..], Wishes::DIGEST_IF_ASKED);
    let (possible, always) = (Wishes::DIGEST_IF_POSSIBLE, Wishes::DIGEST_ALWAYS);
    #[rustfmt::skip]
    let table: &[(&'static [Digest], &'static [Digest], Option<Digest>)] = &[
        (asked, asked, Some(None)),
        (asked, never, Some(None)),
        (asked, possible, Some(None)),
        (asked, always, Some(Crc32c)),
        (possible, asked, Some(Crc32c)),
        (possible, never, Some(None)),
        (possible, always, Some(Crc32c)),
        (always, asked, Some(Crc32c)),
        (always, always, Some(Crc32c)),
        (always, never, Option::None),
        (never, always, Option::None),
    ];
    for (near, far, expected) in table {
        let got = outcome(near, far);
        assert_eq!(got.as_ref().ok(), expected.as_ref(), "{near:?} with {far:?}: {got:?}");
        if let Err(error) = got {
            let is_expected = matches!(error, LoginError::Refused { .. } | LoginError::Digests { .. });
            assert!(is_expected, "{error}");
        }
    }
}

#[test]
fn a_target_that_insists_refuses_those_that_say_nothing() {
    let wishes = Wishes::default().with_digests(Wishes::DIGEST_ALWAYS);
    let mut target = Target::new(LoginPolicy { wishes, ..LoginPolicy::default() });
    let lines = ["InitiatorName=iqn.a", "TargetName=iqn.2026-11.io.farlun:disk"];
    let error = target.handle_request(&request(0x87), &text(&lines), &mut directory()).unwrap_err();
    assert!(error.to_string().contains("HeaderDigest=None is all"), "{error}");
    assert_eq!(target.poll_transmit().unwrap().0.status_class, 2);
}

#[test]
fn an_initiator_that_insists_says_that_digests_were_refused() {
    let wishes = Wishes::default().with_digests(Wishes::DIGEST_ALWAYS);
    let refused = LoginResponse { status_class: 2, ..response(0) };
    for (response, answer, said) in [
        (response(0x87), &b"HeaderDigest=Reject\0"[..], "refuses digests: HeaderDigest=None is all"),
        (response(0x87), b"HeaderDigest=None\0", "refuses digests: HeaderDigest=None is all"),
        (response(0x87), b"HeaderDigest=CRC32C\0", "refuses digests: DataDigest=None is all"),
        (refused, b"", "may take no digests"),
    ] {
        let mut initiator = Initiator::new(Request { wishes: wishes.clone(), ..normal() });
        let error = initiator.handle_response(&response, answer).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("--digest prefer"), "{error}");
    }
}
