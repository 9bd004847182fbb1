//! The parameters of a history: drawn from its seed, and overridden from the command line.

use std::fmt;
use std::time::Duration;

use spillway_base::EngineKind;
use spillway_base::rng::Rng;

/// What a history is made of. A shape that was made smaller still fails or does not by the same
/// seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Times that the database is opened, but for the last look at it.
    pub lives: u64,
    /// Clients of a life.
    pub clients: u64,
    /// Transactions of a client.
    pub transactions: u64,
    /// Keys of each of the two tables.
    pub keys: u64,
    /// The largest value, in bytes.
    pub value_bytes: u64,
    /// Lanes of the log.
    pub lanes: u64,
    /// Bytes of a segment of the log, in KiB.
    pub segment_kib: u64,
    /// Cores that the database thinks it has: background threads follow.
    pub cores: u64,
    /// Which ways a life may end, and which faults it meets: see the constants.
    pub faults: u64,
    /// What runs beside the clients.
    pub beside: u64,
    /// The longest operation of the disk, in microseconds.
    pub operation_us: u64,
    /// Transactions of a hundred that are SERIALIZABLE.
    pub serializable: u64,
    /// Transactions of a hundred that are READ COMMITTED, of those that are not SERIALIZABLE.
    pub committed: u64,
    /// Transactions of a hundred that a client sleeps before.
    pub pauses: u64,
    /// Of a hundred such sleeps, those that end when log care begins, or a little later.
    pub care: u64,
    /// Whether clients are SQL sessions.
    pub sql: u64,
    /// Which tables are in the memory engine, by bits; the others are in the tiered one.
    pub engines: u64,
    /// Bytes of a transaction's writes that it keeps in memory, before it spills them; 0 for the
    /// default, with which none does.
    pub spill_bytes: u64,
    /// Which tiers there are besides the data folder: see the constants.
    pub tiers: u64,
}

/// The most bytes of all values of a table of the clients while another table fills the disk.
const CLIENTS_BYTES: u64 = 64 << 10;
/// The least size of a segment then. The reserve has as much space: several pages for each table
/// that is flushed, or that a checkpoint writes.
pub(super) const EMPTYING_SEGMENT_KIB: u64 = 128;
/// Keys enough for deletions of ranges at once.
const KEYS_MAX: u64 = 96;

/// A crash of the machine may end a life.
pub const CRASH: u64 = 1;
/// A kill of the process may.
pub const KILL: u64 = 2;
/// A close beside clients may.
pub const CLOSE: u64 = 4;
/// Operations fail.
pub const FAIL: u64 = 8;
/// Disks are full.
pub const FULL: u64 = 16;
/// Openings meet faults.
pub const OPENING: u64 = 32;
/// The disk is full for a part of a life.
pub const LASTING: u64 = 64;

/// Syncs fail or lie for a part of a life.
pub const SYNCS: u64 = 128;
/// A table fills the disk, and is dropped or emptied.
pub const EMPTYING: u64 = 256;

/// Flushes run beside clients.
pub const FLUSH: u64 = 1;
/// Compactions do.
pub const COMPACT: u64 = 2;
/// Backups do.
pub const BACKUP: u64 = 4;
/// Something else takes nearly all of the memory from time to time.
pub const PRESSURE: u64 = 8;

/// There is a faster device.
pub const FAST: u64 = 1;
/// There is a slower device.
pub const SLOW: u64 = 2;
/// Each opening draws whether it is given the other devices.
pub const CHANGING: u64 = 4;

impl Shape {
    /// The shape of the history of this seed.
    #[must_use]
    pub fn drawn(seed: u64) -> Shape {
        let mut rng = Rng::new(seed ^ 0x5348_4150_4500);
        let mut any = |of: &[u64]| of[rng.below(of.len() as u64) as usize];
        let shape = Shape {
            lives: any(&[1, 2, 2, 3]),
            clients: any(&[1, 2, 2, 3, 4]),
            transactions: any(&[4, 8, 15, 30]),
            keys: any(&[2, 4, 8, 16, KEYS_MAX]),
            value_bytes: any(&[16, 200, 1500, 3000]),
            lanes: any(&[1, 1, 2, 3]),
            segment_kib: any(&[8, 8, 16, 64]),
            cores: any(&[1, 2, 4]),
            faults: any(&[0, CRASH, CRASH, KILL, CLOSE, CLOSE, 7, 7, 63, 63, 47, FAIL, FULL]),
            beside: any(&[0, FLUSH, FLUSH | COMPACT, 7]),
            operation_us: any(&[0, 20, 100, 1000]),
            serializable: any(&[0, 30, 100]),
            committed: any(&[0, 0, 30, 100]),
            pauses: any(&[3, 20, 60]),
            care: 25,
            sql: any(&[0, 0, 0, 1]),
            // From the seed alone, so that a shape with other engines is like this one otherwise.
            engines: [0, 0, 1, 2, 3, 3][(seed % 6) as usize],
            spill_bytes: 0,
            tiers: 0,
        };
        // Clients without SQL meet log care more often if operations of the disk take no time.
        let brief = Shape { operation_us: 0, serializable: 0, sql: 0, ..shape };
        match any(&[0, 0, 0, 1, 2, 3, 3]) {
            0 => shape.with_more_jobs(seed),
            // Long pauses: races of commits with `close`.
            1 => Shape {
                lives: any(&[1, 2]),
                clients: any(&[2, 2, 3]),
                lanes: any(&[1, 1, 2]),
                faults: any(&[0, CLOSE]),
                beside: 0,
                pauses: 60,
                ..brief
            },
            // Clients often wake with log care, and no other thread flushes for them.
            2 => Shape {
                lives: 1,
                clients: any(&[1, 1, 2]),
                transactions: any(&[15, 30, 60]),
                lanes: 1,
                faults: 0,
                beside: 0,
                pauses: 60,
                care: any(&[25, 90]),
                ..brief
            },
            // Flushes, after which all of the log may be cut, and commits that each fill a segment
            // while log care cuts it. Tables of the memory engine alone, as then only the note of a
            // cut says where the log begins. A life ends soon, before another note is written.
            _ => Shape {
                lives: 3,
                clients: 2,
                transactions: any(&[4, 8, 15]),
                value_bytes: 8000,
                lanes: 4,
                segment_kib: 8,
                faults: any(&[0, KILL]),
                beside: FLUSH,
                pauses: 100,
                care: 90,
                engines: 3,
                ..brief
            },
        }
    }

    /// With jobs that few histories would have otherwise: evictions, spills, folds, moves between
    /// devices, a disk that stays full, a table that fills it, and syncs that fail or lie. They are
    /// drawn apart, so that the rest of a shape does not depend on them.
    fn with_more_jobs(self, seed: u64) -> Shape {
        let mut rng = Rng::new(seed ^ 0x4A4F_4253);
        let mut any = |of: &[u64]| of[rng.below(of.len() as u64) as usize];
        let shape = Shape {
            beside: self.beside | any(&[0, 0, PRESSURE]),
            spill_bytes: any(&[0, 0, 100, 1000]),
            tiers: any(&[0, 0, SLOW | CHANGING, FAST | SLOW, 7]),
            faults: self.faults | any(&[0, 0, 0, LASTING]) | any(&[0, 0, 0, SYNCS | CRASH]),
            ..self
        };
        if any(&[0, 0, 0, 0, 1]) == 1 { shape.emptying() } else { shape }
    }

    /// With a table that fills the disk and is dropped or emptied, and without what would keep its
    /// space from being free ([`Shape::empties`]).
    fn emptying(self) -> Shape {
        Shape {
            faults: self.faults & (CRASH | KILL | CLOSE | OPENING) | EMPTYING,
            beside: self.beside & (FLUSH | COMPACT),
            value_bytes: self.value_bytes.min(CLIENTS_BYTES / self.keys),
            segment_kib: EMPTYING_SEGMENT_KIB,
            lanes: 1,
            spill_bytes: 0,
            ..self
        }
    }

    /// Accounts of SQL histories.
    #[must_use]
    pub fn accounts(&self) -> u64 {
        self.keys.min(16)
    }

    /// The engine of a table: one of the two of a history, or one of a client of SQL.
    #[must_use]
    pub fn engine(&self, table: usize) -> EngineKind {
        if self.engines >> (table % 2) & 1 != 0 { EngineKind::Memory } else { EngineKind::Tiered }
    }

    /// Whether a table may fill the disk and be emptied (SIMULATION-15). No other fault keeps space
    /// from being free, the clients' rows and the log leave room, and the reserve, which takes a
    /// segment at most, has several pages. No transaction spills: on a full disk, a DROP that
    /// spills is refused, and spilled writes cannot be folded, which keeps deleted rows.
    #[must_use]
    pub fn empties(&self) -> bool {
        let others = FAIL | FULL | SYNCS;
        self.faults & EMPTYING != 0
            && self.faults & others == 0
            && self.beside & (BACKUP | PRESSURE) == 0
            && self.keys * self.value_bytes <= CLIENTS_BYTES
            && self.segment_kib >= EMPTYING_SEGMENT_KIB
            && self.spill_bytes == 0
            && self.lanes == 1
    }

    /// The most bytes of a frame of the log: one commit of each client.
    #[must_use]
    pub fn frame_bytes(&self) -> u64 {
        /// The most operations of a transaction.
        const OPERATIONS: u64 = 5;
        /// More than a record has besides its value.
        const HEAD: u64 = 64;
        self.clients * OPERATIONS * (self.keys * HEAD + self.value_bytes + HEAD)
    }

    /// The longest operation of the disk.
    #[must_use]
    pub fn operation_max(&self) -> Duration {
        Duration::from_micros(self.operation_us)
    }

    fn fields(&mut self) -> [(&'static str, &mut u64); 19] {
        [
            ("lives", &mut self.lives),
            ("clients", &mut self.clients),
            ("transactions", &mut self.transactions),
            ("keys", &mut self.keys),
            ("value_bytes", &mut self.value_bytes),
            ("lanes", &mut self.lanes),
            ("segment_kib", &mut self.segment_kib),
            ("cores", &mut self.cores),
            ("faults", &mut self.faults),
            ("beside", &mut self.beside),
            ("operation_us", &mut self.operation_us),
            ("serializable", &mut self.serializable),
            ("committed", &mut self.committed),
            ("pauses", &mut self.pauses),
            ("care", &mut self.care),
            ("sql", &mut self.sql),
            ("engines", &mut self.engines),
            ("spill_bytes", &mut self.spill_bytes),
            ("tiers", &mut self.tiers),
        ]
    }

    /// With one figure set, as `lives=1`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn set(mut self, text: &str) -> Result<Shape, String> {
        let (name, value) = text.split_once('=').ok_or(format!("{text} is not NAME=FIGURE"))?;
        let value = value.parse().map_err(|error| format!("{text}: {error}"))?;
        let field = self.fields().into_iter().find(|(field, _)| *field == name);
        *field.ok_or(format!("a shape has no {name}"))?.1 = value;
        Ok(self)
    }

    /// Shapes with one figure less each, those that leave out most first.
    #[must_use]
    pub fn smaller(&self) -> Vec<Shape> {
        let least = [1, 1, 1, 1, 16, 1, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut all = Vec::new();
        let mut this = *self;
        let now = this.fields().map(|(_, value)| *value);
        for (at, least) in least.into_iter().enumerate() {
            let mut tries = vec![least, now[at] / 2, now[at].saturating_sub(1)];
            if now[at] < 512 {
                // Of those that are bits.
                tries.extend((0..9).map(|bit| now[at] & !(1 << bit)));
            }
            tries.retain(|less| *less >= least && *less < now[at]);
            tries.dedup();
            for less in tries {
                let mut smaller = *self;
                *smaller.fields()[at].1 = less;
                all.push(smaller);
            }
        }
        all
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut this = *self;
        let all = this.fields().map(|(name, value)| format!("{name}={value}"));
        f.write_str(&all.join(" "))
    }
}
