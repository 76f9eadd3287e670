//! Advice on this host's limits for socket buffers where they are close to a path's bandwidth-delay product. The
//! kernel's autotuning sizes the buffers, so its limits are the only setting to change.

use event::Bytes;
use net::tcp;

/// The kernel keeps these limits as C's `int`.
const LIMIT_MOST: u64 = i32::MAX as u64;

/// The advice for an end that receives, or sends, with `product_bytes` in flight; `None` if the limits are
/// wide enough, as wide as they can be, or cannot be read.
pub(crate) fn buffer_advice(product_bytes: u64, receives: bool) -> Option<String> {
    let name = if receives { "tcp_rmem" } else { "tcp_wmem" };
    advise(product_bytes, name, tcp::limits(name)?)
}

/// Linux offers about half of a receive buffer as window, and a send buffer also holds the bookkeeping of its packets:
/// a limit below twice the bytes in flight may be the limiter.
fn advise(product_bytes: u64, name: &str, [least, first, max]: [u64; 3]) -> Option<String> {
    let wanted = product_bytes.saturating_mul(4).min(LIMIT_MOST).next_power_of_two().min(LIMIT_MOST);
    (product_bytes.saturating_mul(2) >= max / 10 * 9 && wanted > max).then(|| {
        format!(
            "net.ipv4.{name} lets a buffer grow to {}, and {} are in flight on this path: the buffer may be what \
             limits it. Try: sysctl -w net.ipv4.{name}=\"{least} {first} {wanted}\"",
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
        let advice = |product_bytes, max| advise(product_bytes, "tcp_wmem", [8192, 65_536, max]);
        assert_eq!(advice(1 << 20, 4 << 20), None);
        let told = advice(2_000_000, 4 << 20).unwrap();
        assert!(told.ends_with("sysctl -w net.ipv4.tcp_wmem=\"8192 65536 8388608\""), "{told}");
    }

    #[test]
    fn no_more_is_asked_for_than_the_kernel_takes() {
        let advice = |max| advise(300 << 20, "tcp_rmem", [4096, 131_072, max]);
        let told = advice(512 << 20).unwrap();
        assert!(told.ends_with("sysctl -w net.ipv4.tcp_rmem=\"4096 131072 2147483647\""), "{told}");
        assert_eq!(advice(LIMIT_MOST), None, "it is there already");
    }
}
