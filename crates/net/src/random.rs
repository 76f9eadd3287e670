//! Random bytes from the kernel.
#![allow(unsafe_code)]

/// Fills `bytes` with unpredictable bytes (getrandom(2)).
pub fn fill(bytes: &mut [u8]) {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &mut bytes[done..];
        // SAFETY: the kernel writes at most `rest.len()` bytes to `rest`.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        // A signal may interrupt the call; it cannot fail otherwise on Linux 3.17 or newer.
        assert!(
            got > 0 || std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted,
            "getrandom exists on every Linux that farlun runs on"
        );
        done += usize::try_from(got).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_the_same_again() {
        let (mut first, mut second) = ([0; 32], [0; 32]);
        fill(&mut first);
        fill(&mut second);
        assert_ne!(first, second);
    }
}
