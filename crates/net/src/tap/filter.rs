//! Socket filters: programs of classic BPF (the kernel's Documentation/networking/filter.rst), which return the number
//! of bytes to keep of a packet.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::syscall::check;

/// One instruction: struct sock_filter of linux/filter.h.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Operation code.
    pub code: u16,
    /// Number of instructions to skip if a comparison holds.
    pub jump_true: u8,
    /// Number of instructions to skip otherwise.
    pub jump_false: u8,
    /// The operand.
    pub operand: u32,
}

impl Instruction {
    /// Ends a program; as a whole program it drops every packet.
    pub const KEEP_NOTHING: Instruction = Instruction { code: 6, jump_true: 0, jump_false: 0, operand: 0 };
}

/// Replaces the filter of `socket`.
pub(super) fn attach(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let mut filters: Vec<libc::sock_filter> = program
        .iter()
        .map(|instruction| libc::sock_filter {
            code: instruction.code,
            jt: instruction.jump_true,
            jf: instruction.jump_false,
            k: instruction.operand,
        })
        .collect();
    let len = u16::try_from(filters.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let whole = libc::sock_fprog { len, filter: filters.as_mut_ptr() };
    // SAFETY: `whole` points to `len` instructions, which the kernel copies during the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const whole).cast(),
            size_of_val(&whole) as libc::socklen_t,
        )
    })
    .map(|_| ())
}
