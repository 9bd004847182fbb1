//! Tests of reading the stored catalog: definitions that make no sense, and a catalog of another
//! format, are refused.

use spillway::{Database, Settings};
use spillway_base::TableId;
use spillway_types::ColumnType;

use super::*;

fn column(id: u32, ty: ColumnType) -> ColumnDef {
    ColumnDef {
        id,
        name: format!("c{id}"),
        ty,
        collation: Collation::Binary,
        nullable: true,
        default: DefaultValue::Null,
        initial: None,
        on_update_now: false,
        auto_increment: false,
        comment: String::new(),
    }
}

fn taken(table: &TableDef) -> Result<()> {
    Catalog::default().take(b"t/d/t", &json(table)?)
}

#[test]
fn a_definition_that_makes_no_sense_is_damage() {
    let mut table = TableDef::empty(1, "d".into(), "t".into(), Collation::default());
    let decimal = ColumnType::Decimal { precision: 10, scale: 2, unsigned: false };
    table.columns =
        vec![column(1, ColumnType::INT), column(2, decimal), column(0, ColumnType::INT)];
    table.primary = vec![IndexPart { column: 2, prefix: None }];
    (table.schema, table.fresh_from) = (2, 1);
    table.layouts =
        vec![Layout { schema: 0, columns: vec![7, 1] }, Layout { schema: 1, columns: vec![2, 1] }];
    taken(&table).unwrap();
    let changes: [(&str, &dyn Fn(&mut TableDef)); 13] = [
        ("key", &|table| table.primary[0].column = 3),
        ("key", &|table| {
            let parts = vec![IndexPart { column: 3, prefix: Some(1) }];
            let (name, comment) = ("k".to_owned(), String::new());
            let (unique, space, stage, since) = (false, 9, Default::default(), Csn::ZERO);
            let index = IndexDef { name, parts, unique, comment, space, stage, since };
            table.becoming = Some(Becoming { indexes: vec![index], after: None, filled: false });
        }),
        ("key", &|table| {
            let mut after = table.clone();
            after.primary[0].column = 3;
            let after = Some(Box::new(after));
            table.becoming = Some(Becoming { indexes: Vec::new(), after, filled: false });
        }),
        ("engine", &|table| table.engine = EngineKind::Memory),
        ("engine", &|table| table.space = TableId::new(EngineKind::Memory, 1).0),
        ("engine", &|table| {
            let mut after = table.clone();
            (after.engine, after.space) = (EngineKind::Memory, 7);
            let after = Some(Box::new(after));
            table.becoming = Some(Becoming { indexes: Vec::new(), after, filled: false });
        }),
        ("type", &|table| {
            table.columns[1].ty = ColumnType::Decimal { precision: 10, scale: 11, unsigned: true };
        }),
        ("type", &|table| table.columns[1].ty = ColumnType::Bit(65)),
        ("type", &|table| table.columns[1].ty = ColumnType::Set(vec![String::new(); 65])),
        ("id", &|table| table.columns[0].id = 2),
        ("id", &|table| table.layouts[0].columns[0] = u32::MAX),
        ("versions", &|table| table.schema = 1),
        ("versions", &|table| table.fresh_from = 3),
    ];
    for (at, (why, change)) in changes.into_iter().enumerate() {
        let mut damaged = table.clone();
        change(&mut damaged);
        let error = taken(&damaged).expect_err("it makes no sense").to_string();
        assert!(error.contains("t/d/t") && error.contains(why), "{at}: {error}");
    }
}

#[test]
fn a_definition_keeps_its_engine() {
    for engine in EngineKind::ALL {
        let mut table = TableDef::empty(1, "d".into(), "t".into(), Collation::default());
        (table.engine, table.space) = (engine, TableId::new(engine, 5).0);
        let mut catalog = Catalog::default();
        catalog.take(b"t/d/t", &json(&table).unwrap()).unwrap();
        assert_eq!(catalog.table("d", "t").unwrap().engine, engine);
    }
}

#[test]
fn a_catalog_of_another_format_is_refused() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    Catalog::load(&db).unwrap();
    for format in [None, Some(FORMAT - 1), Some(FORMAT + 1)] {
        let txn = db.begin(TransactionOptions::new());
        let space = txn.table(CATALOG).unwrap();
        match format {
            Some(format) => txn.put(space, FORMAT_KEY, &format.to_le_bytes()).unwrap(),
            None => txn.delete(space, FORMAT_KEY).unwrap(),
        }
        txn.commit().wait().unwrap();
        let error = Catalog::load(&db).expect_err("it is of another format");
        assert!(error.code == 1034 && error.message.contains("format"), "{error}");
    }
}
