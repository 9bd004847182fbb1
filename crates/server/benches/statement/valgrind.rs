//! Sends requests to valgrind if the program runs under callgrind. Without valgrind, the requests
//! do nothing.
#![allow(unsafe_code)] // A request is a sequence of instructions that valgrind knows.

/// Starts callgrind's instrumentation, if it was started without (`--instr-atstart=no`), so that
/// earlier code is not slowed.
#[inline(never)]
pub(crate) fn begin() {
    /// `CALLGRIND_START_INSTRUMENTATION`, of valgrind's `callgrind.h`.
    #[cfg(target_arch = "x86_64")]
    const REQUEST: u64 = ((b'C' as u64) << 24 | (b'T' as u64) << 16) + 4;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a register is turned round by 128 bits, which leaves it as it was, and another is
    // exchanged with itself. Valgrind reads the request's six words, where `rax` says, and writes
    // to `rdx`.
    unsafe {
        let words = [REQUEST, 0, 0, 0, 0, 0];
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") words.as_ptr(),
            inout("rdx") 0_u64 => _,
            options(nostack),
        );
    }
}
