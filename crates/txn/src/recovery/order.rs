//! Restores the CSN order of the commits of all lanes.
//!
//! The commits of a piece of a lane's log, sorted by CSN, are a *run*. Each CSN is in at most one
//! run. The next window is the longest sequence of CSNs that begins after the last window and has
//! no gap in all runs together, up to a limit of memory. Finding it takes no merge of the runs. An
//! interval of CSNs has no gap if the runs together have as many commits in the interval as there
//! are CSNs in it. A binary search in each run counts the run's commits in the interval. The window
//! consists of one slice of each run, so threads can install different slices in parallel.
//!
//! Rejected: a merge of the runs, commit by commit. A merge runs on one thread, and took a third of
//! an opening's time.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use spillway_base::{Csn, Error, Result};

use super::install::OP_BYTES;
use super::source::{Logged, Piece};

/// Consecutive commits of a piece.
#[derive(Clone)]
pub(super) struct CommitRun {
    piece: Arc<Piece>,
    commits: Range<usize>,
}

impl CommitRun {
    pub(super) fn commits(&self) -> &[Logged] {
        &self.piece.commits()[self.commits.clone()]
    }

    /// The number of its commits up to `csn`.
    fn count_to(&self, csn: Csn) -> usize {
        self.commits().partition_point(|commit| commit.csn <= csn)
    }

    /// The approximate bytes of log of its first `commits` commits.
    fn bytes_of(&self, commits: usize) -> usize {
        self.share(commits, self.piece.bytes as usize)
    }

    /// The approximate bytes of memory for installing its first `commits` commits.
    fn memory_of(&self, commits: usize) -> usize {
        self.share(commits, self.piece.bytes as usize + self.piece.ops * OP_BYTES)
    }

    /// The share of `of_piece`, a figure of the whole piece, that its first `commits` commits have,
    /// roughly.
    fn share(&self, commits: usize, of_piece: usize) -> usize {
        (of_piece as f64 * commits as f64 / self.piece.commits().len() as f64) as usize
    }

    /// Takes the first commits out.
    fn split_front(&mut self, commits: usize) -> CommitRun {
        let at = self.commits.start + commits;
        let front = CommitRun { piece: self.piece.clone(), commits: self.commits.start..at };
        self.commits.start = at;
        front
    }

    /// Some of its commits.
    pub(super) fn slice(&self, commits: Range<usize>) -> CommitRun {
        let start = self.commits.start;
        CommitRun { piece: self.piece.clone(), commits: start + commits.start..start + commits.end }
    }

    /// The piece that its commits are in.
    pub(super) fn piece(&self) -> &Piece {
        &self.piece
    }
}

/// Commits with consecutive CSNs, which are installed together.
#[derive(Default)]
pub(super) struct Window {
    /// The runs have no CSN in common, but their ranges of CSNs overlap.
    pub(super) runs: Vec<CommitRun>,
    /// The CSNs of those commits that are installed by themselves, ascending.
    pub(super) alone: Vec<Csn>,
    /// The approximate bytes of their batches.
    pub(super) bytes: usize,
}

impl Window {
    pub(super) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.commits.len()).sum()
    }

    /// Takes the commits up to `csn` out of it.
    pub(super) fn split_front(&mut self, csn: Csn) -> Vec<CommitRun> {
        let fronts = self.runs.iter_mut().map(|run| run.split_front(run.count_to(csn)));
        fronts.filter(|run| !run.commits.is_empty()).collect()
    }
}

/// Commits that were read and are not in a window yet.
#[derive(Default)]
pub(super) struct Pending {
    runs: Vec<CommitRun>,
}

impl Pending {
    pub(super) fn add(&mut self, piece: Piece) {
        let commits = 0..piece.commits().len();
        self.runs.push(CommitRun { piece: Arc::new(piece), commits });
    }

    /// Skips the commits up to `floor`.
    pub(super) fn skip_to(&mut self, floor: Csn) {
        for run in &mut self.runs {
            run.commits.start += run.count_to(floor);
        }
        self.runs.retain(|run| !run.commits.is_empty());
    }

    /// The approximate bytes of memory for installing the commits that are in no window.
    pub(super) fn memory(&self) -> usize {
        self.runs.iter().map(|run| run.memory_of(run.commits.len())).sum()
    }

    /// Takes the commits that follow `last` without a gap: as many as need about `memory_max` bytes
    /// to install, and at least one if the commit after `last` was read. Returns the last CSN taken
    /// and the commits.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`] when a commit is in the log twice.
    pub(super) fn take(
        &mut self,
        last: Csn,
        memory_max: usize,
        dir: &Path,
    ) -> Result<(Csn, Window)> {
        // A commit that is in the log twice makes this count too large. The check below finds such
        // a commit.
        let read = |csn: Csn| self.runs.iter().map(|run| run.count_to(csn)).sum::<usize>() as u64;
        let is_gapless = |csn: Csn| read(csn) >= csn.0 - last.0;
        let memory =
            |csn: Csn| self.runs.iter().map(|run| run.memory_of(run.count_to(csn))).sum::<usize>();
        let gapless = last_that(last, Csn(last.0 + self.len()), is_gapless);
        let fits = last_that(last, gapless, |csn| memory(csn) <= memory_max);
        let end = fits.max(last.next()).min(gapless);
        let mut window = Window::default();
        let mut taken = vec![0_u64; (end.0 - last.0).div_ceil(64) as usize];
        for run in &mut self.runs {
            let front = run.split_front(run.count_to(end));
            window.bytes += front.bytes_of(front.commits.len());
            for commit in front.commits() {
                // A commit up to `last` is in a window already, or in the engines' own files.
                let number = commit.csn.0.checked_sub(last.next().0);
                let (word, bit) =
                    number.map_or((usize::MAX, 0), |at| ((at / 64) as usize, at % 64));
                if taken.get(word).is_none_or(|word| word >> bit & 1 != 0) {
                    let (dir, csn) = (dir.display(), commit.csn);
                    return Err(Error::corruption(format!(
                        "{dir}: commit {csn} is in the log twice"
                    )));
                }
                taken[word] |= 1 << bit;
                if commit.is_alone {
                    window.alone.push(commit.csn);
                }
            }
            if !front.commits.is_empty() {
                window.runs.push(front);
            }
        }
        window.alone.sort_unstable();
        self.runs.retain(|run| !run.commits.is_empty());
        Ok((end, window))
    }

    /// Commits that were read and are in no window.
    pub(super) fn len(&self) -> u64 {
        self.runs.iter().map(|run| run.commits.len() as u64).sum()
    }
}

/// The largest CSN from `first` to `most` for which `holds` returns `true`; `first` if there is
/// none. It returns `true` up to some CSN, and `false` above.
fn last_that(first: Csn, most: Csn, holds: impl Fn(Csn) -> bool) -> Csn {
    let (mut good, mut bad) = (first.0, most.0 + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(Csn(middle)) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Csn(good)
}

#[cfg(test)]
mod tests;
