//! Sockets, namespaces, TUN devices, the clock: every system call farlun makes itself.
