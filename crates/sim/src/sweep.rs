//! Chooses the disk operations at which a sweep injects a fault.
//!
//! A sweep runs a history once for each chosen operation of the disk, and injects a fault at this
//! operation. By default a sweep chooses one operation in every few. The commit that is checked out
//! determines which one, so the sweeps of many commits together cover all operations. With
//! `SPILLWAY_ROUNDS` above 1, a sweep chooses every operation: use it to reproduce a failure.

use std::process::Command;

/// A seed from the hash of the checked-out commit; 1 outside a repository.
#[must_use]
pub fn commit_seed() -> u64 {
    let arguments = ["rev-parse", "--short=9", "HEAD"];
    let hash = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let hash = hash.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    hash.and_then(|hash| u64::from_str_radix(hash.trim(), 16).ok()).unwrap_or(1)
}

/// Some of the operations of a history.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    stride: u64,
    offset: u64,
}

#[cfg(test)]
impl Sweep {
    /// One operation in `stride`, or all in a run of several rounds.
    pub(crate) fn of(stride: u64) -> Sweep {
        let rounds = std::env::var("SPILLWAY_ROUNDS").ok().and_then(|value| value.parse().ok());
        let stride = if rounds.unwrap_or(1) > 1 { 1 } else { stride };
        Sweep { stride, offset: commit_seed() % stride }
    }

    /// Whether the sweep has an operation.
    pub(crate) fn has(self, operation: u64) -> bool {
        (operation + self.offset).is_multiple_of(self.stride)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_has_one_operation_in_each_stride() {
        for stride in 1..20 {
            let sweep = Sweep { stride, offset: commit_seed() % stride };
            let found: Vec<u64> = (100..100 + 5 * stride).filter(|at| sweep.has(*at)).collect();
            assert_eq!(found.len(), 5, "{stride}");
            assert!(found.windows(2).all(|pair| pair[1] - pair[0] == stride));
        }
    }
}
