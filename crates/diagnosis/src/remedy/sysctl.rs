//! Linux settings of TCP memory, as command lines.

/// Command that lets a socket buffer grow to `most` bytes. `name` is `tcp_rmem` or `tcp_wmem`; `least` and `first` are the
/// other two values of that setting.
pub fn tcp_buffer(name: &str, [least, first]: [u64; 2], most: u64) -> String {
    format!("sysctl -w net.ipv4.{name}=\"{least} {first} {most}\"")
}

/// Command that puts TCP under memory pressure from `pages` pages on. The other two values keep the kernel's own ratio.
pub fn tcp_memory(pages: u64) -> String {
    format!("sysctl -w net.ipv4.tcp_mem=\"{} {pages} {}\"", pages / 4 * 3, pages / 2 * 3)
}
