//! Reads the resident memory of the process.

use std::fs;

/// The page size of the system, the unit of `statm`.
const SYSTEM_PAGE_BYTES: usize = 4 << 10;

/// The bytes of this process that are in memory and that no file backs; `None` if the system does
/// not report them.
pub(crate) fn resident_anonymous() -> Option<usize> {
    // The first three numbers are: all pages, the resident pages, and the resident pages that are
    // backed by files or shared.
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_whitespace().skip(1).map(str::parse::<usize>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * SYSTEM_PAGE_BYTES)
}
