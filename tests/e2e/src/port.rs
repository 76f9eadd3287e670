//! TCP ports that stay free until a test takes them.
//!
//! A port that was asked of the kernel and given back may be somebody else's a moment later: the kernel gives it to the next
//! who wants any. These are from below those, and no two of a process are the same.

use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 10_000;
/// What the kernel gives away begins here, unless it says something else.
const USUAL_END: u32 = 32_768;

/// A port of loopback that nobody listens on, and that the kernel gives to nobody by itself.
pub fn unused() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let given_away = range.split_whitespace().next().and_then(|port| port.parse().ok());
    let room = given_away.unwrap_or(USUAL_END).clamp(FIRST + 1000, USUAL_END) - FIRST;
    for _ in 0..room {
        // Processes that run side by side begin at different places.
        let place = std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = (FIRST + place % room) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("somebody listens on every port from {FIRST} on");
}
