//! Offload features of a device, by their names in `ethtool -k`.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::syscall::check;

// linux/ethtool.h
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
const NAME_BYTES: usize = 32;
/// Sanity limit of the number of features; kernels have some seventy.
const FEATURES_MAX: usize = 1024;

/// Returns true if TCP may build super-packets for the device `name`, which the device or the kernel segments below
/// TCP.
pub fn segments(name: &str) -> io::Result<bool> {
    let mut value = [ETHTOOL_GGSO, 0];
    ask(&control_socket()?, name, &mut value)?;
    Ok(value[1] != 0)
}

fn control_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let raw = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Disables the offload `feature` of the device `name`; an absent feature is no error.
pub fn without(name: &str, feature: &str) -> io::Result<()> {
    let socket = control_socket()?;
    // struct ethtool_sset_info: command, reserved, mask of the sets in eight bytes, number of strings of each
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    ask(&socket, name, &mut info)?;
    let count = info[4] as usize;
    if count > FEATURES_MAX {
        return Err(io::Error::other(format!(
            "a device with {count} features, expected at most {FEATURES_MAX}"
        )));
    }
    // struct ethtool_gstrings: command, set, number, names
    let mut names = vec![0; 3 + count * NAME_BYTES / 4];
    names[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    ask(&socket, name, &mut names)?;
    let bytes: Vec<u8> = names[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let found = bytes
        .chunks(NAME_BYTES)
        .position(|name| name.split(|byte| *byte == 0).next() == Some(feature.as_bytes()));
    let Some(bit) = found else { return Ok(()) };
    // struct ethtool_sfeatures: command, number of blocks, a block for 32 features: mask of valid bits, requested bits
    let mut wanted = vec![0; 2 + 2 * count.div_ceil(32)];
    wanted[..2].copy_from_slice(&[ETHTOOL_SFEATURES, count.div_ceil(32) as u32]);
    wanted[2 + bit / 32 * 2] = 1 << (bit % 32);
    ask(&socket, name, &mut wanted)
}

/// One ethtool request; the kernel writes the response in place, within the lengths at the start of `words`.
fn ask(socket: &OwnedFd, name: &str, words: &mut [u32]) -> io::Result<()> {
    // SAFETY: an all-zero ifreq is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    assert!(name.len() < libc::IFNAMSIZ, "a device name has at most 15 bytes");
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: `request` names a device and points to a request whose lengths its own first words tell.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_no_device_has_is_none_to_take_away() {
        without("lo", "no-such-feature").expect("lo is there and knows its features");
    }
}
