//! The row cache: a hash table of the newest versions of rows that are read often (X-Engine,
//! section 3.1.2).
//!
//! A point read first checks the row cache. A hit loads only the cache line of a bucket and the
//! cached row, no matter whether the row is stored in a memtable or in a level. If memory is small,
//! cached rows serve more reads for each byte than cached blocks do, because a block also holds the
//! neighbours of a hot row, which are mostly cold.
//!
//! # Guarantees
//!
//! - **ROW-CACHE-1 (newest).** A cached row is the newest version of its key among the installed
//!   commits. While a commit is being installed, the cache may still have the version before this
//!   commit, but no snapshot includes the commit yet (E2). So a snapshot at or above the cached
//!   row's CSN sees this row. For a snapshot below it, the lookup continues in the memtables and
//!   levels.
//! - **ROW-CACHE-2 (replaced by commit).** Once a commit is installed, the cache has the new value
//!   of each cached row that the commit wrote. Rows that the commit deleted, or made too large for
//!   the cache, are no longer cached. Flushes and compactions change no newest version, so they do
//!   not change the row cache.
//! - **ROW-CACHE-3 (eras).** A change that hides rows without writing a new version of each row,
//!   such as a range tombstone, begins an *era* of its table. Once the commit of the change is
//!   visible, no lookup finds a row of an earlier era.
//! - **ROW-CACHE-4 (readers).** A hit takes no lock and no reference count. A row that a reader
//!   found stays in memory until the reader is done (EPOCH-1).
//! - **ROW-CACHE-5 (admission).** A row enters the cache when lookups miss its key for the second
//!   time with few misses of other keys in between. So scans, and reads of each key once, evict no
//!   cached rows.
//! - **ROW-CACHE-6 (charged).** Rows, and evicted rows that a reader may still see, are charged to
//!   the budget. Rows have at most their share of the memory that the budget leaves to caches
//!   (`super::cache_balancer`, BALANCER-1 to BALANCER-5). With memory that no cache uses, rows may
//!   exceed their share, up to the maximum share (BALANCER-3). If blocks need this memory, the
//!   cache first evicts rows beyond the share, whether they were used lately or not. If other users
//!   of the budget need memory, rows and blocks are evicted together (BUDGET-1, BUDGET-2).
//!
//! # How ROW-CACHE-1 is kept
//!
//! A thread that inserts a row must not insert a version that a concurrent commit has just
//! replaced. Each bucket counts how often it was locked. The inserting thread first reads the count
//! of the row's bucket and then looks up the newest version. It inserts this version only if the
//! count is still the same. A commit first installs its versions, then locks the bucket of each of
//! its keys and replaces the cached row. Three orders are possible:
//!
//! - The commit locks the bucket before the thread reads the count. Then the thread finds the
//!   commit's version.
//! - The commit locks the bucket between the thread's reading of the count and its insertion. Then
//!   the count has changed, and the thread does not insert the row.
//! - The commit locks the bucket after the insertion. Then the commit replaces the row.
//!
//! Rejected: replacing a cached row when its memtable is flushed, as the paper does, instead of at
//! the commit. Until the flush, the row cache would have an older version than the memtables. So a
//! lookup could use the row cache only after it has searched all memtables. A flush would also have
//! to block insertions into the row cache until it publishes its view. Otherwise a thread that
//! reads the view from before the flush could insert an old version of a row after the flush has
//! replaced this version in the cache.

mod admission_filter;
mod bucket;
mod ghosts;
#[cfg(all(test, loom))]
mod loom_tests;
mod row;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering};

use spillway_base::budget::{Budget, Charge, Use};
#[cfg(not(loom))]
use spillway_base::lock::{Mutex, MutexGuard};
#[cfg(loom)]
use spillway_base::modelled::{Mutex, MutexGuard};
use spillway_base::{Csn, TableId};
use spillway_reclaim::epochs::{Epochs, Limbo, STRIPES, stripe};
use spillway_reclaim::pages::in_large;

use self::admission_filter::AdmissionFilter;
use self::bucket::{Bucket, LockedBucket, WAYS};
use self::ghosts::Ghosts;
use self::row::{CachedRow, RemovedRow};
use super::cache_balancer::{CacheBalancer, GHOST_SHARE, GhostMissCosts, SHARE_MOST};

pub(crate) use self::row::Tag;

/// Bytes of an average row, from which the number of buckets follows. If rows are longer, slots
/// stay empty. If rows are shorter, they evict each other from their buckets.
const ROW_BYTES: usize = 112;
/// Bytes of the largest cached row.
const ROW_BYTES_MAX: usize = 4 << 10;
/// Places of the admission filter for each bucket.
const SEEN_PER_BUCKET: usize = 16;
/// The part of the budget that stays free.
const HEADROOM_SHARE: usize = 32;
/// Evicted rows are released in groups of this many.
const RELEASED_TOGETHER: usize = if cfg!(loom) { 1 } else { 64 };
/// The most bytes by which the account of a stripe may differ from the total: this fraction of the
/// budget, and at most these bytes.
const ACCOUNT_BYTES: isize = 64 << 10;
const ACCOUNT_SHARE: usize = 1024;
/// The most buckets that one caller, which may be a commit, searches for victims, and the most
/// bytes that it evicts.
const BUCKETS_AT_ONCE: usize = 4096;
const BYTES_AT_ONCE: usize = 1 << 20;
/// The most bytes beyond the rows' share that are evicted at once. This takes some ten
/// milliseconds, and frees as much memory as an eviction of blocks would.
const PAST_AT_ONCE: usize = 16 << 20;
/// The most bytes that a thread evicts when it inserts a row. It also makes room for later rows: a
/// `SPARE_SHARE`th of the capacity, and at most half of these bytes.
const BYTES_FOR_A_ROW: usize = 64 << 10;
const SPARE_SHARE: usize = 128;
/// The share of the memory for caches that rows have in any case, in addition to buckets. Without
/// it, the cache would search all buckets after each insertion to evict the row again, and no ghost
/// miss would occur.
const ROWS_LEAST: usize = 128;
/// The share of the memory for caches that rows beyond their own share leave free. An eviction of
/// blocks for a new block frees a little more than the new block takes, so a little free memory
/// does not mean that blocks need none.
const IDLE_SHARE: usize = 64;
/// The marks of a new row, whose key was missed twice.
const MARKS_AT_FIRST: usize = 1;

fn fits(key: &[u8], value: &[u8]) -> bool {
    CachedRow::bytes_of(key.len(), value.len()) <= ROW_BYTES_MAX
}

/// Rows that the threads of a stripe evicted, and the change of bytes that the stripe has not added
/// to the total yet.
#[derive(Default)]
struct Left {
    limbo: Limbo<RemovedRow>,
    change: isize,
}

#[derive(Default)]
#[repr(align(128))]
struct RowStripe {
    left: Mutex<Left>,
    misses: AtomicU64,
}

/// The result of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Looked {
    /// The snapshot sees a version, which this commit wrote.
    Found(Csn),
    /// A version that is newer than the snapshot.
    Newer,
    /// No version of the key.
    Missing(Ticket),
}

/// The lock count of a bucket when a key was missing there; `None` if the bucket was locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket(Option<u64>);

/// A row cache.
pub(crate) struct RowCache {
    epochs: Epochs,
    buckets: Box<[Bucket]>,
    seen: AdmissionFilter,
    stripes: [RowStripe; STRIPES],
    budget: Budget,
    /// The share of rows in the memory that the budget leaves to caches.
    balance: Arc<CacheBalancer>,
    /// The evicted rows, if the share moves.
    ghosts: Option<Ghosts>,
    /// Bytes of ghost misses.
    ghost_missed: AtomicU64,
    /// The most bytes by which a stripe's account may differ.
    off_most: isize,
    /// Bytes of rows, including evicted rows that are not released.
    held: AtomicIsize,
    /// The charge for buckets and rows.
    charge: Mutex<Charge>,
    fixed_bytes: usize,
    /// The next bucket to search for victims.
    hand: AtomicUsize,
    eras: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock()
}

impl RowCache {
    /// A cache that takes at most its share of the memory that the budget leaves to caches. Its
    /// buckets are in large pages of the system if they `may_be_large`. `None` if the share or the
    /// budget is too small.
    pub(crate) fn new(
        balance: Arc<CacheBalancer>,
        may_be_large: bool,
        budget: &Budget,
    ) -> Option<RowCache> {
        let bytes = (budget.limit().min(1 << 46) as f64 * balance.share()) as usize;
        let buckets = bytes / ROW_BYTES / WAYS;
        if buckets == 0 {
            return None;
        }
        Some(RowCache::of(buckets.next_power_of_two(), balance, may_be_large, budget))
    }

    fn of(
        buckets: usize,
        balance: Arc<CacheBalancer>,
        may_be_large: bool,
        budget: &Budget,
    ) -> RowCache {
        let places = buckets * SEEN_PER_BUCKET;
        let ghosts = balance.moves().then(|| Ghosts::new(buckets, budget.limit()));
        let ghost_bytes = ghosts.as_ref().map_or(0, |_| Ghosts::bytes_of(buckets));
        let fixed_bytes =
            buckets * size_of::<Bucket>() + AdmissionFilter::bytes_of(places) + ghost_bytes;
        RowCache {
            epochs: Epochs::default(),
            buckets: in_large((0..buckets).map(|_| Bucket::default()), may_be_large),
            seen: AdmissionFilter::new(places, may_be_large),
            stripes: std::array::from_fn(|_| RowStripe::default()),
            budget: budget.clone(),
            balance,
            ghosts,
            ghost_missed: AtomicU64::new(0),
            off_most: ACCOUNT_BYTES.min((budget.limit() / ACCOUNT_SHARE) as isize),
            held: AtomicIsize::new(0),
            charge: Mutex::new(budget.charge(Use::Caches, fixed_bytes)),
            fixed_bytes,
            hand: AtomicUsize::new(0),
            eras: AtomicU64::new(0),
        }
    }

    /// Begins a new era of a table, without rows; `None` if there were too many.
    pub(crate) fn new_era(&self, table: TableId) -> Option<Tag> {
        let era = self.eras.fetch_add(1, Ordering::Relaxed) + 1;
        Some(Tag::new(table, u32::try_from(era).ok()?))
    }

    #[inline]
    fn bucket(&self, hash: u64) -> &Bucket {
        &self.buckets[self.number(hash)]
    }

    #[inline]
    fn number(&self, hash: u64) -> usize {
        (hash >> 20) as usize & (self.buckets.len() - 1)
    }

    /// Prefetches the first cache line for [`RowCache::get`] and [`RowCache::replace`].
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.bucket(hash).prefetch();
    }

    /// Prefetches for [`RowCache::get`] of several keys: their buckets, then the rows. This is not
    /// a lookup.
    pub(crate) fn expect_all(&self, hashes: impl Iterator<Item = u64> + Clone) {
        hashes.clone().for_each(|hash| self.prefetch(hash));
        for hash in hashes {
            self.bucket(hash).may_have(hash);
        }
    }

    /// Looks up the version of a key that a snapshot sees; its value goes into `value`.
    #[inline]
    pub(crate) fn get(
        &self,
        tag: Tag,
        hash: u64,
        key: &[u8],
        snapshot: Csn,
        value: &mut Vec<u8>,
    ) -> Looked {
        let ticket = Ticket(self.bucket(hash).version());
        match self.find(tag, hash, key, snapshot, value) {
            Some(csn) if csn <= snapshot => Looked::Found(csn),
            Some(_) => Looked::Newer,
            None => {
                self.note_miss();
                Looked::Missing(ticket)
            }
        }
    }

    /// Whether [`RowCache::get`] would find the version of a key that a snapshot sees. This is not
    /// a lookup.
    pub(crate) fn has(&self, tag: Tag, hash: u64, key: &[u8], snapshot: Csn) -> bool {
        let bucket = self.bucket(hash);
        if !bucket.may_have(hash) {
            return false;
        }
        let pin = self.epochs.pin();
        #[allow(unsafe_code)]
        // SAFETY: a row removed from a bucket is released only after these readers have left.
        let row = unsafe { bucket.find(hash, &pin, |row| row.tag() == tag && row.key() == key) };
        row.is_some_and(|row| row.csn() <= snapshot)
    }

    /// The commit of a key's row. If the snapshot sees the row, its value goes into `value`, and
    /// the lookup counts as a hit.
    #[inline]
    fn find(
        &self,
        tag: Tag,
        hash: u64,
        key: &[u8],
        snapshot: Csn,
        value: &mut Vec<u8>,
    ) -> Option<Csn> {
        let bucket = self.bucket(hash);
        if !bucket.may_have(hash) {
            return None;
        }
        let pin = self.epochs.pin();
        #[allow(unsafe_code)]
        // SAFETY: a row removed from a bucket is released only after these readers have left.
        let row = unsafe { bucket.find(hash, &pin, |row| row.tag() == tag && row.key() == key) }?;
        if row.csn() <= snapshot {
            value.clear();
            value.extend_from_slice(row.value());
            pin.hit();
        }
        Some(row.csn())
    }

    /// Offers a row that was missing here and found elsewhere. If the key is missed often enough,
    /// its newest installed version is inserted. That version is `found` if `is_newest` returns
    /// `true`. Otherwise `newest` looks it up: it puts the value into its argument and returns the
    /// commit. It returns `None` if there is no value, or if a read would have to wait. The caller
    /// read `tag` before it looked up the key. Returns whether a row was inserted.
    pub(crate) fn offer(
        &self,
        (tag, hash, key): (Tag, u64, &[u8]),
        ticket: Ticket,
        found: (Csn, &[u8]),
        is_newest: impl FnOnce() -> bool,
        newest: impl FnOnce(&mut Vec<u8>) -> Option<Csn>,
    ) -> bool {
        if !fits(key, found.1) || !self.seen.again(hash) {
            return false;
        }
        let came = match ticket.0 {
            Some(version) if is_newest() => self.put(tag, hash, key, version, found),
            _ => self.admit(tag, hash, key, newest),
        };
        came.is_some()
    }

    /// Whether a missing row was evicted lately: a little more memory would have kept it.
    #[inline]
    pub(crate) fn left_lately(&self, hash: u64) -> bool {
        let Some(ghosts) = &self.ghosts else { return false };
        let number = self.number(hash);
        number.is_multiple_of(ghosts::SAMPLE)
            && ghosts.left_lately(number, hash, self.caches() / GHOST_SHARE)
    }

    /// Counts bytes that were read for a row that was evicted lately.
    #[cold]
    pub(crate) fn note_ghost_miss(&self, bytes: u64) {
        self.ghost_missed.fetch_add(bytes * ghosts::SAMPLE as u64, Ordering::Relaxed);
    }

    /// The approximate bytes of ghost misses.
    pub(crate) fn ghost_missed(&self) -> u64 {
        self.ghost_missed.load(Ordering::Relaxed)
    }

    /// Counts a miss, whether or not there is a row elsewhere.
    #[inline]
    fn note_miss(&self) {
        self.stripes[stripe()].misses.fetch_add(1, Ordering::Relaxed);
    }

    fn admit(
        &self,
        tag: Tag,
        hash: u64,
        key: &[u8],
        newest: impl FnOnce(&mut Vec<u8>) -> Option<Csn>,
    ) -> Option<()> {
        // ROW-CACHE-1: before the newest version is read.
        let version = self.bucket(hash).version()?;
        let mut value = Vec::new();
        let csn = newest(&mut value)?;
        if fits(key, &value) { self.put(tag, hash, key, version, (csn, &value)) } else { None }
    }

    /// Inserts the newest version, if the bucket's lock count is still what it was before the
    /// version was read.
    fn put(
        &self,
        tag: Tag,
        hash: u64,
        key: &[u8],
        version: u64,
        (csn, value): (Csn, &[u8]),
    ) -> Option<()> {
        let row = CachedRow::new(tag, csn, key, value);
        let mut held = self.bucket(hash).lock_at(version)?;
        let known = held.find(hash, |row| row.tag().table() == tag.table() && row.key() == key);
        let at = known.unwrap_or_else(|| held.place());
        let (came, gone) = held.put(at, hash, row, MARKS_AT_FIRST);
        drop(held);
        self.left(came, gone);
        let most = self.capacity();
        if self.held() > most && !self.has_room() {
            // Evicts a little more, so that not each row evicts another.
            let spare = (most / SPARE_SHARE).min(BYTES_FOR_A_ROW / 2);
            self.evict_to(most - spare, BYTES_FOR_A_ROW);
        }
        Some(())
    }

    /// Replaces the row of an installed commit, if it is cached, by its new value, or removes it
    /// (ROW-CACHE-2).
    pub(crate) fn replace(
        &self,
        table: TableId,
        hash: u64,
        key: &[u8],
        csn: Csn,
        value: Option<&[u8]>,
    ) {
        // Lock the bucket even if it has no row, to reject rows of readers that missed before the
        // commit (ROW-CACHE-1).
        let mut held = self.bucket(hash).lock();
        let known = held.find(hash, |row| row.tag().table() == table && row.key() == key);
        let Some(at) = known else { return };
        // A commit may write a key more than once; the last write counts.
        let Some(old) = held.row(at).filter(|old| old.csn() <= csn) else { return };
        let (came, gone) = match value.filter(|value| fits(key, value)) {
            Some(value) => {
                // The row keeps its era even if that has passed: it is unknown whether the new era
                // began before this commit.
                let row = CachedRow::new(old.tag(), csn, key, value);
                let marks = held.marks(at);
                held.put(at, hash, row, marks)
            }
            None => (0, held.take(at)),
        };
        drop(held);
        self.left(came, gone);
    }

    /// Counts bytes that entered, and a row that left.
    fn left(&self, came: usize, gone: Option<RemovedRow>) {
        let mut left = lock(&self.stripes[stripe()].left);
        left.change += came as isize;
        let mut ended = Vec::new();
        if let Some(gone) = gone {
            left.limbo.put(gone);
            if left.limbo.len() >= RELEASED_TOGETHER {
                self.release(&mut left, &mut ended);
            }
        }
        let told = left.change.abs() >= self.off_most;
        let change = if told { std::mem::take(&mut left.change) } else { 0 };
        drop(left);
        if told {
            self.account(change);
        }
    }

    fn account(&self, change: isize) {
        let mut charge = lock(&self.charge);
        let held = self.held.fetch_add(change, Ordering::Relaxed) + change;
        charge.resize(self.fixed_bytes.saturating_add_signed(held.max(0)));
    }

    /// Releases evicted rows that no reader can see any more. The caller drops them without a lock.
    fn release(&self, left: &mut Left, ended: &mut Vec<CachedRow>) {
        let mut out = Vec::new();
        left.limbo.release(&self.epochs, &mut out);
        for gone in out {
            left.change -= gone.get().memory_bytes() as isize;
            #[allow(unsafe_code)]
            // SAFETY: every pin from before it was taken out has been waited for.
            ended.push(unsafe { gone.release() });
        }
    }

    /// Releases evicted rows of all stripes where possible, and updates the total. Stripes in use
    /// are skipped.
    fn release_all(&self) {
        for stripe in &self.stripes {
            let Some(mut left) = try_lock(&stripe.left) else { continue };
            let mut ended = Vec::new();
            self.release(&mut left, &mut ended);
            let change = std::mem::take(&mut left.change);
            drop(left);
            if change != 0 {
                self.account(change);
            }
        }
    }

    /// The approximate bytes of rows.
    fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed).max(0).unsigned_abs()
    }

    /// Bytes that the budget leaves to caches now.
    pub(crate) fn caches(&self) -> usize {
        let limit = self.budget.limit();
        let others = self.budget.used_beside(self.budget.used_for(Use::Caches));
        limit.saturating_sub(limit / HEADROOM_SHARE).saturating_sub(others)
    }

    /// Whether rows may exceed their share: with memory that no cache uses, as long as no block
    /// needs it, up to the largest share of rows (BALANCER-3, BALANCER-4).
    fn has_room(&self) -> bool {
        if !self.balance.moves() {
            return false;
        }
        let caches = self.caches();
        self.bytes() < (caches as f64 * SHARE_MOST) as usize
            && self.budget.used_for(Use::Caches) < caches - caches / IDLE_SHARE
    }

    /// Bytes that rows may have now.
    fn capacity(&self) -> usize {
        let caches = self.caches();
        let share = (caches as f64 * self.balance.share()) as usize;
        share.saturating_sub(self.fixed_bytes).max(caches / ROWS_LEAST)
    }

    /// Evicts about `bytes` bytes of rows that were not used recently, from at most
    /// [`BUCKETS_AT_ONCE`] buckets. While rows exceed their share, all buckets may be visited, and
    /// each visited bucket evicts at least one row, marked or not: the hand may not have passed for
    /// long, so the marks may be old.
    fn evict(&self, bytes: usize) {
        let (mut evicted, mut gone) = (0, Vec::new());
        let is_past = self.held() > self.capacity();
        let looks = if is_past { self.buckets.len() } else { BUCKETS_AT_ONCE };
        for _ in 0..looks.min(4 * self.buckets.len()) {
            if evicted >= bytes {
                break;
            }
            let at = self.hand.fetch_add(1, Ordering::Relaxed) & (self.buckets.len() - 1);
            let bucket = &self.buckets[at];
            if bucket.is_empty() {
                continue;
            }
            let Some(mut held) = bucket.try_lock() else { continue };
            let (before, mut least) = (gone.len(), None);
            for way in 0..WAYS {
                if held.row(way).is_none() {
                    continue;
                }
                let marks = held.marks(way);
                if evicted >= bytes {
                    break;
                } else if !held.unmark(way) {
                    evicted += self.take_out((at, way), &mut held, &mut gone);
                } else if least.is_none_or(|(fewest, _)| marks < fewest) {
                    least = Some((marks, way));
                }
            }
            if let Some((_, way)) = least.filter(|_| is_past && gone.len() == before) {
                evicted += self.take_out((at, way), &mut held, &mut gone);
            }
        }
        if let Some(ghosts) = &self.ghosts {
            ghosts.have_left(evicted);
        }
        let mut left = lock(&self.stripes[stripe()].left);
        gone.into_iter().for_each(|gone| left.limbo.put(gone));
        drop(left);
        self.release_all();
    }

    /// Removes a row from a bucket. Returns its bytes.
    fn take_out(
        &self,
        (bucket, way): (usize, usize),
        held: &mut LockedBucket<'_>,
        gone: &mut Vec<RemovedRow>,
    ) -> usize {
        let bytes = held.row(way).map_or(0, |row| row.memory_bytes());
        if let Some(ghosts) = &self.ghosts {
            ghosts.leaves(bucket, held.print(way));
        }
        gone.extend(held.take(way));
        bytes
    }

    /// Evicts rows until at most `most` bytes are left, but no more than `at_once` bytes.
    fn evict_to(&self, most: usize, at_once: usize) {
        // First release the memory of rows that were evicted already.
        self.release_all();
        let over = self.held().saturating_sub(most).min(at_once);
        if over > 0 {
            self.evict(over);
        }
    }

    /// Called after blocks were read. `read` and `others` are the bytes read and those of blocks'
    /// ghost misses since the beginning. Occasionally weighs these against the rows' ghost misses.
    /// Then evicts some rows if they exceed their share (BALANCER-1, BALANCER-4).
    pub(crate) fn weigh(&self, (read, others): (u64, u64)) {
        if !self.balance.moves() {
            return;
        }
        if self.balance.is_due(read, self.caches()) {
            let regrets = GhostMissCosts { rows: self.ghost_missed(), others };
            self.balance.weigh(regrets);
        }
        let most = self.capacity();
        if self.held() > most + BYTES_FOR_A_ROW && !self.has_room() {
            self.evict_to(most, BYTES_FOR_A_ROW);
        }
    }

    /// Evicts about this many bytes, or as many as are evicted at once (ROW-CACHE-6). Returns by
    /// how many bytes the charge has fallen.
    pub(crate) fn give_way(&self, bytes: usize) -> usize {
        let before = self.held();
        let at_once = if before > self.capacity() { PAST_AT_ONCE } else { BYTES_AT_ONCE };
        self.evict_to(before.saturating_sub(bytes), at_once);
        before.saturating_sub(self.held())
    }

    /// The share of rows in the memory that the budget leaves to caches.
    pub(crate) fn share(&self) -> f64 {
        self.balance.share()
    }

    /// Lookups that hit, and all lookups that missed here.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        let misses = self.stripes.iter().map(|stripe| stripe.misses.load(Ordering::Relaxed)).sum();
        (self.epochs.hits(), misses)
    }

    /// Bytes charged.
    pub(crate) fn bytes(&self) -> usize {
        self.fixed_bytes + self.held()
    }

    /// The part of these bytes that can be freed.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held()
    }
}

impl Drop for RowCache {
    fn drop(&mut self) {
        // No pin of the dropped cache exists.
        self.release_all();
    }
}
