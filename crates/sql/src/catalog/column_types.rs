//! Parses column types in SQL's notation.

use spillway_types::column::{IntWidth, LobSize};
use spillway_types::{Collation, ColumnType};
use sqlparser::ast::{DataType, EnumMember};

use crate::errors::{Result, SqlError};

const ENUM_MAX: usize = 65_535;
const SET_MAX: usize = 64;

/// The type of a column, and the collation that it names.
pub(crate) fn column_type(ty: &DataType, column: &str) -> Result<(ColumnType, Option<Collation>)> {
    let ty = match ty {
        DataType::Enum(members, _) => {
            let names = members.iter().map(|member| match member {
                EnumMember::Name(name) => Ok(name.clone()),
                EnumMember::NamedValue(name, _) => Err(SqlError::syntax(format!("near '{name}'"))),
            });
            ColumnType::Enum(names.collect::<Result<_>>()?)
        }
        DataType::Set(names) => ColumnType::Set(names.clone()),
        other => return parse_type(&other.to_string(), column),
    };
    Ok((ty, None))
}

/// Refuses too many members of an ENUM or SET, and two that the column's collation holds equal.
pub(crate) fn check_members(ty: &ColumnType, collation: Collation, column: &str) -> Result<()> {
    let (names, kind, max) = match ty {
        ColumnType::Enum(names) => (names, "ENUM", ENUM_MAX),
        ColumnType::Set(names) => (names, "SET", SET_MAX),
        _ => return Ok(()),
    };
    if names.len() > max {
        return Err(SqlError::new(1097, format!("Too many strings for column {column} and SET")));
    }
    if let Some(name) = names.iter().find(|name| kind == "SET" && name.contains(',')) {
        return Err(SqlError::new(
            1367,
            format!("Illegal set '{name}' value found during parsing"),
        ));
    }
    for (at, name) in names.iter().enumerate() {
        let twice = |other: &String| collation.compare(other.as_bytes(), name.as_bytes()).is_eq();
        if names[..at].iter().any(twice) {
            let text = format!("Column '{column}' has duplicated value '{name}' in {kind}");
            return Err(SqlError::new(1291, text));
        }
    }
    Ok(())
}

/// A type as text: its name, the text in parentheses, and what follows.
struct Spelled<'t> {
    text: &'t str,
    name: String,
    numbers: Vec<u32>,
    after: String,
}

impl Spelled<'_> {
    fn read(text: &str) -> Result<Spelled<'_>> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (mut name, mut rest) = (text[..end].to_ascii_uppercase(), text[end..].trim());
        let varying = rest.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("VARYING"));
        if varying && matches!(name.as_str(), "CHAR" | "CHARACTER" | "NCHAR") {
            (name, rest) = ("VARCHAR".to_owned(), rest[7..].trim());
        }
        let (inside, after) = match rest.strip_prefix('(') {
            Some(rest) => {
                rest.split_once(')').ok_or_else(|| SqlError::syntax(format!("near '{text}'")))?
            }
            None => ("", rest),
        };
        let wrong = |_| SqlError::syntax(format!("near '{text}'"));
        let numbers = inside.split(',').map(str::trim).filter(|part| !part.is_empty());
        Ok(Spelled {
            text,
            name,
            numbers: numbers
                .map(|part| part.parse::<u32>().map_err(wrong))
                .collect::<Result<_>>()?,
            after: after.trim().to_ascii_uppercase(),
        })
    }

    fn first(&self) -> Option<u32> {
        self.numbers.first().copied()
    }

    fn int(&self, width: IntWidth) -> ColumnType {
        let unsigned = self.after.contains("UNSIGNED") || self.after.contains("ZEROFILL");
        ColumnType::Int { width, unsigned, boolean: false }
    }

    fn length(&self, column: &str, max: u32) -> Result<u32> {
        let length = self.first().unwrap_or(1);
        if length > max {
            let text = format!(
                "Column length too big for column '{column}' (max = {max}); use BLOB or TEXT instead"
            );
            return Err(SqlError::new(1074, text));
        }
        Ok(length)
    }

    fn decimal(&self, column: &str) -> Result<ColumnType> {
        let precision = self.first().filter(|precision| *precision > 0).unwrap_or(10);
        let scale = self.numbers.get(1).copied().unwrap_or(0);
        if scale > 30 {
            let text =
                format!("Too big scale {scale} specified for column '{column}'. Maximum is 30.");
            return Err(SqlError::new(1425, text));
        }
        if precision > 65 {
            let text =
                format!("Too-big precision {precision} specified for '{column}'. Maximum is 65.");
            return Err(SqlError::new(1426, text));
        }
        if scale > precision {
            let text = format!(
                "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '{column}')."
            );
            return Err(SqlError::new(1427, text));
        }
        let unsigned = self.after.contains("UNSIGNED") || self.after.contains("ZEROFILL");
        Ok(ColumnType::Decimal { precision: precision as u8, scale: scale as u8, unsigned })
    }

    /// The number of fractional digits of the seconds.
    fn fraction(&self, column: &str) -> Result<u8> {
        match self.first().unwrap_or(0) {
            digits @ 0..=6 => Ok(digits as u8),
            digits => Err(SqlError::new(
                1426,
                format!("Too-big precision {digits} specified for '{column}'. Maximum is 6."),
            )),
        }
    }

    fn bits(&self, column: &str) -> Result<ColumnType> {
        match self.first().unwrap_or(1) {
            bits @ 1..=64 => Ok(ColumnType::Bit(bits as u8)),
            0 => Err(SqlError::new(3013, format!("Invalid size for column '{column}'."))),
            _ => Err(SqlError::new(
                1439,
                format!("Display width out of range for column '{column}' (max = 64)"),
            )),
        }
    }

    /// The collation that follows the type, if any.
    fn collation(&self) -> Result<Option<Collation>> {
        let name = self.after.split_once("COLLATE").map(|(_, name)| name.trim());
        name.map(|name| collation_named(&name.to_ascii_lowercase())).transpose()
    }
}

/// Parses a type as SQL writes it, with the collation that it names.
pub(crate) fn parse_type(text: &str, column: &str) -> Result<(ColumnType, Option<Collation>)> {
    let spelled = Spelled::read(text)?;
    let first = spelled.first();
    let tiny = |boolean| match spelled.int(IntWidth::Tiny) {
        ColumnType::Int { width, unsigned, .. } => {
            ColumnType::Int { width, unsigned, boolean: boolean && !unsigned }
        }
        other => other,
    };
    let ty = match spelled.name.as_str() {
        "BOOL" | "BOOLEAN" => tiny(true),
        "TINYINT" => tiny(first == Some(1)),
        "SMALLINT" | "INT2" => spelled.int(IntWidth::Small),
        "MEDIUMINT" | "INT3" | "MIDDLEINT" => spelled.int(IntWidth::Medium),
        "INT" | "INTEGER" | "INT4" => spelled.int(IntWidth::Normal),
        "BIGINT" | "INT8" => spelled.int(IntWidth::Big),
        "DECIMAL" | "NUMERIC" | "DEC" | "FIXED" => spelled.decimal(column)?,
        "FLOAT" | "DOUBLE" | "REAL" if spelled.numbers.len() > 1 => {
            return Err(SqlError::unsupported(format!("decimals of {}", spelled.text)));
        }
        "FLOAT" if first.is_none_or(|bits| bits <= 24) => ColumnType::Float,
        "FLOAT" | "DOUBLE" | "REAL" => ColumnType::Double,
        "BIT" => spelled.bits(column)?,
        "CHAR" | "CHARACTER" | "NCHAR" => ColumnType::Char(spelled.length(column, 255)?),
        "VARCHAR" | "NVARCHAR" | "VARBINARY" if first.is_none() => {
            return Err(SqlError::syntax(format!("near '{text}': it needs a length")));
        }
        "VARCHAR" | "NVARCHAR" => ColumnType::VarChar(spelled.length(column, 16_383)?),
        "TINYTEXT" => ColumnType::Text(LobSize::Tiny),
        "TEXT" => ColumnType::Text(LobSize::Normal),
        "MEDIUMTEXT" => ColumnType::Text(LobSize::Medium),
        "LONGTEXT" => ColumnType::Text(LobSize::Long),
        "BINARY" => ColumnType::Binary(spelled.length(column, 255)?),
        "VARBINARY" => ColumnType::VarBinary(spelled.length(column, 65_535)?),
        "TINYBLOB" => ColumnType::Blob(LobSize::Tiny),
        "BLOB" => ColumnType::Blob(LobSize::Normal),
        "MEDIUMBLOB" => ColumnType::Blob(LobSize::Medium),
        "LONGBLOB" => ColumnType::Blob(LobSize::Long),
        "DATE" => ColumnType::Date,
        "TIME" => ColumnType::Time(spelled.fraction(column)?),
        "DATETIME" => ColumnType::DateTime(spelled.fraction(column)?),
        "TIMESTAMP" => ColumnType::Timestamp(spelled.fraction(column)?),
        "YEAR" => ColumnType::Year,
        "JSON" => ColumnType::Json,
        _ => return Err(SqlError::unsupported(format!("column type {}", spelled.text))),
    };
    Ok((ty, spelled.collation()?))
}

/// The collation with this name, or the default collation of the character set with this name.
pub(crate) fn collation_named(name: &str) -> Result<Collation> {
    let name = name.replace(['`', '\'', '"'], "");
    Collation::from_name(&name)
        .ok_or_else(|| SqlError::new(1273, format!("Unknown collation: '{name}'")))
}
