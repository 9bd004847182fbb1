//! Runs tests, projections and totals over stored rows (`planner/pushdown` plans them).

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use spillway_types::{Collation, Value, ValueRef};

use super::aggregate::AggregateState;
use super::index_entries::{Entries, each_entry};
use super::index_ranges::choose;
use super::row_buffer::Gatherer;
use super::row_reads::{Reading, each_row};
use super::row_sink::{Onward, Projection, TakeRow, TakeStored};
use super::span_scan::{check_readable, count_in, each_together, in_order, is_row};
use super::spans::Places;
use crate::catalog::{StoredRow, TableDef};
use crate::errors::Result;
use crate::expression::{Context, Expr, Fit, List, Op, RowParts, is_clean};
use crate::planner::{Access, Direct, SelectPlan, Source, SourceKind, Test, note_columns};

/// A test with its value evaluated.
enum ReadyTest<'t> {
    Compare {
        column: usize,
        op: Op,
        value: Cow<'t, Value>,
        /// The text from which the value was converted, if it is not a valid number and so causes a
        /// warning.
        doubtful: Option<Cow<'t, Value>>,
        collation: Collation,
    },
    In {
        columns: &'t [usize],
        list: &'t Arc<List>,
    },
    Not(Box<ReadyTest<'t>>),
    Null {
        column: usize,
        is: bool,
    },
    All(Vec<ReadyTest<'t>>),
    Any(Vec<ReadyTest<'t>>),
}

/// How many tests need no allocation.
const FEW: usize = 2;

fn all_ready<'t, A>(context: &'t Context<'_>, tests: &'t [Test]) -> Result<A>
where
    A: FromIterator<ReadyTest<'t>>,
{
    tests.iter().map(|test| ready(context, test)).collect()
}

fn ready<'t>(context: &'t Context<'_>, test: &'t Test) -> Result<ReadyTest<'t>> {
    Ok(match test {
        Test::Compare { column, op, value, collation } => ReadyTest::Compare {
            column: *column,
            op: *op,
            value: context.sought(value, &[])?,
            doubtful: match value {
                Expr::Fitted(text, Fit::Exact) => {
                    Some(context.value(text, &[])?).filter(|text| !is_clean(text))
                }
                _ => None,
            },
            collation: *collation,
        },
        Test::In { columns, list } => ReadyTest::In { columns, list },
        Test::Not(test) => ReadyTest::Not(Box::new(ready(context, test)?)),
        Test::Null { column, is } => ReadyTest::Null { column: *column, is: *is },
        Test::All(tests) => ReadyTest::All(all_ready(context, tests)?),
        Test::Any(tests) => ReadyTest::Any(all_ready(context, tests)?),
    })
}

impl ReadyTest<'_> {
    /// Whether the test holds for a row; `None` if that is unknown, so that the row is left out.
    fn holds(&self, context: &Context<'_>, row: &StoredRow<'_>) -> Result<Option<bool>> {
        match self {
            ReadyTest::Compare { column, op, value, doubtful, collation } => {
                if let Some(text) = doubtful {
                    context.as_number(text, "DECIMAL")?;
                }
                let order = context.compare_stored(row.get(*column)?, value, *collation)?;
                Ok(order.map(|order| op.accepts(order)))
            }
            ReadyTest::In { columns, list } => {
                let left = columns.iter().map(|column| row.get(*column));
                context.is_in(list, &left.collect::<Result<RowParts<'_>>>()?, &[])
            }
            ReadyTest::Not(test) => Ok(test.holds(context, row)?.map(|is| !is)),
            ReadyTest::Null { column, is } => Ok(Some(row.get(*column)?.is_null() == *is)),
            ReadyTest::All(tests) => {
                let mut all = Some(true);
                for test in tests {
                    match test.holds(context, row)? {
                        Some(false) => return Ok(Some(false)),
                        None => all = None,
                        Some(true) => {}
                    }
                }
                Ok(all)
            }
            ReadyTest::Any(tests) => {
                let mut any = Some(false);
                for test in tests {
                    match test.holds(context, row)? {
                        Some(true) => return Ok(Some(true)),
                        None => any = None,
                        Some(false) => {}
                    }
                }
                Ok(any)
            }
        }
    }
}

/// The tests for rows at some places, without those that the places guarantee already.
fn asked_of<'t>(
    context: &'t Context<'_>,
    source: &'t Source,
    (access, places): (&Access, &Places<'_>),
) -> Result<SmallVec<[ReadyTest<'t>; FEW]>> {
    let answered = match places {
        Places::Spans(spans) if spans.exact => access.answered.as_slice(),
        _ => &[],
    };
    let asked = source.tests.iter().enumerate().filter(|(at, _)| !answered.contains(at));
    asked.map(|(_, test)| ready(context, test)).collect()
}

/// Reads, without locks, the stored rows for which a source's tests hold, with their keys. `take`
/// returns `false` to stop. `asks` says whether `take` reads columns.
pub(super) fn scan_stored(
    context: &Context<'_>,
    source: &Source,
    table: &TableDef,
    (access, places): (&Access, &Places<'_>),
    asks: bool,
    mut take: impl TakeStored,
) -> Result<()> {
    let tests = asked_of(context, source, (access, places))?;
    let is_bare = tests.is_empty();
    let entries = |cover| Entries { access, cover, is_read: asks || !is_bare };
    // A caller whose access covers the query does not need the row's key.
    match (&access.cover, places) {
        (Some(cover), Places::Spans(spans)) if is_bare => {
            return each_entry(context, table, &entries(cover), &spans.all, |entry| {
                take.take(entry, &[])
            });
        }
        (None, Places::Spans(spans))
            if is_bare
                && access.index.is_none()
                && !spans.all.iter().any(|span| is_row(table, span)) =>
        {
            return each_together(context, table, access, &spans.all, |key, bytes| {
                take.take(&StoredRow::new(bytes, &source.versions)?, key)
            });
        }
        _ => {}
    }
    let mut take = |stored: &StoredRow<'_>, key: &[u8]| {
        for test in &tests {
            if test.holds(context, stored)? != Some(true) {
                return Ok(true);
            }
        }
        take.take_one(stored, key)
    };
    if let (Some(cover), Places::Spans(spans)) = (&access.cover, places) {
        return each_entry(context, table, &entries(cover), &spans.all, |entry| take(entry, &[]));
    }
    let reading = (Reading::Plain, None);
    each_row(context, table, access, places, reading, |bytes, key, _| {
        take(&StoredRow::new(bytes, &source.versions)?, key)
    })
}

/// The number of a source's rows, if the spans alone decide all conditions, so that no row must be
/// decoded. `None` if they do not, or if rows are not taken in batches.
fn count_stored(
    context: &Context<'_>,
    source: &Source,
    table: &TableDef,
    (access, places): (&Access, &Places<'_>),
) -> Result<Option<u64>> {
    let Places::Spans(spans) = places else { return Ok(None) };
    let counted = if access.index.is_some() { access.cover.is_some() } else { !access.point };
    if !counted || !context.server.takes_row_batches() {
        return Ok(None);
    }
    if !asked_of(context, source, (access, places))?.is_empty() {
        return Ok(None);
    }
    check_readable(context, table, access)?;
    context.txn.leave_reads(false);
    let mut count = 0;
    for span in in_order(access, &spans.all) {
        count += count_in(context, table, access, span)?;
    }
    Ok(Some(count))
}

impl Direct {
    /// Whether the query can run in this way with the statement's current values.
    pub(super) fn is_open(&self, context: &Context<'_>, plan: &SelectPlan) -> Result<bool> {
        match (self, plan.sources.as_slice()) {
            (Direct::Ends(ends), [Source { kind: SourceKind::Table(table), .. }]) => {
                ends.are_known(context, table)
            }
            _ => Ok(true),
        }
    }
}

/// Whether a condition that needs no table excludes all rows. The conditions are checked in order,
/// and those after the first that does not hold are not evaluated.
pub(super) fn is_never(context: &Context<'_>, plan: &SelectPlan) -> Result<bool> {
    for condition in &plan.constant {
        if !context.holds(condition, &[])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs a query directly over stored rows. At most `most` rows are needed.
pub(super) fn run_direct(
    context: &Context<'_>,
    plan: &SelectPlan,
    direct: &Direct,
    most: u64,
    emit: &mut dyn TakeRow,
) -> Result<()> {
    let [source] = plan.sources.as_slice() else { return Ok(()) };
    let SourceKind::Table(table) = &source.kind else { return Ok(()) };
    note_columns(context, plan);
    let never = is_never(context, plan)?;
    if let Direct::Ends(ends) = direct {
        let states = ends.find(context, source, table, never)?;
        return emit_totals(context, plan, states, emit);
    }
    let (access, places) = choose(context, source, table, &[])?;
    let way = (access, &places);
    let fields = context.server.hands_fields_on();
    match direct {
        Direct::Ends(_) => Ok(()),
        Direct::Columns(_) | Direct::Gathered(_) if never => Ok(()),
        Direct::Columns(columns) => {
            let projection = Projection::new(columns, fields, Onward(emit));
            scan_stored(context, source, table, way, true, projection)
        }
        Direct::Gathered(gathering) => {
            let mut gathered = (Gatherer::new(context, gathering, Some(most)), emit);
            let projection = Projection::new(&gathering.columns, fields, &mut gathered);
            scan_stored(context, source, table, way, true, projection)?;
            let (gatherer, emit) = gathered;
            gatherer.finish(emit)
        }
        Direct::Totals(totals) => {
            let states = totals.iter().map(|_| AggregateState::default());
            let mut states: SmallVec<[AggregateState; 1]> = states.collect();
            let asks = totals.iter().any(Option::is_some);
            let counted = match asks || never {
                true => None,
                false => count_stored(context, source, table, way)?,
            };
            if let Some(count) = counted {
                states.iter_mut().for_each(|state| state.add_rows(count));
            } else if !never {
                let totals = Totals { columns: totals, states: &mut states, fields };
                scan_stored(context, source, table, way, asks, totals)?;
            }
            emit_totals(context, plan, states, emit)
        }
    }
}

/// Totals of columns, added up while the rows are read. `None` in place of a column counts rows.
pub(crate) struct Totals<'t> {
    columns: &'t [Option<usize>],
    states: &'t mut [AggregateState],
    fields: bool,
}

impl TakeStored for Totals<'_> {
    #[inline(always)]
    fn take(&mut self, row: &StoredRow<'_>, _: &[u8]) -> Result<bool> {
        for (state, column) in self.states.iter_mut().zip(self.columns) {
            let Some(column) = column else {
                state.add_rows(1);
                continue;
            };
            let field = if self.fields { row.field(*column)? } else { None };
            match field {
                Some(field) => state.add_whole(field.value()),
                None => {
                    // The following rows have decimals in this column as well.
                    self.fields = false;
                    state.add_whole(row.get(*column)?);
                }
            }
        }
        Ok(true)
    }
}

/// Emits the only row of a query of totals.
fn emit_totals(
    context: &Context<'_>,
    plan: &SelectPlan,
    states: impl IntoIterator<Item = AggregateState>,
    emit: &mut dyn TakeRow,
) -> Result<()> {
    let mut row: SmallVec<[Value; 8]> = smallvec![Value::Null; plan.width];
    let finished = states.into_iter().zip(&plan.aggregates);
    row.extend(finished.map(|(state, aggregate)| state.finish(aggregate, context)));
    let _kept = context.keep_values();
    let values = plan.projections.iter().map(|e| context.eval(e, &row));
    let values = values.collect::<Result<SmallVec<[Value; FEW]>>>()?;
    let refs: SmallVec<[ValueRef<'_>; FEW]> = values.iter().map(Value::as_ref).collect();
    emit.values(&refs).map(drop)
}
