use crate::column::IntWidth;
use crate::double::{format_double, format_double_within};
use crate::row::{RowReader, widened, write_row};
use crate::*;

/// A small generator, so that this crate needs no other crate of the workspace.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 20
    }
}

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).unwrap()
}

#[test]
fn decimals_compute_as_mysql_does() {
    let most = "9".repeat(65);
    assert_eq!(decimal(&most).to_string(), most);
    assert_eq!(decimal("-0.005").round(2).to_string(), "-0.01");
    assert_eq!(decimal("1.005").round(2).to_string(), "1.01");
    assert_eq!(decimal("1").div(&decimal("3")).unwrap().to_string(), "0.3333");
    assert_eq!(decimal("2.00").div(&decimal("3")).unwrap().to_string(), "0.666667");
    assert_eq!(decimal("1.10").add(&decimal("2.205")).unwrap().to_string(), "3.305");
    assert_eq!(decimal("1.5").mul(&decimal("1.5")).unwrap().to_string(), "2.25");
    assert_eq!(decimal("-7").rem(&decimal("3")).unwrap().to_string(), "-1");
    assert_eq!(decimal("1e3").to_string(), "1000");
    assert_eq!(decimal("1.25e-2").to_string(), "0.0125");
    assert!(Decimal::ZERO.div(&Decimal::ZERO).is_none());
    assert!(decimal("1.0") == decimal("1.000") && decimal("-1") < decimal("0.5"));
    assert!(Decimal::parse("abc").is_none() && Decimal::parse(&"9".repeat(80)).is_none());
}

#[test]
fn dates_are_read_in_all_their_forms() {
    let at = DateTime::parse("2024-02-29 12:34:56.789").unwrap();
    assert_eq!(at.format(3), "2024-02-29 12:34:56.789");
    assert_eq!(DateTime::parse("20240229123456").unwrap().format(0), "2024-02-29 12:34:56");
    assert_eq!(DateTime::parse("24/2/29").unwrap().date.to_string(), "2024-02-29");
    for wrong in ["2023-02-29", "2024-13-01", "2024-01-01 25:00:00", "hello", ""] {
        assert!(DateTime::parse(wrong).is_none(), "{wrong}");
    }
    assert_eq!(Time::parse("-838:59:59").unwrap().format(0), "-838:59:59");
    assert_eq!(Time::parse("1 02:03:04.5").unwrap().format(1), "26:03:04.5");
    assert_eq!(Time::parse("123").unwrap().format(0), "00:01:23");
    for days in [-700_000, -1, 0, 59, 60, 19_782, 2_000_000] {
        assert_eq!(Date::from_days(days).unwrap().to_days(), days);
    }
    let leap = Date::new(2024, 1, 31).unwrap();
    assert_eq!(leap.add_months(1).unwrap().to_string(), "2024-02-29");
    assert_eq!((leap.weekday(), leap.day_of_year()), (2, 31));
}

#[test]
fn doubles_are_shown_as_mysql_shows_them() {
    for (number, text) in [
        (0.1, "0.1"),
        (100.0, "100"),
        (1e20, "1e20"),
        (1.5e-20, "1.5e-20"),
        (123_456_789_012_345.0, "123456789012345"),
        (-2.5, "-2.5"),
        (1e15, "1e15"),
        (-1_234_567_890_123_456.5, "-1234567890123456.5"),
        (1e-15, "0.000000000000001"),
        (9e-16, "9e-16"),
        (-0.0, "-0"),
    ] {
        assert_eq!(format_double(number), text);
        assert_eq!(format_double_within(number, 25), (text.to_owned(), false));
    }
}

/// The digits that fit, and the exponent where it keeps more of them. Lost are digits before the
/// point alone.
#[test]
fn doubles_are_shortened_as_mysql_shortens_them() {
    for (number, width, text, is_lost) in [
        (123.456, 5, "123.5", false),
        (-123.456, 5, "-123", false),
        (123.456, 3, "123", false),
        (123.456, 2, "1e", true),
        (0.5, 2, "0", false),
        (0.6, 2, "1", false),
        (1.5, 2, "2", false),
        (1.5, 1, "2", false),
        (99.996, 5, "100", false),
        (0.000_123_456_7, 5, "1e-4", false),
        (0.000_123_456_7, 8, "1.235e-4", false),
        (1.234_567_89e-10, 8, "1.23e-10", false),
        (-9e-3, 4, "0", false),
        (1.87e-3, 4, "2e-3", true),
        (123_456_789.0, 5, "1.2e8", false),
        (123_456_789.0, 3, "1e8", true),
        (-1.5e300, 7, "-2e300", false),
        (-1.5e300, 6, "-2e300", true),
        (-1.5e300, 5, "-2e30", true),
        (55.0, 1, "6", true),
        (-5.0, 1, "-", true),
        (7.0, 0, "", true),
    ] {
        let shortened = format_double_within(number, width);
        assert_eq!(shortened, (text.to_owned(), is_lost), "{number} in {width}");
    }
}

#[test]
fn shortened_doubles_fit_and_stand_for_the_nearest_number_that_does() {
    let mut noise = Noise(7);
    for _ in 0..20_000 {
        let number = f64::from_bits(noise.next());
        let number = if noise.next().is_multiple_of(2) { number } else { number % 1e6 };
        let width = 1 + noise.next() as usize % 24;
        let (text, is_lost) = format_double_within(number, width);
        assert!(text.len() <= width, "{number:e} in {width}: {text}");
        if number.is_finite() && !is_lost {
            let read: f64 = text.parse().unwrap();
            let digits = width.saturating_sub(8).min(16) as i32;
            let near = if digits > 0 { number.abs() * 10_f64.powi(1 - digits) } else { 1e300 };
            assert!((read - number).abs() <= near, "{number:e} in {width}: {text}");
            assert!(width < 24 || read == number, "{number:e} in {width}: {text}");
        }
    }
}

#[test]
fn text_compares_by_its_collation() {
    let (ci, bin) = (Collation::GeneralCi, Collation::Bin);
    assert!(ci.compare("Ünïcode ".as_bytes(), b"unicode").is_eq());
    assert!(bin.compare(b"a", b"A").is_gt() && bin.compare(b"a ", b"a").is_eq());
    assert!(Collation::Binary.compare(b"a ", b"a").is_gt());
    assert!(ci.like("Grüße", "gr%_E", Some('\\')) && !bin.like("Grüße", "gr%", None));
    assert!(ci.like("50%", "50\\%", Some('\\')) && !ci.like("500", "50\\%", Some('\\')));
    assert!(ci.like("aXbXc", "%x%x%", None) && !ci.like("abc", "a_", None));
    assert_eq!(Collation::from_name("utf8mb4_0900_ai_ci"), Some(Collation::Unicode0900AiCi));
    assert_eq!(Collation::from_name("latin1_bin"), Some(bin));
    assert_eq!(Collation::from_name("klingon_ci"), None);
}

#[test]
fn columns_keep_what_fits_and_name_what_does_not() {
    let tiny = ColumnType::Int { width: IntWidth::Tiny, unsigned: false, boolean: false };
    let kept =
        |column: &ColumnType, value: Value| column.store(&value).map(|value| value.to_text());
    let refused = |column: &ColumnType, value: Value| column.store(&value).unwrap_err().0;
    assert_eq!(kept(&tiny, Value::from("12")).unwrap(), "12");
    assert_eq!(refused(&tiny, Value::Int(128)), StoreError::OutOfRange);
    assert_eq!(refused(&tiny, Value::from("12x")), StoreError::Incorrect("integer"));
    assert_eq!(refused(&ColumnType::UBIGINT, Value::Int(-1)), StoreError::OutOfRange);
    let price = ColumnType::Decimal { precision: 5, scale: 2, unsigned: false };
    assert_eq!(kept(&price, Value::from("123.456")).unwrap(), "123.46");
    assert_eq!(refused(&price, Value::Int(1000)), StoreError::OutOfRange);
    assert_eq!(kept(&ColumnType::VarChar(3), Value::from("abc  ")).unwrap(), "abc");
    assert_eq!(refused(&ColumnType::VarChar(3), Value::from("abcd")), StoreError::TooLong);
    assert_eq!(
        refused(&ColumnType::VarChar(9), Value::Bytes(vec![0xFF])),
        StoreError::Incorrect("string")
    );
    assert_eq!(
        refused(&ColumnType::Date, Value::from("2023-02-30")),
        StoreError::IncorrectTime("date")
    );
    let colour = ColumnType::Enum(vec!["red".into(), "green".into()]);
    assert_eq!(kept(&colour, Value::from("GREEN")).unwrap(), "green");
    assert_eq!(kept(&colour, Value::Int(1)).unwrap(), "red");
    assert_eq!(refused(&colour, Value::from("blue")), StoreError::Truncated);
    let set = ColumnType::Set(vec!["a".into(), "b".into(), "c".into()]);
    assert_eq!(kept(&set, Value::from("c,a")).unwrap(), "a,c");
    assert_eq!(kept(&ColumnType::Binary(4), Value::from("ab")).unwrap(), "ab\0\0");
    assert_eq!(kept(&ColumnType::Float, Value::Double(0.1)).unwrap(), "0.1");
    assert_eq!(kept(&ColumnType::Year, Value::from("99")).unwrap(), "1999");
}

fn samples(noise: &mut Noise) -> Vec<Value> {
    (0..noise.next() % 6 * (1 + noise.next() % 4))
        .map(|_| match noise.next() % 9 {
            0 => Value::Null,
            1 => Value::Int(noise.next() as i64 - (1 << 40)),
            2 => Value::UInt(noise.next()),
            3 => Value::Double(noise.next() as f64 / 7.0 - 1e9),
            4 => Value::Decimal(Decimal::new(noise.next() as i128 - (1 << 42), 3)),
            5 => Value::Text("Grüße".repeat(noise.next() as usize % 5)),
            6 => Value::Bytes(vec![noise.next() as u8; noise.next() as usize % 20]),
            7 => Value::Date(Date::from_days(noise.next() as i64 % 50_000).unwrap()),
            _ => Value::DateTime(DateTime::from_unix_micros(noise.next() as i64).unwrap()),
        })
        .collect()
}

#[test]
fn rows_come_back_and_any_bytes_are_survived() {
    let mut noise = Noise(1);
    for _ in 0..2000 {
        let values = samples(&mut noise);
        let mut bytes = Vec::new();
        let schema = if noise.next().is_multiple_of(2) { 0 } else { noise.next() as u16 };
        write_row(schema, values.iter().map(Value::as_ref), &mut bytes);
        let row = RowReader::new(&bytes).unwrap();
        assert_eq!(row.schema(), schema);
        for (column, value) in values.iter().enumerate() {
            let read = row.get(column).unwrap().unwrap();
            assert_eq!(format!("{read:?}"), format!("{:?}", value.as_ref()));
            let field = row.field(column).unwrap();
            assert_eq!(format!("{field:?}"), format!("{:?}", Field::of(read)));
            let Some(field) = field else { continue };
            assert_eq!(format!("{:?}", field.value()), format!("{read:?}"));
        }
        assert!(row.get(values.len()).unwrap().is_none());
        assert!(row.field(values.len()).unwrap().is_none());
        let at = noise.next() as usize % bytes.len();
        bytes[at] = noise.next() as u8;
        bytes.truncate(noise.next() as usize % (bytes.len() + 1));
        if let Ok(row) = RowReader::new(&bytes) {
            assert!(
                (0..row.columns()).filter(|column| row.get(*column).is_ok()).count()
                    <= row.columns()
            );
            // Only a decimal may be invalid without an invalid field.
            for column in 0..row.columns() {
                let (value, field) = (row.get(column), row.field(column));
                assert!(value.is_err() || field.is_ok(), "{value:?}, but {field:?}");
            }
        }
    }
}

/// Rows without a schema version can be read, and rows of version 0 are still written so.
#[test]
fn the_bytes_of_rows_stay_what_they_are() {
    let values = [Value::Int(-2), Value::Null, Value::from("ab")];
    let plain = [
        [1, 3, 0].as_slice(),
        &[0b010, 9, 0, 0, 0, 9, 0, 0, 0, 12, 0, 0, 0],
        &[1, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 5, b'a', b'b'],
    ]
    .concat();
    let mut out = Vec::new();
    write_row(0, values.iter().map(Value::as_ref), &mut out);
    assert_eq!(out, plain);
    out.clear();
    write_row(0x0102, values.iter().map(Value::as_ref), &mut out);
    assert_eq!(out, [[2, 3, 0, 2, 1].as_slice(), &plain[3..]].concat());
    for cut in 0..out.len() {
        let row = RowReader::new(&out[..cut]);
        assert!(row.is_err() || row.is_ok_and(|row| (0..3).any(|at| row.get(at).is_err())));
    }
}

#[test]
fn values_of_narrower_types_become_those_of_wider_ones() {
    let signed = ColumnType::BIGINT;
    let unsigned = ColumnType::UBIGINT;
    let decimal = ColumnType::Decimal { precision: 12, scale: 4, unsigned: false };
    let shown = |value: ValueRef<'_>, ty: &ColumnType| format!("{:?}", widened(value, ty));
    assert_eq!(shown(ValueRef::UInt(7), &signed), "Int(7)");
    assert_eq!(shown(ValueRef::UInt(7), &unsigned), "UInt(7)");
    assert_eq!(shown(ValueRef::Int(-7), &signed), "Int(-7)");
    let float = ValueRef::Float(0.1);
    assert_eq!(shown(float, &ColumnType::Float), "Float(0.1)");
    let double = widened(float, &ColumnType::Double).to_owned();
    assert_eq!(
        format!("{double:?}"),
        format!("{:?}", ColumnType::Double.store(&Value::Float(0.1)).unwrap())
    );
    let wide = widened(ValueRef::Decimal(Decimal::new(-125, 2)), &decimal).to_owned();
    assert_eq!((wide.to_text().as_str(), wide.as_ref().is_null()), ("-1.2500", false));
    assert_eq!(shown(ValueRef::Text("x"), &ColumnType::VarChar(9)), "Text(\"x\")");
    assert_eq!(shown(ValueRef::Null, &signed), "Null");
}

#[test]
fn keys_compare_as_values_do() {
    let text = ["", "a", "a ", "a\t", "A", "ab", "abcdefgh", "abcdefghi", "b", "é", "z\u{0}"];
    let numbers = [i64::MIN, -300, -1, 0, 1, 255, 256, i64::MAX];
    let key = |value: &Value, column: &ColumnType, collation| {
        let mut out = Vec::new();
        key::write_part(&value.as_ref(), column, collation, None, &mut out);
        out
    };
    for collation in Collation::ALL {
        for a in text {
            for b in text {
                let column = ColumnType::VarChar(20);
                let keys = (
                    key(&Value::from(a), &column, collation),
                    key(&Value::from(b), &column, collation),
                );
                assert_eq!(
                    keys.0.cmp(&keys.1),
                    collation.compare(a.as_bytes(), b.as_bytes()),
                    "{a:?} {b:?}"
                );
            }
        }
    }
    for a in numbers {
        for b in numbers {
            let of = |n: i64| key(&Value::Int(n), &ColumnType::BIGINT, Collation::Binary);
            assert_eq!(of(a).cmp(&of(b)), a.cmp(&b));
            let of = |n: i64| {
                key(&Value::Double(n as f64 / 3.0), &ColumnType::Double, Collation::Binary)
            };
            assert_eq!(of(a).cmp(&of(b)), (a as f64).total_cmp(&(b as f64)));
            let price = ColumnType::Decimal { precision: 30, scale: 2, unsigned: false };
            let of =
                |n: i64| key(&Value::Decimal(Decimal::new(n.into(), 2)), &price, Collation::Binary);
            assert_eq!(of(a).cmp(&of(b)), a.cmp(&b));
        }
    }
    assert!(
        key(&Value::Null, &ColumnType::INT, Collation::Bin)
            < key(&Value::Int(i64::MIN), &ColumnType::INT, Collation::Bin)
    );
}

/// An exact part reads back unchanged, for any bytes before it in the buffer and after it in the
/// key. No truncated part is read.
#[test]
fn exact_parts_of_keys_are_read_back() {
    use crate::column::LobSize;
    let texts = ["", "a", "abcdefgh", "abcdefghi", "a ", "é\u{0}", "sixteen bytes .."];
    let at = DateTime::parse("2024-02-29 12:34:56.789").unwrap();
    let price = ColumnType::Decimal { precision: 65, scale: 30, unsigned: false };
    let member = ColumnType::Enum(vec!["b".into(), "a".into()]);
    let ints = [i64::MIN, -1, 0, 7, i64::MAX].map(Value::Int).to_vec();
    let uints = [0, 1 << 63, u64::MAX].map(Value::UInt).to_vec();
    let bytes = |text: &&str| Value::Bytes(text.as_bytes().to_vec());
    let cases: Vec<(ColumnType, Collation, Vec<Value>)> = vec![
        (ColumnType::BIGINT, Collation::Binary, ints),
        (ColumnType::UBIGINT, Collation::Binary, uints.clone()),
        (ColumnType::Bit(64), Collation::Binary, uints),
        (ColumnType::Year, Collation::Binary, vec![Value::Int(0), Value::Int(2155)]),
        (
            price,
            Collation::Binary,
            [
                "0",
                "-1",
                "99999999999999999999999999999999999.5",
                "-0.000000000000000000000000000001",
            ]
            .map(|text| Value::Decimal(decimal(text).round(30)))
            .to_vec(),
        ),
        (member, Collation::GeneralCi, ["b", "a", ""].map(Value::from).to_vec()),
        (
            ColumnType::Date,
            Collation::Binary,
            vec![Value::Date(at.date), Value::Date(Date::default())],
        ),
        (
            ColumnType::Time(6),
            Collation::Binary,
            vec![Value::Time(Time { micros: -3_020_399_000_000 })],
        ),
        (ColumnType::DateTime(6), Collation::Binary, vec![Value::DateTime(at)]),
        (ColumnType::Timestamp(6), Collation::Binary, vec![Value::DateTime(DateTime::default())]),
        (ColumnType::VarBinary(20), Collation::Binary, texts.iter().map(bytes).collect()),
        (ColumnType::Blob(LobSize::Tiny), Collation::Binary, texts.iter().map(bytes).collect()),
        (ColumnType::VarChar(20), Collation::Binary, texts.map(Value::from).to_vec()),
        (
            ColumnType::Char(20),
            Collation::Bin,
            ["", "a", "abcdefgh", "abcdefgh\t", "abcdefgh i", " \0"].map(Value::from).to_vec(),
        ),
    ];
    for (column, collation, mut values) in cases {
        assert!(key::is_exact(&column, collation, None), "{column}");
        assert!(!key::is_exact(&column, collation, Some(3)), "{column}");
        values.push(Value::Null);
        for value in values {
            let mut part = Vec::new();
            key::write_part(&value.as_ref(), &column, collation, None, &mut part);
            let mut room = b"before".to_vec();
            for cut in 0..part.len() {
                assert!(key::read_part(&part[..cut], &column, &mut room).is_none(), "{value:?}");
            }
            room.truncate(6);
            let len = part.len();
            part.extend_from_slice(&[9; 20]);
            let (read, read_len) = key::read_part(&part, &column, &mut room).unwrap();
            assert_eq!(read_len, len);
            assert_eq!(key::part_len(&part, &column), Some(len));
            let found = read.value(&room).unwrap();
            assert_eq!(format!("{found:?}"), format!("{:?}", value.as_ref()), "{column}");
        }
    }
    let told = |column: &ColumnType, collation| key::is_exact(column, collation, None);
    for collation in Collation::ALL {
        assert!(!told(&ColumnType::Double, collation) && !told(&ColumnType::Float, collation));
        assert!(!told(&ColumnType::Set(vec!["a".into()]), collation));
        let text = [Collation::Binary, Collation::Bin0900].contains(&collation);
        assert_eq!(told(&ColumnType::VarChar(9), collation), text);
        assert_eq!(told(&ColumnType::Char(9), collation), text || collation == Collation::Bin);
    }
    // Values that no part encodes: a member that the type lacks, a day that does not exist.
    let mut room = Vec::new();
    let enumeration = ColumnType::Enum(vec!["a".into()]);
    assert!(key::read_part(&[1, 0, 0, 0, 0, 0, 0, 0, 2], &enumeration, &mut room).is_none());
    assert!(key::read_part(&[1, 7, 231, 2, 30], &ColumnType::Date, &mut room).is_none());
}

#[test]
fn a_comparison_agrees_with_the_keys_and_the_weights() {
    let texts = [
        "",
        " ",
        "a",
        "A",
        "a ",
        "ab",
        "ab\t",
        "aB\u{0}",
        "é",
        "E",
        "aé",
        "aÉb",
        "ae",
        "zß",
        "zs",
        "\u{1F600}",
        "~",
        "[",
        "_",
        "abcé",
        "ABCe ",
        "abcf",
    ];
    for a in texts {
        let mut key = Vec::new();
        Collation::GeneralCi.sort_key(a.as_bytes(), &mut key);
        let weights = a.trim_end_matches(' ').chars().map(|c| Collation::GeneralCi.weight(c));
        let spelled: Vec<u8> =
            weights.flat_map(|weight| weight.to_be_bytes()[6..].to_vec()).collect();
        assert_eq!(key, spelled, "{a:?}");
    }
    for collation in Collation::ALL {
        for (a, b) in texts.iter().flat_map(|a| texts.iter().map(move |b| (a, b))) {
            let [same, other] = [a, b].map(|text| {
                let mut key = vec![7];
                collation.equal_key(text.as_bytes(), &mut key);
                key
            });
            let order = collation.compare(a.as_bytes(), b.as_bytes());
            assert_eq!(order.is_eq(), same == other, "{collation:?} {a:?} {b:?}");
            let heads = collation.head(a.as_bytes()).cmp(&collation.head(b.as_bytes()));
            assert!(heads.is_eq() || heads == order, "{collation:?} {a:?} {b:?}");
        }
    }
}

#[test]
fn an_index_is_asked_for_what_the_column_keeps() {
    use key::{Lookup, lookup};
    let at = |value: Value, column: &ColumnType| match lookup(&value, column) {
        Lookup::At(value) => value.to_text(),
        Lookup::Nowhere => "nowhere".to_owned(),
        Lookup::Unknown => "unknown".to_owned(),
    };
    let unsigned = ColumnType::Int { width: IntWidth::Tiny, unsigned: true, boolean: false };
    let decimals = ColumnType::Decimal { precision: 5, scale: 1, unsigned: false };
    let number = |text| Value::Decimal(decimal(text));
    assert_eq!(at(number("5.0"), &ColumnType::BIGINT), "5");
    assert_eq!(at(number("5"), &unsigned), "5");
    assert_eq!(at(number("5.5"), &ColumnType::BIGINT), "nowhere");
    assert_eq!(at(number("99999999999999999999"), &ColumnType::BIGINT), "nowhere");
    assert_eq!(at(Value::UInt(u64::MAX), &ColumnType::BIGINT), "nowhere");
    assert_eq!(at(Value::Int(256), &unsigned), "nowhere");
    assert_eq!(at(Value::Int(-1), &unsigned), "nowhere");
    assert_eq!(at(Value::Int(-1), &ColumnType::Bit(5)), "nowhere");
    assert_eq!(at(Value::UInt(2020), &ColumnType::Year), "2020");
    assert_eq!(at(Value::UInt(u64::MAX), &ColumnType::Year), "nowhere");
    assert_eq!(at(number("1.00"), &decimals), "1.0");
    assert_eq!(at(number("1.25"), &decimals), "nowhere");
    assert_eq!(at(Value::Int(10_000), &decimals), "nowhere");
    assert_eq!(at(Value::Int(1), &ColumnType::VarChar(5)), "unknown");
    // A double may equal numbers with more digits than it shows.
    assert_eq!(at(Value::Double(0.5), &ColumnType::BIGINT), "unknown");
}

/// A column stores a value unchanged if [`ColumnType::keeps`] returns `true`, which it does for
/// common values.
#[test]
fn what_a_column_keeps_is_stored_as_it_is() {
    use crate::column::IntWidth as W;
    let int = |width, unsigned| ColumnType::Int { width, unsigned, boolean: false };
    let mut types: Vec<ColumnType> = [W::Tiny, W::Small, W::Medium, W::Normal, W::Big]
        .into_iter()
        .flat_map(|width| [int(width, false), int(width, true)])
        .collect();
    types.extend([0, 1, 3, 120].map(ColumnType::Char));
    types.extend([0, 1, 3, 120].map(ColumnType::VarChar));
    let mut values = vec![Value::Null, Value::Double(1.0), Value::UInt(u64::MAX)];
    for bits in [7, 8, 15, 16, 23, 24, 31, 32, 63] {
        let edge = 1_i64.checked_shl(bits).unwrap_or(0);
        let near = [edge, edge.wrapping_sub(1), edge.wrapping_neg(), !edge];
        values.extend(near.map(Value::Int));
        values.extend(near.map(|number| Value::UInt(number as u64)));
    }
    values.extend(["", " ", "a", "a ", "é", "éàü", "abc", "abcd"].map(Value::from));
    let mut kept = 0;
    for ty in &types {
        for value in values.iter().filter(|value| ty.keeps(value)) {
            kept += 1;
            let stored = ty.store(value).map_err(|(why, _)| why);
            assert_eq!(format!("{stored:?}"), format!("{:?}", Ok::<_, StoreError>(value)));
        }
    }
    assert!(kept > 100, "{kept}");
    assert!(int(W::Tiny, false).keeps(&Value::Int(-128)));
    assert!(!int(W::Tiny, false).keeps(&Value::Int(128)));
    assert!(int(W::Big, false).keeps(&Value::Int(i64::MIN)));
}

/// A whole number is looked up where it is stored, and nowhere if the column's width cannot hold
/// it.
#[test]
fn whole_numbers_are_looked_up_as_they_are_kept() {
    use IntWidth as W;
    use key::{Lookup, lookup};
    let edges = |bits: u32| [-1_i64 << (bits - 1), (1_i64 << (bits - 1)).wrapping_sub(1)];
    let near = |edge: i64| [edge.wrapping_sub(1), edge, edge.wrapping_add(1)];
    let numbers = [8, 16, 24, 32, 64].into_iter().flat_map(edges).flat_map(near);
    let numbers: Vec<i64> = numbers.chain([0, -1, 1]).collect();
    for width in [W::Tiny, W::Small, W::Medium, W::Normal, W::Big] {
        for unsigned in [false, true] {
            let column = ColumnType::Int { width, unsigned, boolean: false };
            for number in &numbers {
                let value = Value::Int(*number);
                match (lookup(&value, &column), column.store(&value)) {
                    (Lookup::At(found), Ok(kept)) => {
                        assert_eq!(format!("{found:?}"), format!("{kept:?}"))
                    }
                    (Lookup::Nowhere, Err(_)) => {}
                    (found, kept) => panic!("{number} in {column:?}: {found:?}, {kept:?}"),
                }
            }
        }
    }
}

/// The encoding of texts and bytes in keys stays the same, because stored tables are in its order.
#[test]
fn texts_in_keys_are_groups_of_eight() {
    let written = |value: ValueRef<'_>, collation| {
        let mut out = vec![7];
        key::write_part(&value, &ColumnType::VarChar(20), collation, None, &mut out);
        out
    };
    for (text, groups) in [
        (&b""[..], &b"\0\0\0\0\0\0\0\0\0"[..]),
        (b"abc", b"abc\0\0\0\0\0\x03"),
        (b"abcdefgh", b"abcdefgh\x08"),
        (b"abcdefghi", b"abcdefgh\x09i\0\0\0\0\0\0\0\x01"),
        (b"abcdefghabcdefgh", b"abcdefgh\x09abcdefgh\x08"),
    ] {
        let expected = [&[7, 1], groups].concat();
        assert_eq!(written(ValueRef::Bytes(text), Collation::Binary), expected);
        let text = std::str::from_utf8(text).unwrap();
        assert_eq!(written(ValueRef::Text(text), Collation::Bin0900), expected);
    }
    for (text, groups) in [
        ("", &b"        \x0A"[..]),
        ("abc ", b"abc     \x0A"),
        ("abcdefgh", b"abcdefgh\x0A"),
        ("abcdefghi", b"abcdefgh\x0Bi       \x0A"),
        ("abcdefgh\t", b"abcdefgh\x09\t       \x0A"),
        ("abcdefgh          !", b"abcdefgh\x0B        \x0B  !     \x0A"),
    ] {
        let expected = [&[7, 1], groups].concat();
        assert_eq!(written(ValueRef::Text(text), Collation::Bin), expected);
    }
    let expected = [&[7, 1][..], b"\0A\0B\0C\0 \x0A"].concat();
    assert_eq!(written(ValueRef::Text("aBc "), Collation::GeneralCi), expected);
    let expected = [&[7, 1][..], b"\0A\0B\0C\0D\x09\0\t\0 \0 \0 \x0A"].concat();
    assert_eq!(written(ValueRef::Text("aBcd\t"), Collation::GeneralCi), expected);
}

#[test]
fn times_become_integers_by_whole_seconds() {
    let of = |value: Value| crate::convert::to_i128(&value.as_ref()).unwrap();
    let at = |text: &str| of(Value::DateTime(DateTime::parse(text).unwrap()));
    assert_eq!(at("2023-12-31 23:59:59.5"), 20_240_101_000_000);
    assert_eq!(at("2024-02-28 23:59:59.999999"), 20_240_229_000_000);
    assert_eq!(at("2024-02-28 23:59:59.499999"), 20_240_228_235_959);
    // There is no later second.
    assert_eq!(at("9999-12-31 23:59:59.9"), 99_991_231_235_959);
    let span = |text: &str| of(Value::Time(Time::parse(text).unwrap()));
    assert_eq!((span("00:59:59.5"), span("-00:59:59.5")), (10_000, -10_000));
    assert_eq!((span("00:00:00.4"), span("-838:59:58.5")), (0, -8_385_959));
}
