//! Commits of all lanes, put back into the one order of their CSNs.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use spillway_base::{Csn, Error, Result};

use super::source::{Logged, Piece};

/// A piece whose commits are not all in order yet.
struct Run {
    piece: Arc<Piece>,
    /// Commits before this one are.
    done: usize,
    /// Where the window has the piece, if it does.
    place: Option<usize>,
}

impl Run {
    fn head(&self) -> Option<&Logged> {
        self.piece.commits().get(self.done)
    }
}

/// Commits that follow on one another, to be installed together.
#[derive(Default)]
pub(super) struct Window {
    pieces: Vec<Arc<Piece>>,
    commits: Vec<(usize, Logged)>,
    /// Of their batches.
    pub(super) bytes: usize,
    /// Operations in them.
    pub(super) ops: usize,
}

/// A commit of a window.
#[derive(Clone, Copy)]
pub(super) struct Ordered<'w> {
    pub(super) csn: Csn,
    pub(super) is_alone: bool,
    pub(super) batch: &'w [u8],
}

impl Window {
    pub(super) fn len(&self) -> usize {
        self.commits.len()
    }

    /// Operations of a commit.
    pub(super) fn ops_of(&self, index: usize) -> usize {
        self.commits[index].1.ops as usize
    }

    pub(super) fn get(&self, index: usize) -> Ordered<'_> {
        let (place, commit) = &self.commits[index];
        let batch = self.pieces[*place].batch(commit);
        Ordered { csn: commit.csn, is_alone: commit.is_alone, batch }
    }
}

/// What was read, and is not in a window yet.
#[derive(Default)]
pub(super) struct Pending {
    runs: Vec<Run>,
    /// The run that had the last commit, which is the likeliest to have the next.
    near: usize,
}

impl Pending {
    pub(super) fn add(&mut self, piece: Piece) {
        self.runs.push(Run { piece: Arc::new(piece), done: 0, place: None });
    }

    /// Puts the commit `next` into the window, if it was read. Commits up to `floor` are passed
    /// over.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`] when a commit before it is met again.
    pub(super) fn take(
        &mut self,
        next: Csn,
        floor: Csn,
        window: &mut Window,
        dir: &Path,
    ) -> Result<bool> {
        let count = self.runs.len();
        for step in 0..count {
            let index = (self.near + step) % count;
            let run = &mut self.runs[index];
            while let Some(head) = run.head().copied() {
                match head.csn.cmp(&next) {
                    Ordering::Equal => {
                        let place = *run.place.get_or_insert_with(|| {
                            window.pieces.push(run.piece.clone());
                            window.pieces.len() - 1
                        });
                        window.commits.push((place, head));
                        window.bytes += run.piece.batch(&head).len();
                        window.ops += head.ops as usize;
                        run.done += 1;
                        self.near = index;
                        return Ok(true);
                    }
                    Ordering::Less if head.csn <= floor => run.done += 1,
                    Ordering::Less => {
                        let csn = head.csn;
                        let what = format!("{}: commit {csn} is in the log twice", dir.display());
                        return Err(Error::corruption(what));
                    }
                    Ordering::Greater => break,
                }
            }
        }
        self.runs.retain(|run| run.head().is_some());
        self.near = 0;
        Ok(false)
    }

    /// The window's memory, for the next one.
    pub(super) fn emptied(&mut self, mut window: Window) -> Window {
        self.runs.iter_mut().for_each(|run| run.place = None);
        window.pieces.clear();
        window.commits.clear();
        (window.bytes, window.ops) = (0, 0);
        window
    }

    /// Commits that were read and are in no window.
    pub(super) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.piece.commits().len() - run.done).sum()
    }
}
