//! The model: the rows that exist after each commit.

use std::collections::VecDeque;

use super::super::*;

/// All versions of the history.
#[derive(Default)]
pub(super) struct History {
    pub(super) commits: Vec<Commit>,
    pub(super) versions: BTreeMap<(TableId, Vec<u8>), Vec<(Csn, Option<Vec<u8>>)>>,
    created: BTreeMap<TableId, Csn>,
    dropped: BTreeMap<TableId, Csn>,
}

impl History {
    pub(super) fn newest(&self) -> Csn {
        Csn(self.commits.len() as u64)
    }

    pub(super) fn push(&mut self, batch: &WriteBatch) {
        let csn = self.newest().next();
        for op in batch.iter() {
            let (id, key, value) = match op {
                Op::Put { table, key, value } => (table, key, Some(value.to_vec())),
                Op::Delete { table, key } => (table, key, None),
                Op::DeleteRange { table, range, upto } => {
                    let of = self.versions.iter_mut();
                    for (_, versions) in
                        of.filter(|((id, key), _)| *id == table && range.contains(key))
                    {
                        if versions.last().is_some_and(|(csn, _)| *csn <= upto) {
                            versions.push((csn, None));
                        }
                    }
                    continue;
                }
                Op::CreateTable(id) => {
                    self.created.insert(id, csn);
                    continue;
                }
                Op::DropTable(id) => {
                    self.dropped.insert(id, csn);
                    continue;
                }
            };
            let versions = self.versions.entry((id, key.to_vec())).or_default();
            versions.retain(|(of, _)| *of != csn);
            versions.push((csn, value));
        }
        self.commits.push((csn, batch.clone()));
    }

    pub(super) fn tables(&self, snapshot: Csn) -> Vec<TableId> {
        let ends = |id| self.dropped.get(id).copied().unwrap_or(Csn::MAX);
        let there =
            self.created.iter().filter(|(id, from)| **from <= snapshot && snapshot < ends(id));
        there.map(|(id, _)| *id).collect()
    }

    pub(super) fn get(&self, id: TableId, key: &[u8], snapshot: Csn) -> Option<&[u8]> {
        newest_at(self.versions.get(&(id, key.to_vec()))?, snapshot)
    }

    pub(super) fn rows(
        &self,
        id: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        snapshot: Csn,
    ) -> VecDeque<(&[u8], &[u8])> {
        let of = self.versions.range((id, range.start.to_vec())..);
        let of = of.take_while(|((table, key), _)| *table == id && range.contains(key));
        let mut rows: VecDeque<_> = of
            .filter_map(|((_, key), versions)| Some((&**key, newest_at(versions, snapshot)?)))
            .collect();
        if direction == Direction::Backward {
            rows.make_contiguous().reverse();
        }
        rows
    }
}

fn newest_at(versions: &[(Csn, Option<Vec<u8>>)], snapshot: Csn) -> Option<&[u8]> {
    let version = versions.iter().rev().find(|(csn, _)| *csn <= snapshot)?;
    version.1.as_deref()
}
