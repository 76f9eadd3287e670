//! What to say when this host's limits for socket buffers are about as large as what a path has in
//! flight. Buffers are left to the kernel's autotuning, so its limits are the only thing to change.

use event::Bytes;
use net::tcp;

/// The advice for an end that receives, or sends, with `product_bytes` in flight; `None` if the limits are
/// wide enough or cannot be read.
pub(crate) fn buffer_advice(product_bytes: u64, receives: bool) -> Option<String> {
    let (receive_max, send_max) = tcp::autotuning_limits()?;
    let (name, first, max) = if receives {
        ("tcp_rmem", "4096 131072", receive_max)
    } else {
        ("tcp_wmem", "4096 16384", send_max)
    };
    advise(product_bytes, name, first, max)
}

/// Linux offers about half of a receive buffer as window, and a send buffer holds packets with their
/// bookkeeping: a limit that is not twice what is in flight may be what holds it there.
fn advise(product_bytes: u64, name: &str, first: &str, max: u64) -> Option<String> {
    (product_bytes.saturating_mul(2) >= max / 10 * 9).then(|| {
        let wanted = product_bytes.saturating_mul(4).next_power_of_two();
        format!(
            "net.ipv4.{name} lets a buffer grow to {}, and {} are in flight on this path: the buffer may be what \
             limits it. Try: sysctl -w net.ipv4.{name}=\"{first} {wanted}\"",
            Bytes(max),
            Bytes(product_bytes)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_limit_that_is_near_is_told() {
        assert_eq!(advise(1 << 20, "tcp_wmem", "4096 16384", 4 << 20), None);
        let advice = advise(2_000_000, "tcp_wmem", "4096 16384", 4 << 20).unwrap();
        assert!(advice.ends_with("sysctl -w net.ipv4.tcp_wmem=\"4096 16384 8388608\""), "{advice}");
    }
}
