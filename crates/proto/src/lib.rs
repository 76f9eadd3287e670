//! The sans-I/O iSCSI session machines of both sides.
