use spillway_base::EngineKind;
use spillway_base::rng::Rng;

use super::*;

type Rows = BTreeMap<(TableId, Vec<u8>), Option<Vec<u8>>>;

/// Tables of both engines, whose operations take different room in a batch.
fn table(number: u32) -> TableId {
    TableId::new(EngineKind::ALL[number as usize % 2], number)
}

fn range_of(rng: &mut Rng) -> (Vec<u8>, Option<Vec<u8>>) {
    let bound = |rng: &mut Rng| vec![rng.below(20) as u8; rng.below(3) as usize];
    (bound(rng), rng.chance(1, 2).then(|| bound(rng)))
}

/// The write that the buffer must find, computed from all rows.
fn expected<'r>(
    rows: &'r Rows,
    table: TableId,
    range: KeyRange<'_>,
    last: Option<&[u8]>,
    direction: Direction,
) -> Option<(&'r [u8], Option<&'r [u8]>)> {
    let beyond = |key: &[u8]| match (last, direction) {
        (None, _) => true,
        (Some(last), Direction::Forward) => key > last,
        (Some(last), Direction::Backward) => key < last,
    };
    let mut found = rows
        .iter()
        .filter(|((at, key), _)| *at == table && range.contains(key) && beyond(key))
        .map(|((_, key), value)| (key.as_slice(), value.as_deref()));
    match direction {
        Direction::Forward => found.next(),
        Direction::Backward => found.next_back(),
    }
}

/// Writes, reads, savepoints and undo against a map, with few writes and with many.
#[test]
fn a_buffer_is_a_map_that_can_be_undone() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut buffer = WriteBuffer::default();
        let mut rows = Rows::new();
        let mut marks: Vec<(usize, usize, Rows)> = Vec::new();
        let steps = 1 + rng.below(if seed % 2 == 0 { 20 } else { 120 });
        for _ in 0..steps {
            let at = table(rng.below(2) as u32 + 1);
            let key = vec![rng.below(20) as u8; rng.below(3) as usize];
            match rng.below(12) {
                0 => marks.push((buffer.mark(), buffer.bytes(), rows.clone())),
                1 if !marks.is_empty() => {
                    let (mark, bytes, before) =
                        marks.swap_remove(rng.below(marks.len() as u64) as usize);
                    marks.retain(|(other, ..)| *other <= mark);
                    buffer.undo_to(mark);
                    rows = before;
                    assert_eq!((buffer.mark(), buffer.bytes()), (mark, bytes));
                }
                2 => {
                    buffer.put(at, &key, None);
                    rows.insert((at, key), None);
                }
                _ => {
                    let value = vec![rng.next_u64() as u8; rng.below(200) as usize];
                    buffer.put(at, &key, Some(&value));
                    rows.insert((at, key), Some(value));
                }
            }
            let at = table(rng.below(3) as u32 + 1);
            let key = vec![rng.below(20) as u8; rng.below(3) as usize];
            let wanted = rows.get(&(at, key.clone())).map(Option::as_deref);
            assert_eq!(buffer.get(at, &key), wanted, "seed {seed}");
            assert_eq!(buffer.untouched(at), !rows.keys().any(|(table, _)| *table == at));
            let (start, end) = range_of(&mut rng);
            let range = KeyRange::new(&start, end.as_deref());
            // A scan has reached a key of its range.
            let last = range.contains(&key).then_some(key.as_slice());
            for direction in [Direction::Forward, Direction::Backward] {
                let wanted = expected(&rows, at, range, last, direction);
                assert_eq!(buffer.after(at, range, last, direction), wanted, "seed {seed}");
            }
        }
        let touched: std::collections::BTreeSet<_> = buffer.touched().collect();
        assert_eq!(touched, rows.keys().map(|(table, _)| *table).collect());
        let batch = buffer.take_batch();
        assert_eq!(batch.len(), rows.len(), "seed {seed}: each key once");
        for op in batch.iter() {
            let (at, key, value) = match op {
                Op::Put { table, key, value } => (table, key, Some(value)),
                Op::Delete { table, key } => (table, key, None),
                other => panic!("{other:?}"),
            };
            assert_eq!(rows[&(at, key.to_vec())].as_deref(), value, "seed {seed}");
        }
        // The next buffer reuses this one's memory, but none of its contents.
        recycle(batch);
    }
}

/// A few writes are logged in the order made; many are sorted, for the engines.
#[test]
fn many_writes_come_in_order() {
    let keys = |count: u8| {
        let mut buffer = WriteBuffer::default();
        (0..count).rev().for_each(|key| buffer.put(table(1), &[key], Some(b"v")));
        let key = |op: Op<'_>| match op {
            Op::Put { key, .. } => key[0],
            other => panic!("{other:?}"),
        };
        buffer.take_batch().iter().map(key).collect::<Vec<_>>()
    };
    assert_eq!(keys(4), [3, 2, 1, 0]);
    assert!(keys(100).is_sorted());
}

#[test]
fn tables_are_made_before_their_rows_and_dropped_after() {
    let (old, made, unmade) = (table(1), table(2), table(3));
    let mut buffer = WriteBuffer::default();
    buffer.put(old, b"a", Some(b"1"));
    buffer.create(made);
    buffer.put(made, b"b", Some(b"2"));
    buffer.create(unmade);
    buffer.put(unmade, b"c", Some(b"3"));
    buffer.drop_table(unmade);
    let mark = buffer.mark();
    buffer.drop_table(made);
    buffer.create(table(4));
    buffer.undo_to(mark);
    buffer.drop_table(old);
    assert!(buffer.created(made) && !buffer.created(table(4)));
    assert_eq!(buffer.dropped(), [unmade, old]);
    assert_eq!(buffer.touched().collect::<Vec<_>>(), [old, old]);
    let batch = buffer.take_batch();
    let expected = [
        Op::CreateTable(made),
        Op::Put { table: made, key: b"b", value: b"2" },
        Op::DropTable(old),
    ];
    assert_eq!(batch.iter().collect::<Vec<_>>(), expected);
}
