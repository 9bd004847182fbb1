//! The directory of tables: a table that maps names to numbers.
//!
//! The key of a row is a table's name, and its value the table's number (u32, little-endian). One
//! more row has the empty name as its key. Its value is the largest reserved number ([`Numbers`]),
//! in the same form.

use spillway_base::codec::Reader;
use spillway_base::lock::Mutex;
use spillway_base::{EngineKind, Result, TableId};
use spillway_txn::{Frees, TransactionManager, TransactionOptions};

/// The table that holds the directory.
pub(crate) const DIRECTORY: TableId = TableId(0);
const RESERVED: &[u8] = b"";

/// Checks a name, which must differ from the key of the directory's own row.
pub(crate) fn key(name: &str) -> Result<&[u8]> {
    if name.is_empty() {
        return Err(spillway_base::Error::invalid("a table's name is not empty"));
    }
    Ok(name.as_bytes())
}

pub(crate) fn decode(value: &[u8]) -> Result<TableId> {
    Ok(TableId(Reader::new(value).u32()?))
}

pub(crate) fn encode(table: TableId) -> [u8; 4] {
    table.0.to_le_bytes()
}

/// Assigns numbers to new tables. A number is never assigned twice, even after a crash. Numbers are
/// reserved in blocks, by transactions of their own, so that transactions which create tables at
/// the same time do not conflict over the row of the reserved number.
pub(crate) struct Numbers(Mutex<Block>);

struct Block {
    next: u32,
    /// The last number that is reserved in the directory.
    reserved: u32,
}

const BLOCK: u32 = 64;

impl Numbers {
    /// Continues after the numbers that the directory has reserved.
    pub(crate) fn after(reserved: u32) -> Numbers {
        Numbers(Mutex::new(Block { next: reserved + 1, reserved }))
    }

    pub(crate) fn next(&self, manager: &TransactionManager, engine: EngineKind) -> Result<TableId> {
        let mut block = self.0.lock();
        if block.next > block.reserved {
            let reserved = block.reserved + BLOCK;
            // A TRUNCATE needs a new number, also on a full disk, so this commit may use the
            // reserve.
            let txn = manager.begin(TransactionOptions::new().frees(Frees::Tables));
            txn.put(DIRECTORY, RESERVED, &reserved.to_le_bytes())?;
            txn.commit().wait()?;
            block.reserved = reserved;
        }
        let number = block.next;
        block.next += 1;
        Ok(TableId::new(engine, number))
    }
}

/// The largest number that the directory has reserved.
pub(crate) fn reserved(manager: &TransactionManager) -> Result<u32> {
    let txn = manager.begin(TransactionOptions::new().read_only(true));
    let mut value = Vec::new();
    if txn.get(DIRECTORY, RESERVED, &mut value)? { Reader::new(&value).u32() } else { Ok(0) }
}

/// Whether a row of the directory is a table's.
pub(crate) fn is_table(key: &[u8]) -> bool {
    key != RESERVED
}
