//! The writer of a merge: keeps slices in place, and writes everything else into new extents.

use std::ops::Range;
use std::sync::Arc;

use spillway_base::{Error, Result};

use super::input::Origin;
use super::offload::{Accelerator, Cpu, MergeTask};
use super::plan::{Policy, Step};
use super::reader::OpenSlice;
use super::rule::DropRule;
use super::split_points::SplitPoints;
use crate::block::{BuiltBlock, FRAME_BYTES, put_coded_frame};
use crate::coding::{Coding, Compression, Dictionary, Encoder};
use crate::extent::{BlockParts, ExtentBuilder};
use crate::level::Slice;

/// The destination of finished extents.
pub(crate) trait Output {
    /// Finishes the extent that is being built, and writes it.
    ///
    /// # Errors
    /// The error of finishing or writing it.
    fn write(&mut self, extent: &mut ExtentBuilder) -> Result<()>;
}

/// Counts of the work.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Tally {
    /// Slices that stayed where they are.
    pub(crate) relinked_slices: u64,
    pub(crate) relinked_bytes: u64,
    /// Blocks that were carried.
    pub(crate) carried_blocks: u64,
    pub(crate) carried_bytes: u64,
    /// Blocks that came out of merges.
    pub(crate) merged_blocks: u64,
    pub(crate) merged_bytes: u64,
    /// Decoded bytes of blocks that were merged.
    pub(crate) merge_input_bytes: u64,
    /// Bytes of the blocks that were coded, before and after the coding.
    pub(crate) coded_from_bytes: u64,
    pub(crate) coded_bytes: u64,
    /// Tasks that two executors did with equal results.
    pub(crate) checked_tasks: u64,
    /// Tasks that the accelerator refused, or did with another result.
    pub(crate) refused_tasks: u64,
}

impl Tally {
    /// Only the counts of coding and of the accelerator.
    pub(crate) fn of_coding(&self) -> Tally {
        let Tally { coded_from_bytes, coded_bytes, checked_tasks, refused_tasks, .. } = *self;
        let other = Tally::default();
        Tally { coded_from_bytes, coded_bytes, checked_tasks, refused_tasks, ..other }
    }
}

/// How the blocks of new extents are coded.
pub(crate) struct Coder {
    coding: Coding,
    encoder: Encoder,
    frame: Vec<u8>,
}

impl Coder {
    /// A coder for this compression, with this dictionary for zstd.
    pub(crate) fn new(compression: Compression, dictionary: Option<&Dictionary>) -> Coder {
        let encoder = Encoder::new(compression, dictionary);
        Coder { coding: compression.coding(), encoder, frame: Vec::new() }
    }

    /// The coding that blocks must have at least.
    pub(crate) fn coding(&self) -> Coding {
        self.coding
    }

    /// The frame of a body.
    fn code(&mut self, body: &[u8]) -> Vec<u8> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        put_coded_frame(&mut frame, body, &mut self.encoder);
        frame
    }

    /// Takes a frame back to reuse its memory.
    fn reuse(&mut self, frame: Vec<u8>) {
        self.frame = frame;
    }
}

/// Consecutive blocks of a slice that will stay in place or be carried.
struct Pending {
    open: OpenSlice,
    blocks: Range<usize>,
    bytes: u64,
}

/// The writer of a merge. It takes the steps of the planner in key order.
pub(crate) struct MergeWriter<'a> {
    rule: &'a DropRule<'a>,
    policy: Policy,
    accelerator: &'a dyn Accelerator,
    coder: Coder,
    builder: ExtentBuilder,
    pending: Option<Pending>,
    /// Steps that wait until there are enough tasks for a batch of the accelerator.
    waiting: Vec<Step>,
    tasks: usize,
    stays: Vec<Arc<Slice>>,
    cuts: &'a SplitPoints,
    /// The number of cuts before the last block that was written.
    cuts_before: usize,
    tally: Tally,
    /// The accelerator's last refusal.
    refusal: Option<String>,
    output: &'a mut dyn Output,
}

/// The results of a [`MergeWriter`], in addition to the written extents.
pub(crate) struct MergeResult {
    /// The slices that stay where they are.
    pub(crate) stays: Vec<Arc<Slice>>,
    pub(crate) tally: Tally,
    /// The accelerator's last refusal, with the keys of the merge that it refused.
    pub(crate) refusal: Option<String>,
}

impl<'a> MergeWriter<'a> {
    pub(crate) fn new(
        builder: ExtentBuilder,
        rule: &'a DropRule<'a>,
        policy: Policy,
        accelerator: &'a dyn Accelerator,
        coder: Coder,
        output: &'a mut dyn Output,
    ) -> MergeWriter<'a> {
        MergeWriter {
            rule,
            policy,
            accelerator,
            builder,
            coder,
            pending: None,
            waiting: Vec::new(),
            tasks: 0,
            stays: Vec::new(),
            cuts: SplitPoints::NONE,
            cuts_before: 0,
            tally: Tally::default(),
            refusal: None,
            output,
        }
    }

    /// Also ends slices at cuts. The incoming blocks end there, too (COMPACTION-6).
    pub(crate) fn cut_at(mut self, cuts: &'a SplitPoints) -> MergeWriter<'a> {
        self.cuts = cuts;
        self
    }

    /// Takes the next step.
    ///
    /// # Errors
    /// The error of reading or writing.
    pub(crate) fn take(&mut self, step: Step) -> Result<()> {
        self.tasks += usize::from(matches!(step, Step::Merge(_)));
        self.waiting.push(step);
        if self.tasks == 0 || self.tasks >= self.accelerator.batch() { self.work() } else { Ok(()) }
    }

    /// Ends the last extent.
    ///
    /// # Errors
    /// As [`MergeWriter::take`].
    pub(crate) fn finish(mut self) -> Result<MergeResult> {
        self.work()?;
        self.settle()?;
        if !self.builder.is_empty() {
            self.output.write(&mut self.builder)?;
        }
        let MergeWriter { stays, tally, refusal, .. } = self;
        Ok(MergeResult { stays, tally, refusal })
    }

    fn work(&mut self) -> Result<()> {
        let mut steps = Vec::with_capacity(self.waiting.len());
        let mut tasks: Vec<MergeTask> = Vec::with_capacity(self.tasks);
        for step in self.waiting.drain(..) {
            match step {
                Step::Merge(task) => {
                    tasks.push(task);
                    steps.push(None);
                }
                other => steps.push(Some(other)),
            }
        }
        self.tasks = 0;
        let merged = self.merge(&tasks)?;
        let mut merged = tasks.iter().zip(merged);
        for step in steps {
            match step {
                Some(Step::Relink(slice)) => self.relink(slice)?,
                Some(Step::Pass(Origin::Extent(open, block))) => self.pass(open, block)?,
                Some(Step::Pass(Origin::Memory(block, _))) => self.put_merged(&block)?,
                Some(Step::Merge(_)) | None => {
                    let Some((task, blocks)) = merged.next() else { continue };
                    self.tally.merge_input_bytes += task.bytes();
                    blocks.iter().try_for_each(|block| self.put_merged(block))?;
                }
            }
        }
        Ok(())
    }

    /// Merges tasks with the accelerator. If it refuses several tasks together, each is tried
    /// alone, to find those that it refuses.
    fn merge(&mut self, tasks: &[MergeTask]) -> Result<Vec<Vec<BuiltBlock>>> {
        let error = match self.accelerator.merge(tasks, self.rule) {
            Ok(merged) => {
                if self.accelerator.compares() {
                    self.tally.checked_tasks += tasks.len() as u64;
                }
                return Ok(merged);
            }
            Err(error) => error,
        };
        if tasks.len() > 1 {
            let before = self.tally.refused_tasks;
            let mut merged = Vec::with_capacity(tasks.len());
            for task in tasks {
                merged.append(&mut self.merge(std::slice::from_ref(task))?);
            }
            // The accelerator merged each task alone, but refused them together, so the results of
            // one had differed in the first attempt.
            if self.tally.refused_tasks == before {
                self.refused(tasks, &error);
            }
            return Ok(merged);
        }
        self.refused(tasks, &error);
        // The accelerator has had no effect (OFFLOAD-3), so the CPU does the work.
        Cpu.merge(tasks, self.rule)
    }

    /// Counts one of these tasks as refused.
    fn refused(&mut self, tasks: &[MergeTask], error: &Error) {
        self.tally.refused_tasks += 1;
        let mut keys = tasks.iter().map(MergeTask::keys);
        let Some((first, last)) = keys.next() else { return };
        let last = keys.next_back().map_or(last, |(_, last)| last);
        let (first, last) = (first.escape_ascii(), last.escape_ascii());
        self.refusal = Some(format!("keys from \"{first}\" to \"{last}\": {error}"));
    }

    fn relink(&mut self, slice: Arc<Slice>) -> Result<()> {
        self.settle()?;
        self.builder.cut();
        self.tally.relinked_slices += 1;
        self.tally.relinked_bytes += slice.meta.bytes;
        self.stays.push(slice);
        Ok(())
    }

    fn pass(&mut self, open: OpenSlice, block: usize) -> Result<()> {
        let bytes = u64::from(open.resident.place(block).len);
        if let Some(pending) = &mut self.pending
            && Arc::ptr_eq(&pending.open.slice, &open.slice)
            && pending.blocks.end == block
        {
            pending.blocks.end += 1;
            pending.bytes += bytes;
            return Ok(());
        }
        self.settle()?;
        self.pending = Some(Pending { open, blocks: block..block + 1, bytes });
        Ok(())
    }

    /// Decides about the pending blocks: many stay in place, few are carried.
    fn settle(&mut self) -> Result<()> {
        let Some(Pending { open, blocks, bytes }) = self.pending.take() else { return Ok(()) };
        let slice = &open.slice;
        if !self.policy.may_stay(slice, bytes) {
            return self.carry(&open, blocks);
        }
        let meta = open.resident.slice(slice.meta.extent, blocks);
        let extent = slice.extent.clone();
        self.relink(Slice::new(Arc::new(meta), extent))
    }

    /// Copies blocks unchanged, or encodes them if a stronger coding is wanted.
    fn carry(&mut self, open: &OpenSlice, blocks: Range<usize>) -> Result<()> {
        let (slice, resident) = (&open.slice, &open.resident);
        let wanted = self.coder.coding();
        for block in blocks {
            open.frame(block, |frame| {
                let place = resident.place(block);
                let parts = BlockParts {
                    frame,
                    first: resident.first(block),
                    last: resident.last(block),
                    counts: &place.counts,
                    filter: resident.filter(block),
                };
                let coding = slice.extent.check_block(resident, block, frame)?;
                self.tally.carried_blocks += 1;
                self.tally.carried_bytes += frame.len() as u64;
                if coding < wanted && slice.extent.meta.coding < wanted {
                    let block = slice.extent.open_block(resident, block, frame)?;
                    self.put_coded(block.body(), &parts)?;
                } else {
                    self.put(&parts)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn put_merged(&mut self, block: &BuiltBlock) -> Result<()> {
        self.settle()?;
        self.tally.merged_blocks += 1;
        self.tally.merged_bytes += block.frame.len() as u64;
        if self.coder.coding() == Coding::Stored {
            return self.put(&block.into());
        }
        self.put_coded(&block.frame[FRAME_BYTES..], &block.into())
    }

    /// Writes a block with this body.
    fn put_coded(&mut self, body: &[u8], block: &BlockParts<'_>) -> Result<()> {
        let frame = self.coder.code(body);
        self.tally.coded_from_bytes += body.len() as u64;
        self.tally.coded_bytes += frame.len() as u64;
        let put = self.put(&BlockParts { frame: &frame, ..*block });
        self.coder.reuse(frame);
        put
    }

    fn put(&mut self, block: &BlockParts<'_>) -> Result<()> {
        if self.builder.is_full_for(block) {
            self.output.write(&mut self.builder)?;
        }
        let cuts_before = self.cuts.before_key(block.first);
        if std::mem::replace(&mut self.cuts_before, cuts_before) != cuts_before {
            self.builder.cut();
        }
        self.builder.push(block);
        Ok(())
    }
}
