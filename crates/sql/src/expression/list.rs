//! The lists of IN, searched by hash.
//!
//! `x IN (a, b, …)` means `x = a OR x = b OR …`. A *walk* of the list compares x with one item
//! after the other, which is expensive for many rows and a long list. So a statement builds an
//! index of a long list at its first row and uses the index for all rows. The statement walks short
//! lists, and the items that cannot be indexed. Tests compare the results of index and walk.
//!
//! MySQL compares two values under a type that depends on the classes of both ([`Class`]): a text
//! and a number, for example, are compared as doubles. So the index has one [`Sets`] for each
//! combination of classes that occurs on the left side. A [`Sets`] divides the items into groups:
//! all items of a [`Group`] are compared with the left side under the same types. Within a group,
//! two values have the same key exactly if they compare as equal.
//!
//! - IN-LIST-1: The index gives the same answer as the walk: true, false or unknown.
//! - IN-LIST-2: The walk would raise every error that a lookup in the index raises.
//!   - If the evaluation of an item fails, the item is not in the index. A lookup evaluates this
//!     item again only if no item of the index equals the left side. So a lookup can return true
//!     where the walk, which meets the failing item first, raises an error.
//!   - In strict mode, a statement that changes data fails when it compares a number with a text
//!     that is not a number. If the list or the left side has such a text, the statement walks the
//!     list and does not use the index.
//! - IN-LIST-3: With an index, the statement walks only these items:
//!   - items whose values differ between rows or cannot be computed;
//!   - items that have no key, such as a text that is no date but is compared as one;
//!   - the items of a group in which the left side has no key.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use foldhash::quality::RandomState;
use smallvec::SmallVec;
use spillway_types::convert::{number_prefix, to_datetime, to_double, to_time};
use spillway_types::{Collation, DateTime, ValueRef};

use super::Expr;
use super::context::Context;
use crate::errors::Result;

/// A list of at most this many items is walked.
const WALKED_MAX: usize = 8;

/// The items of an IN list: values, or rows with as many values as the left side.
#[derive(Debug)]
pub(crate) struct List {
    items: Vec<Expr>,
    /// The collation by which each part of a row is compared.
    collations: SmallVec<[Collation; 2]>,
}

/// The parts of a row. A value counts as a row with one part.
pub(crate) fn row_parts(expr: &Expr) -> &[Expr] {
    match expr {
        Expr::Tuple(parts) => parts,
        single => std::slice::from_ref(single),
    }
}

/// A row of values, such as the left side of an IN.
pub(crate) type RowParts<'v> = SmallVec<[ValueRef<'v>; 2]>;

impl List {
    pub(crate) fn new(items: Vec<Expr>, collations: SmallVec<[Collation; 2]>) -> Arc<List> {
        Arc::new(List { items, collations })
    }

    pub(crate) fn items(&self) -> &[Expr] {
        &self.items
    }

    pub(crate) fn collations(&self) -> &[Collation] {
        &self.collations
    }

    /// All values of all items.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Expr> {
        self.items.iter().flat_map(row_parts)
    }
}

/// A class of values. All values of a class are compared with another value under the same type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Null,
    Exact,
    Approximate,
    Text,
    Bytes,
    Moment,
    Time,
}

impl Class {
    fn of(value: &ValueRef<'_>) -> Class {
        match value {
            ValueRef::Null => Class::Null,
            ValueRef::Int(_) | ValueRef::UInt(_) | ValueRef::Decimal(_) => Class::Exact,
            ValueRef::Float(_) | ValueRef::Double(_) => Class::Approximate,
            ValueRef::Text(_) => Class::Text,
            ValueRef::Bytes(_) => Class::Bytes,
            ValueRef::Date(_) | ValueRef::DateTime(_) => Class::Moment,
            ValueRef::Time(_) => Class::Time,
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Class::Exact | Class::Approximate)
    }

    fn is_string(self) -> bool {
        matches!(self, Class::Text | Class::Bytes)
    }
}

/// The type under which values of two classes are compared ([`super::operands::compare`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ComparedAs {
    /// One of the values is NULL, so the result is unknown.
    Unknown,
    Exact,
    Double,
    Text,
    Bytes,
    Moment,
    Time,
}

impl ComparedAs {
    fn of(left: Class, item: Class) -> ComparedAs {
        use Class::{Bytes, Exact, Moment, Null, Text, Time};
        match (left, item) {
            (Null, _) | (_, Null) => ComparedAs::Unknown,
            (Exact, Exact) => ComparedAs::Exact,
            (Text, Text) => ComparedAs::Text,
            (Text | Bytes, Text | Bytes) => ComparedAs::Bytes,
            (Moment, Moment | Text | Time) | (Text | Time, Moment) => ComparedAs::Moment,
            (Time, Time | Text) | (Text, Time) => ComparedAs::Time,
            _ => ComparedAs::Double,
        }
    }

    /// Appends the key of a value. Returns `false` if the value has no key, such as a text that is
    /// no date but is compared as one.
    fn write_key(
        self,
        context: &Context<'_>,
        value: &ValueRef<'_>,
        collation: Collation,
        out: &mut ListKey,
    ) -> bool {
        match self {
            ComparedAs::Unknown => return true,
            ComparedAs::Exact => match (whole(value), value) {
                (Some(number), _) => {
                    out.push(0);
                    out.extend_from_slice(&number.to_be_bytes());
                }
                (None, ValueRef::UInt(number)) => {
                    out.push(1);
                    out.extend_from_slice(&spillway_types::Decimal::from(*number).to_bytes());
                }
                (None, ValueRef::Decimal(number)) => {
                    out.push(1);
                    out.extend_from_slice(&number.normalized().to_bytes());
                }
                _ => return false,
            },
            ComparedAs::Double => match to_double(value) {
                Some(number) if !number.is_nan() => {
                    // 0 and -0 are equal.
                    out.extend_from_slice(&(number + 0.0).to_bits().to_be_bytes());
                }
                _ => return false,
            },
            ComparedAs::Text | ComparedAs::Bytes => {
                let mut bytes = Vec::new();
                match value {
                    ValueRef::Text(text) if self == ComparedAs::Text => {
                        collation.equal_key(text.as_bytes(), &mut bytes);
                    }
                    ValueRef::Text(text) => bytes.extend_from_slice(text.as_bytes()),
                    ValueRef::Bytes(found) => bytes.extend_from_slice(found),
                    _ => return false,
                }
                out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                out.extend_from_slice(&bytes);
            }
            ComparedAs::Moment => {
                let moment = match value {
                    // A time of day that is compared with a date gets today's date.
                    ValueRef::Time(time) => {
                        DateTime::from_micros_of(context.now().date, time.micros)
                    }
                    other => to_datetime(other),
                };
                let Some(DateTime { date, micros }) = moment else { return false };
                out.extend_from_slice(&date.year.to_be_bytes());
                out.extend_from_slice(&[date.month, date.day]);
                out.extend_from_slice(&micros.to_be_bytes());
            }
            ComparedAs::Time => {
                let Some(time) = to_time(value) else { return false };
                out.extend_from_slice(&time.micros.to_be_bytes());
            }
        }
        true
    }
}

/// The 64-bit integer that an exact number is, if it is one.
fn whole(value: &ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Int(number) => Some(*number),
        ValueRef::UInt(number) => i64::try_from(*number).ok(),
        ValueRef::Decimal(number) if number.truncate(0) == *number => {
            number.to_i128().and_then(|number| i64::try_from(number).ok())
        }
        _ => None,
    }
}

type ListKey = SmallVec<[u8; 24]>;

/// The items that are compared with the left side under the same types.
struct Group {
    compared: SmallVec<[ComparedAs; 2]>,
    /// The keys that are a single integer.
    wholes: HashSet<i64, RandomState>,
    /// All other keys, made of the parts that are not NULL.
    keys: HashSet<ListKey, RandomState>,
    /// Where the group's items are in the list.
    items: Vec<u32>,
}

/// The result of a lookup in a group.
enum ListAnswer {
    Yes,
    No,
    /// The left side has no key in this group.
    Unkeyed,
}

impl Group {
    fn new(compared: SmallVec<[ComparedAs; 2]>) -> Group {
        Group { compared, wholes: HashSet::default(), keys: HashSet::default(), items: Vec::new() }
    }

    /// Whether equal keys mean equal rows, because no part of a row is NULL.
    fn is_certain(&self) -> bool {
        !self.compared.contains(&ComparedAs::Unknown)
    }

    fn key(
        &self,
        context: &Context<'_>,
        list: &List,
        parts: &[ValueRef<'_>],
        key: &mut ListKey,
    ) -> bool {
        key.clear();
        let parts = parts.iter().zip(&self.compared).zip(&list.collations);
        parts
            .into_iter()
            .all(|((part, compared), collation)| compared.write_key(context, part, *collation, key))
    }

    /// Adds an item. Returns `false` if it has no key.
    fn add(
        &mut self,
        context: &Context<'_>,
        list: &List,
        parts: &[ValueRef<'_>],
        item: u32,
    ) -> bool {
        if let ([part], [ComparedAs::Exact]) = (parts, self.compared.as_slice())
            && let Some(number) = whole(part)
        {
            self.wholes.insert(number);
        } else {
            let mut key = ListKey::new();
            if !self.key(context, list, parts, &mut key) {
                return false;
            }
            self.keys.insert(key);
        }
        self.items.push(item);
        true
    }

    fn find(&self, context: &Context<'_>, list: &List, left: &[ValueRef<'_>]) -> ListAnswer {
        let found = if let ([part], [ComparedAs::Exact]) = (left, self.compared.as_slice())
            && let Some(number) = whole(part)
        {
            self.wholes.contains(&number)
        } else {
            let mut key = ListKey::new();
            if !self.key(context, list, left, &mut key) {
                return ListAnswer::Unkeyed;
            }
            self.keys.contains(key.as_slice())
        };
        if found { ListAnswer::Yes } else { ListAnswer::No }
    }
}

/// The items of a list, prepared for a left side whose values have these classes.
struct Sets {
    left: SmallVec<[Class; 2]>,
    groups: Vec<Group>,
    /// The items that are walked.
    walked: Vec<u32>,
    /// The parts of the left side that are text and are compared with a number.
    numbers: SmallVec<[usize; 2]>,
    /// An item, and a part of it that is compared as a number but is a text that is no number.
    doubtful: Option<(u32, usize)>,
}

impl Sets {
    fn build(
        context: &Context<'_>,
        list: &List,
        row: &[spillway_types::Value],
        left: SmallVec<[Class; 2]>,
    ) -> Sets {
        let mut sets = Sets {
            left,
            groups: Vec::new(),
            walked: Vec::new(),
            numbers: SmallVec::new(),
            doubtful: None,
        };
        for (at, item) in list.items.iter().enumerate() {
            let at = at as u32;
            let warnings = context.warnings.borrow().len();
            let parts = row_parts(item);
            let values = match parts.iter().all(is_fixed) {
                true => parts.iter().map(|part| context.value(part, row)).collect(),
                false => {
                    sets.walked.push(at);
                    continue;
                }
            };
            let values: Result<SmallVec<[_; 2]>> = values;
            match values {
                Ok(values) => {
                    let parts: RowParts<'_> =
                        values.iter().map(|value| value.as_ref().as_ref()).collect();
                    sets.add(context, list, &parts, at);
                }
                Err(_) => {
                    // If the walk reaches this item, it raises the warnings.
                    context.warnings.borrow_mut().truncate(warnings);
                    sets.walked.push(at);
                }
            }
        }
        sets
    }

    fn add(&mut self, context: &Context<'_>, list: &List, parts: &[ValueRef<'_>], item: u32) {
        let mut compared = SmallVec::new();
        for (at, (part, left)) in parts.iter().zip(&self.left).enumerate() {
            let class = Class::of(part);
            compared.push(ComparedAs::of(*left, class));
            if left.is_string() && class.is_number() && !self.numbers.contains(&at) {
                self.numbers.push(at);
            }
            if left.is_number() && class.is_string() && !is_number(part) {
                self.doubtful.get_or_insert((item, at));
            }
        }
        let group = match self.groups.iter().position(|group| group.compared == compared) {
            Some(at) => at,
            None => {
                self.groups.push(Group::new(compared));
                self.groups.len() - 1
            }
        };
        if !self.groups[group].add(context, list, parts, item) {
            self.walked.push(item);
        }
    }

    /// Whether a text that is no number is compared as one.
    fn is_doubtful(&self, left: &[ValueRef<'_>]) -> bool {
        self.doubtful.is_some() || self.numbers.iter().any(|at| !is_number(&left[*at]))
    }
}

fn is_number(value: &ValueRef<'_>) -> bool {
    match value {
        ValueRef::Text(text) => number_prefix(text.as_bytes()).1,
        ValueRef::Bytes(bytes) => number_prefix(bytes).1,
        _ => true,
    }
}

/// Whether an item has the same value throughout a statement.
fn is_fixed(expr: &Expr) -> bool {
    let mut fixed = expr.is_constant();
    expr.walk(&mut |part| fixed &= !matches!(part, Expr::UserVariable(_) | Expr::Tuple(_)));
    fixed
}

/// The index that a statement has built for a list.
pub(crate) struct Index {
    list: Arc<List>,
    sets: RefCell<Vec<Rc<Sets>>>,
}

impl Context<'_> {
    /// Whether a row of values is in a list; `None` if that is unknown. Items that are not constant
    /// are evaluated over `row`.
    pub(crate) fn is_in(
        &self,
        list: &Arc<List>,
        left: &[ValueRef<'_>],
        row: &[spillway_types::Value],
    ) -> Result<Option<bool>> {
        if list.items.len() <= WALKED_MAX || is_walked() {
            return self.walk(list, list.items.iter(), left, row);
        }
        let sets = self.sets(list, left, row);
        if sets.is_doubtful(left) {
            if self.strict.get() {
                return self.walk(list, list.items.iter(), left, row);
            }
            self.warn_of(list, &sets, left, row)?;
        }
        let items = |at: &u32| &list.items[*at as usize];
        let mut unknown = false;
        for group in &sets.groups {
            let found = match group.find(self, list, left) {
                ListAnswer::No => Some(false),
                ListAnswer::Yes => group.is_certain().then_some(true),
                ListAnswer::Unkeyed => self.walk(list, group.items.iter().map(items), left, row)?,
            };
            match found {
                Some(true) => return Ok(Some(true)),
                Some(false) => {}
                None => unknown = true,
            }
        }
        match self.walk(list, sets.walked.iter().map(items), left, row)? {
            Some(false) if unknown => Ok(None),
            found => Ok(found),
        }
    }

    /// The walk: compares a row of values with items one by one.
    fn walk<'l>(
        &self,
        list: &List,
        items: impl Iterator<Item = &'l Expr>,
        left: &[ValueRef<'_>],
        row: &[spillway_types::Value],
    ) -> Result<Option<bool>> {
        let mut unknown = false;
        for item in items {
            count_walked();
            let mut equal = Some(true);
            for ((left, part), collation) in left.iter().zip(row_parts(item)).zip(&list.collations)
            {
                let part = self.value(part, row)?;
                match self.compare_stored(*left, &part, *collation)? {
                    Some(order) if order.is_eq() => {}
                    Some(_) => {
                        equal = Some(false);
                        break;
                    }
                    None => equal = None,
                }
            }
            match equal {
                Some(true) => return Ok(Some(true)),
                Some(false) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { None } else { Some(false) })
    }

    fn sets(
        &self,
        list: &Arc<List>,
        left: &[ValueRef<'_>],
        row: &[spillway_types::Value],
    ) -> Rc<Sets> {
        let index = {
            let mut indexes = self.lists.borrow_mut();
            // The index owns the list, so no other list can have the same address meanwhile.
            let new = || Rc::new(Index { list: list.clone(), sets: RefCell::default() });
            indexes.entry(Arc::as_ptr(list) as usize).or_insert_with(new).clone()
        };
        let is_for = |sets: &&Rc<Sets>| {
            sets.left.iter().zip(left).all(|(class, part)| *class == Class::of(part))
        };
        if let Some(sets) = index.sets.borrow().iter().find(is_for) {
            return sets.clone();
        }
        let sets =
            Rc::new(Sets::build(self, &index.list, row, left.iter().map(Class::of).collect()));
        index.sets.borrow_mut().push(sets.clone());
        sets
    }

    /// Raises one warning for the texts that are compared as numbers but are none.
    fn warn_of(
        &self,
        list: &List,
        sets: &Sets,
        left: &[ValueRef<'_>],
        row: &[spillway_types::Value],
    ) -> Result<()> {
        for at in &sets.numbers {
            self.as_number(&left[*at].to_owned(), "DOUBLE")?;
        }
        if let Some((item, at)) = sets.doubtful {
            let part = &row_parts(&list.items[item as usize])[at];
            self.as_number(&*self.value(part, row)?, "DOUBLE")?;
        }
        Ok(())
    }
}

#[cfg(not(test))]
fn is_walked() -> bool {
    false
}

#[cfg(not(test))]
fn count_walked() {}

#[cfg(test)]
use tests::count_walked;
#[cfg(test)]
use tests::is_walked;

#[cfg(test)]
mod tests;
