//! Histories: the steps of a metamorphic run, which are the same under all settings.

use super::super::*;

/// A step of a history, which does not depend on the settings.
pub(super) enum Step {
    Commit(WriteBatch),
    /// A reader takes the current snapshot.
    Hold,
    /// The oldest reader ends.
    Release,
    /// A scan of all or some keys, and lookups, at the newest commit or at a held snapshot.
    Read {
        held: Option<u64>,
        seed: u64,
    },
    /// Some adjacent rows are read repeatedly, from this row on.
    Favour(u64),
    /// A scan begins, and pauses after some rows.
    Begin {
        seed: u64,
    },
    /// The oldest paused scan continues to its end.
    Resume,
    Persist,
    Flush,
    Work,
    CompactAll,
    /// A compaction of a sub-table, even if none is due.
    Compact(u64),
    Split(u64),
    Join(u64),
    /// A backup begins.
    Pin,
    /// The backup that was begun first is read, with the state of its beginning, and restored.
    Restore,
    Open {
        crash: bool,
    },
}

pub(super) const KEYS: u64 = 400;
/// The table that is used as a queue.
pub(super) const QUEUE: u32 = 2;

pub(super) fn key_of(id: u32, number: u64) -> Vec<u8> {
    match id {
        QUEUE => number.to_be_bytes().to_vec(),
        // Keys that are prefixes of each other, and long keys.
        _ if number % 10 == 7 => format!("key{:02}", number / 10).into_bytes(),
        _ if number % 10 == 8 => format!("key{number:03}{}", "-".repeat(300)).into_bytes(),
        _ => format!("key{number:03}").into_bytes(),
    }
}

/// The limits of the bytes of a history's values.
struct Values {
    /// The limit for most values.
    most: u64,
    largest: u64,
}

impl Values {
    /// In half of the histories values are short, so that a block has many of them, and memtables
    /// return several rows at once.
    fn of(seed: u64, slot_bytes: u64) -> Values {
        match seed / 2 % 2 {
            0 => Values { most: 1500, largest: 2 * slot_bytes },
            _ => Values { most: 60, largest: slot_bytes / 8 },
        }
    }
}

fn value_of(rng: &mut Rng, values: &Values) -> Vec<u8> {
    let bytes = match rng.below(60) {
        0 => rng.below(values.largest),
        1..4 => 0,
        _ => rng.below(values.most),
    };
    let bytes = bytes as usize;
    match rng.below(6) {
        0 => noise(rng.next_u64(), bytes),
        1 => vec![rng.below(256) as u8; bytes],
        _ => {
            let words = ["buyer", "state", "shipped", "price", "address", "quantity", "0123"];
            let mut text = String::new();
            while text.len() < bytes {
                text.push_str(words[rng.below(7) as usize]);
                text.push_str(&rng.below(1000).to_string());
            }
            text.truncate(bytes);
            text.into_bytes()
        }
    }
}

/// A history. Tables 1 and 2 always exist. A third table is repeatedly dropped, and created again
/// under another number.
pub(super) fn steps_of(seed: u64, count: usize, slot_bytes: u64) -> Vec<Step> {
    let created: Vec<Op<'_>> = (1..=3).map(|number| Op::CreateTable(table(number))).collect();
    let mut steps = vec![Step::Commit(batch(&created))];
    let mut author = Author::new(seed, slot_bytes);
    while steps.len() < count {
        steps.extend(author.step());
    }
    steps
}

/// The generator of a history, with the state that later steps depend on.
struct Author {
    rng: Rng,
    values: Values,
    has_ranges: bool,
    /// The first of the rows that are read more often than others.
    favourite: u64,
    /// The number of commits so far.
    commits: u64,
    /// The number of the third table.
    third: u32,
    /// The first row of the queue.
    head: u64,
    tail: u64,
    held: u64,
    begun: u64,
    pinned: u64,
}

impl Author {
    fn new(seed: u64, slot_bytes: u64) -> Author {
        Author {
            rng: Rng::new(seed),
            values: Values::of(seed, slot_bytes),
            // With range deletions, scans return rows one by one.
            has_ranges: !seed.is_multiple_of(3),
            favourite: seed * 70 % KEYS,
            commits: 1,
            third: 3,
            head: 0,
            tail: 0,
            held: 0,
            begun: 0,
            pinned: 0,
        }
    }

    /// The next step; `None` if the chosen step is not possible now.
    fn step(&mut self) -> Option<Step> {
        Some(match self.rng.below(1000) {
            0..100 => self.neighbours(),
            100..700 => self.changes(),
            700..705 => self.another_third(),
            at @ 705..840 => return self.reader(at),
            840..880 => Step::Persist,
            880..900 => Step::Flush,
            900..920 => Step::Work,
            920..930 => Step::Favour(self.favourite),
            930..933 => Step::CompactAll,
            933..953 => Step::Compact(self.rng.next_u64()),
            953..967 => Step::Split(self.rng.next_u64()),
            967..981 => Step::Join(self.rng.next_u64()),
            981..990 => {
                (self.held, self.begun, self.pinned) = (0, 0, 0);
                Step::Open { crash: self.rng.chance(1, 2) }
            }
            990..995 => {
                self.pinned += 1;
                Step::Pin
            }
            _ => {
                self.pinned = self.pinned.checked_sub(1)?;
                Step::Restore
            }
        })
    }

    /// A step of readers, one of 135 kinds.
    fn reader(&mut self, at: u64) -> Option<Step> {
        Some(match at {
            705..735 => {
                self.held += 1;
                Step::Hold
            }
            735..760 => {
                self.held = self.held.checked_sub(1)?;
                Step::Release
            }
            760..800 => {
                let of_held = self.held > 0 && self.rng.chance(2, 3);
                let held = of_held.then(|| self.rng.below(self.held));
                Step::Read { held, seed: self.rng.next_u64() }
            }
            800..820 => {
                self.begun += 1;
                Step::Begin { seed: self.rng.next_u64() }
            }
            _ => {
                self.begun = self.begun.checked_sub(1)?;
                Step::Resume
            }
        })
    }

    fn commit(&mut self, batch: WriteBatch) -> Step {
        self.commits += 1;
        Step::Commit(batch)
    }

    fn another_third(&mut self) -> Step {
        let dropped = self.third;
        self.third += 1;
        self.commit(batch(&[Op::DropTable(table(dropped)), Op::CreateTable(table(self.third))]))
    }

    /// Changes adjacent rows, so that the rows around them stay where they are.
    fn neighbours(&mut self) -> Step {
        let mut batch = WriteBatch::new();
        let (first, delete) = (self.rng.below(KEYS), self.rng.chance(1, 4));
        for number in first..(first + 5 + self.rng.below(20)).min(KEYS) {
            self.change(&mut batch, 1, number, delete);
        }
        self.commit(batch)
    }

    fn changes(&mut self) -> Step {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + self.rng.below(6) {
            let id = self.some_table();
            let (number, delete) = match (id, self.rng.below(2)) {
                (QUEUE, 0) if self.head < self.tail => (self.head, true),
                (QUEUE, _) => (self.tail, false),
                _ => (self.rng.below(KEYS), self.rng.chance(1, 4)),
            };
            if id == QUEUE {
                *(if delete { &mut self.head } else { &mut self.tail }) += 1;
            }
            self.change(&mut batch, id, number, delete);
        }
        if self.has_ranges && self.rng.chance(1, 40) {
            self.delete_range(&mut batch);
        }
        self.commit(batch)
    }

    fn some_table(&mut self) -> u32 {
        [1, 1, QUEUE, self.third][self.rng.below(4) as usize]
    }

    fn change(&mut self, batch: &mut WriteBatch, id: u32, number: u64, delete: bool) {
        let key = key_of(id, number);
        let (table, key) = (table(id), &*key);
        match delete {
            true => batch.push(Op::Delete { table, key }),
            false => {
                batch.push(Op::Put { table, key, value: &value_of(&mut self.rng, &self.values) });
            }
        }
    }

    fn delete_range(&mut self, batch: &mut WriteBatch) {
        let id = self.some_table();
        let first = if id == QUEUE { self.head } else { self.rng.below(KEYS) };
        let most = if self.rng.chance(1, 10) { KEYS } else { KEYS / 20 };
        let (start, end) = (key_of(id, first), key_of(id, first + 1 + self.rng.below(most)));
        let end = self.rng.chance(30, 31).then_some(&*end);
        let upto = Csn(self.commits.saturating_sub(self.rng.below(6)));
        let range = KeyRange::new(&start, end);
        if !range.is_empty() {
            batch.push(Op::DeleteRange { table: table(id), range, upto });
        }
    }
}
