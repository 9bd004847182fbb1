//! Entry points for fuzzing. Each passes arbitrary bytes to decoders of the engine's files, with
//! valid checksums where these are needed, and checks the invariants of the decoded result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::batch::{Op, WriteBatch, read_row_record, seal_rows};
use spillway_base::budget::Budget;
use spillway_base::checksum::crc32c;
use spillway_base::codec::Reader;
use spillway_base::engine::{Access, Engine};
use spillway_base::managed::ManagedEngine;
use spillway_base::{Csn, Direction, EngineKind, KeyRange, Result, TableId};
use spillway_storage::plog::KeptFiles;
use spillway_storage::sim::SimDisk;
use spillway_storage::{Disk, OpenMode};

use crate::engine::{MemoryEngine, MemorySettings, verify};
use crate::index_file::{IndexFile, IndexReader, IndexWriter};
use crate::inspect::inspect_folder;
use crate::manifest::{INDEX, Manifest, PAGES, PageFile, ROWS, TableFiles, file_name};
use crate::pins::FixedHorizon;
use crate::rid::Rid;
use crate::rows::PAGE_ENTRIES;
use crate::segments::Origin;
use crate::stream::{Blocks, Position, Writer};
use crate::table::DeletedRange;
use crate::version::{Place, Word, class_of};

const FILE: &str = "/file";
/// The number of the file in its checksums.
const NUMBER: u64 = 7;

fn put_file(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path, OpenMode::Create).expect("a new file");
    file.write_at(0, bytes).expect("a sound disk");
}

fn whole_file(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).expect("a file that is there");
    let mut bytes = vec![0; file.len().expect("a sound disk") as usize];
    file.read_at(0, &mut bytes).expect("a sound disk");
    bytes
}

/// A manifest: the bytes as one, and behind the first bytes of one.
pub fn manifest(bytes: &[u8]) {
    let mut begun = Manifest::default().encode()[..8].to_vec();
    begun.extend_from_slice(bytes);
    for bytes in [bytes, &begun] {
        let Ok(manifest) = Manifest::decode(bytes) else { continue };
        assert_eq!(Manifest::decode(&manifest.encode()).ok(), Some(manifest));
    }
}

/// The payloads of a stream, by its blocks' positions as well.
fn read_stream(disk: &SimDisk) -> Result<Vec<u8>> {
    let blocks = Blocks::open(disk, Path::new(FILE), NUMBER)?;
    let positions = blocks.positions();
    let mut by_position = Vec::new();
    let outcome = positions
        .and_then(|all| all.iter().try_for_each(|at| blocks.read(*at, &mut by_position).map(drop)));
    let rest = blocks.rest();
    assert_eq!(rest.as_ref().ok(), outcome.is_ok().then_some(&by_position));
    rest
}

/// A stream of blocks: the bytes as a file, and a file of these payloads with one byte changed.
pub fn stream(bytes: &[u8]) {
    let (disk, path) = (SimDisk::new(0), Path::new(FILE));
    put_file(&disk, path, bytes);
    let _ = read_stream(&disk);
    let mut reader = Reader::new(bytes);
    let (Ok(at), Ok(mask)) = (reader.u16(), reader.u8()) else { return };
    let mut writer = Writer::create(&disk, path, NUMBER).expect("a new file");
    let mut written = Vec::new();
    while let (Ok(apart), Ok(payload)) = (reader.u8(), reader.bytes()) {
        match apart % 2 {
            0 => writer.put(|out| out.extend_from_slice(payload)),
            _ => writer.write_apart(payload),
        }
        .expect("a sound disk");
        written.extend_from_slice(payload);
    }
    let len = writer.finish().expect("a sound disk");
    assert_eq!(read_stream(&disk).expect("a stream that was written"), written);
    let mut file = whole_file(&disk, path);
    assert_eq!(file.len() as u64, len);
    file[usize::from(at) % len as usize] ^= mask;
    put_file(&disk, path, &file);
    assert!(mask == 0 || read_stream(&disk).is_err(), "byte {at}");
}

/// A row's record: the bytes as one, and with a checksum that fits.
pub fn row_record(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    if let Some(end) = bytes.len().checked_sub(4) {
        let crc = crc32c(&bytes[..end]);
        sealed[end..].copy_from_slice(&crc.to_le_bytes());
    }
    for bytes in [bytes, &sealed] {
        let Ok(record) = read_row_record(bytes) else { continue };
        let mut again = record_of(record.table, record.key, record.value, record.csn);
        assert_eq!(read_row_record(&again).ok(), Some(record));
        again.truncate(again.len() - 1);
        assert!(read_row_record(&again).is_err());
    }
}

fn record_of(table: TableId, key: &[u8], value: Option<&[u8]>, csn: Csn) -> Vec<u8> {
    let mut batch = WriteBatch::new();
    batch.push(match value {
        Some(value) => Op::Put { table, key, value },
        None => Op::Delete { table, key },
    });
    let mut bytes = batch.as_bytes().to_vec();
    seal_rows(&mut bytes, csn);
    bytes
}

/// Some changes of bytes, read from the front of an input.
struct Changes(Vec<(u8, u16, u8)>);

impl Changes {
    fn read(reader: &mut Reader<'_>) -> Option<Changes> {
        let count = reader.u8().ok()? % 4;
        let change = |reader: &mut Reader<'_>| {
            Some((reader.u8().ok()?, reader.u16().ok()?, reader.u8().ok()?))
        };
        (0..count).map(|_| change(reader)).collect::<Option<_>>().map(Changes)
    }

    fn apply(&self, contents: &mut [&mut Vec<u8>]) {
        let count = contents.len();
        for (which, at, mask) in &self.0 {
            let bytes = &mut contents[usize::from(*which) % count];
            if let Some(at) = usize::from(*at).checked_rem(bytes.len()) {
                bytes[at] ^= mask;
            }
        }
    }

    fn are_none(&self) -> bool {
        self.0.iter().all(|(_, _, mask)| *mask == 0)
    }
}

type Keys = BTreeMap<Vec<u8>, Rid>;

/// The blocks of an index file, one after another, and its directory.
fn index_parts(keys: &Keys) -> (Vec<u8>, Vec<u8>) {
    let (disk, path) = (SimDisk::new(0), Path::new(FILE));
    let mut writer = IndexWriter::create(&disk, path, NUMBER).expect("a new file");
    keys.iter().for_each(|(key, rid)| writer.add(key, *rid).expect("a sound disk"));
    let (of, _) = writer.finish().expect("a sound disk");
    let mut all = Blocks::open(&disk, path, NUMBER).and_then(Blocks::rest).expect("an index");
    let directory = Blocks::open(&disk, path, NUMBER).expect("an index").at(of.directory).rest();
    let directory = directory.expect("a directory");
    all.truncate(all.len() - directory.len());
    (all, directory)
}

/// Writes an index file of such parts. The directory says how they are divided into blocks, as far
/// as it is sound.
fn put_index(
    disk: &SimDisk,
    path: &Path,
    number: u64,
    (mut blocks, directory): (&[u8], &[u8]),
    keys: u64,
) -> IndexFile {
    let mut writer = Writer::create(disk, path, number).expect("a new file");
    let mut reader = Reader::new(directory);
    while let (Ok(len), Ok(_), Ok(_)) = (reader.varint(), reader.varint(), reader.bytes()) {
        let (block, rest) = blocks.split_at(blocks.len().min(len as usize));
        writer.write_apart(block).expect("a sound disk");
        blocks = rest;
    }
    writer.write_apart(blocks).expect("a sound disk");
    let position = writer.position();
    writer.write_apart(directory).expect("a sound disk");
    writer.finish().expect("a sound disk");
    IndexFile { number, keys, directory: position }
}

fn read_index(disk: &SimDisk, of: &IndexFile) -> Result<Keys> {
    let reader = IndexReader::open(disk, Path::new(FILE), of)?;
    let (mut keys, mut last) = (Keys::new(), None);
    for block in 0..reader.blocks.len() {
        let found = reader.read(block)?;
        assert_eq!(found.iter().next().map(|(key, _)| key), Some(reader.first_key(block)));
        for (key, rid) in found.iter() {
            assert!(last.as_deref() < Some(key), "keys are in order");
            assert_eq!(reader.block_of(key), block);
            last = Some(key.to_vec());
            keys.insert(key.to_vec(), rid);
        }
    }
    assert_eq!(keys.len() as u64, of.keys);
    Ok(keys)
}

fn rid(reader: &mut Reader<'_>) -> Result<Rid> {
    Ok(Rid::new(reader.varint()? % Rid::SLOTS_MAX, reader.varint()? as u32))
}

/// A table's index: these bytes as blocks and a directory, and an index of these keys with a few
/// bytes changed.
pub fn index(bytes: &[u8]) {
    let disk = SimDisk::new(0);
    let mut reader = Reader::new(bytes);
    if let (Ok(keys), Ok(directory)) = (reader.varint(), reader.bytes()) {
        let parts = (reader.rest(), directory);
        let of = put_index(&disk, Path::new(FILE), NUMBER, parts, keys);
        let _ = read_index(&disk, &of);
        let other = Position { offset: keys, index: of.directory.index };
        let _ = read_index(&disk, &IndexFile { directory: other, ..of });
    }
    let mut reader = Reader::new(bytes);
    let Some(changes) = Changes::read(&mut reader) else { return };
    let mut keys = Keys::new();
    while let (Ok(key), Ok(rid)) = (reader.bytes(), rid(&mut reader)) {
        keys.insert(key.to_vec(), rid);
    }
    let (mut blocks, mut directory) = index_parts(&keys);
    changes.apply(&mut [&mut blocks, &mut directory]);
    let parts = (&blocks[..], &directory[..]);
    let of = put_index(&disk, Path::new(FILE), NUMBER, parts, keys.len() as u64);
    let found = read_index(&disk, &of);
    assert!(!changes.are_none() || found.is_ok_and(|found| found == keys));
}

const DIR: &str = "/memory";
const LOG: &str = "/log";
const TABLE: u32 = 3;
/// The checkpoint's CSN. All rows have CSNs up to it.
const CSN: Csn = Csn(300);
/// The numbers of the folder's files.
const PAGE_FILE: u64 = 1;
const INDEX_FILE: u64 = 2;
const ROW_FILE: u64 = 3;
/// The slots of a folder's rows are below this one.
const SLOTS: u64 = 4 * PAGE_ENTRIES;

/// The content of a folder, before it has checksums.
struct Folder {
    manifest: Manifest,
    pages: Vec<u8>,
    keys: Keys,
    records: Vec<u8>,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Folder {
    /// A table with the rows that an input describes, some of them deleted, and a deleted range
    /// without rows.
    fn read(reader: &mut Reader<'_>) -> Folder {
        let table = TableId::new(EngineKind::Memory, TABLE);
        let mut words = BTreeMap::new();
        let (mut keys, mut rows, mut records) = (Keys::new(), BTreeMap::new(), Vec::new());
        records.extend_from_slice(b"SPLWROW1");
        records.extend_from_slice(&ROW_FILE.to_le_bytes());
        let handle = reader.u8().unwrap_or(0).into();
        while let (Ok(key), Ok(slot), Ok(csn)) = (reader.bytes(), reader.u16(), reader.u8()) {
            let slot = u64::from(slot) % SLOTS;
            if words.contains_key(&slot) || keys.contains_key(key) {
                continue;
            }
            let value = if csn % 4 == 0 { None } else { reader.bytes().ok() };
            let record = record_of(table, key, value, Csn(1 + u64::from(csn)));
            let offset = records.len() as u32;
            let word = Word::place(Place { handle, offset, class: class_of(record.len()) });
            words.insert(slot, if value.is_none() { word.locked() } else { word });
            records.extend_from_slice(&record);
            keys.insert(key.to_vec(), Rid::new(slot, csn.into()));
            rows.extend(value.map(|value| (key.to_vec(), value.to_vec())));
        }
        let mut pages = Vec::new();
        let numbers: Vec<u64> = (0..SLOTS / PAGE_ENTRIES)
            .filter(|page| words.range(page * PAGE_ENTRIES..).next().is_some())
            .collect();
        for page in &numbers {
            pages.extend_from_slice(&page.to_le_bytes());
            for slot in page * PAGE_ENTRIES..(page + 1) * PAGE_ENTRIES {
                let word = words.get(&slot).copied().unwrap_or(Word::EMPTY);
                pages.extend_from_slice(&word.0.to_le_bytes());
            }
        }
        let range =
            DeletedRange { start: b"a".to_vec(), end: Some(b"z".to_vec()), csn: CSN, upto: Csn(0) };
        let files = TableFiles {
            id: table,
            created: Csn(1),
            index: IndexFile::default(),
            pages: vec![PageFile { number: PAGE_FILE, pages: numbers.len() as u64 }],
            ranges: vec![range],
        };
        let manifest = Manifest {
            number: 1,
            csn: CSN,
            files: 4,
            segments: vec![(handle, Origin::Compacted { number: ROW_FILE })],
            tables: vec![files],
        };
        Folder { manifest, pages, keys, records, rows }
    }

    /// Writes the folder with a few bytes changed, all under valid checksums.
    fn put(&mut self, disk: &SimDisk, changes: &Changes) {
        let path = |number: u64, kind: &str| PathBuf::from(DIR).join(file_name(number, kind));
        let (mut blocks, mut directory) = index_parts(&self.keys);
        let index_path = path(INDEX_FILE, INDEX);
        let keys = self.keys.len() as u64;
        let place = put_index(disk, &index_path, INDEX_FILE, (&blocks, &directory), keys);
        self.manifest.tables[0].index = place;
        let mut manifest = self.manifest.encode();
        changes.apply(&mut [
            &mut manifest,
            &mut self.pages,
            &mut blocks,
            &mut directory,
            &mut self.records,
        ]);
        put_index(disk, &index_path, INDEX_FILE, (&blocks, &directory), keys);
        put_file(disk, &path(ROW_FILE, ROWS), &self.records);
        for (path, number, bytes) in [
            (path(PAGE_FILE, PAGES), PAGE_FILE, &self.pages),
            (Path::new(DIR).join(crate::manifest::NAME), 0, &manifest),
        ] {
            let mut writer = Writer::create(disk, &path, number).expect("a new file");
            writer.put(|out| out.extend_from_slice(bytes)).expect("a sound disk");
            writer.finish().expect("a sound disk");
        }
    }
}

/// The files of a checkpoint with these rows, a few bytes of them changed: the folder is inspected
/// and verified, the engine opens it, reads it, and writes its next checkpoint, or says why not.
pub fn folder(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let Some(changes) = Changes::read(&mut reader) else { return };
    let mut folder = Folder::read(&mut reader);
    let sim = SimDisk::new(0);
    [DIR, LOG].iter().for_each(|dir| sim.create_dir_all(Path::new(dir)).expect("a folder"));
    folder.put(&sim, &changes);
    let (disk, sound): (Arc<dyn Disk>, _) = (Arc::new(sim), changes.are_none());
    let log = Arc::new(KeptFiles::new(disk.clone(), Path::new(LOG)));
    let inspection = inspect_folder(&disk, Path::new(DIR), &*log);
    assert!(!sound || inspection.damage.is_empty(), "{:?}", inspection.damage);
    let verified = verify(&disk, Path::new(DIR), log.clone()).expect("a sound disk");
    if sound {
        assert!(verified.findings.is_empty(), "{:?}", verified.findings);
        assert_eq!((verified.tables, verified.rows), (1, folder.rows.len() as u64));
    }
    let settings = MemorySettings { space_max: 1.2, space_rest: 0, ..MemorySettings::default() };
    let (dir, horizon, budget) =
        (Path::new(DIR), Arc::new(FixedHorizon(CSN)), Budget::new(64 << 20));
    let opened = MemoryEngine::open(disk, dir, settings, log, horizon, budget);
    assert!(!sound || opened.is_ok(), "{:?}", opened.err());
    let Ok(engine) = opened else { return };
    let read = read_rows(&engine, &folder);
    assert!(!sound || read.as_ref().is_ok_and(|rows| *rows == folder.rows), "{read:?}");
    let worked = engine.compact_all().and_then(|()| engine.run_background_job());
    assert!(!sound || worked.is_ok(), "{worked:?}");
    let read = read_rows(&engine, &folder);
    assert!(!sound || read.as_ref().is_ok_and(|rows| *rows == folder.rows), "{read:?}");
}

/// Reads the table by a scan, and every key by a get.
fn read_rows(engine: &MemoryEngine, folder: &Folder) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let table = TableId::new(EngineKind::Memory, TABLE);
    let mut value = Vec::new();
    for key in folder.keys.keys() {
        let _ = engine.get(table, key, CSN, Access::Blocking, &mut value);
    }
    let mut rows = BTreeMap::new();
    let all = KeyRange::new(b"", None);
    let mut cursor = engine.scan(table, all, Direction::Forward, CSN, Access::Blocking)?;
    while cursor.next(Access::Blocking)? {
        rows.insert(cursor.key().to_vec(), cursor.value().to_vec());
    }
    Ok(rows)
}
