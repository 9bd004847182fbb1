//! Decodes the parameters of prepared statements from COM_STMT_EXECUTE and COM_STMT_SEND_LONG_DATA.

use rustc_hash::FxHashMap;
use spillway_base::budget::{Budget, Charge, Use};
use spillway_sql::SqlError;
use spillway_types::{Date, DateTime, Time, Value};

use crate::codec::Take;

/// The state of a statement's parameters between its commands.
#[derive(Default)]
pub(crate) struct Bound {
    /// The type of each parameter, and whether it is unsigned, from the last execution that sent
    /// types.
    types: Vec<(u8, bool)>,
    /// Parameters that came in pieces.
    long: FxHashMap<u16, Vec<u8>>,
    long_bytes: usize,
    charge: Option<Charge>,
    /// The error of a refused piece. The next execution reports it, because a piece has no
    /// response.
    refused: Option<SqlError>,
    /// The values of the last execution, kept to reuse their memory.
    values: Vec<Value>,
}

/// Values keep their memory for the next execution if they are texts up to this length, in a list
/// of up to [`KEPT_COUNT`] parameters.
const KEPT_BYTES: usize = 512;
const KEPT_COUNT: usize = 64;

/// The bytes of a parameter that comes in pieces, in addition to the pieces.
const ENTRY_BYTES: usize = 128;

fn wrong_arguments() -> SqlError {
    SqlError::new(1210, "Incorrect arguments to mysqld_stmt_execute")
}

impl Bound {
    /// Forgets the parameters that came in pieces.
    pub(crate) fn reset(&mut self) {
        self.long.clear();
        self.long_bytes = 0;
        self.charge = None;
        self.refused = None;
    }

    /// Takes a piece of a parameter.
    pub(crate) fn append(
        &mut self,
        at: u16,
        count: usize,
        piece: &[u8],
        max: usize,
        budget: &Budget,
    ) {
        let len = self.long.get(&at).map_or(0, Vec::len);
        let refused = if usize::from(at) >= count {
            Some(SqlError::new(1210, "Incorrect arguments to mysqld_stmt_send_long_data"))
        } else if len + piece.len() > max {
            let text = "Parameter of prepared statement which is set through mysql_send_long_data() \
                        is longer than 'max_allowed_packet' bytes";
            Some(SqlError::new(1105, text))
        } else {
            let entry = if self.long.contains_key(&at) { 0 } else { ENTRY_BYTES };
            self.hold(entry + piece.len(), budget).err()
        };
        match refused {
            Some(error) => self.refuse(error),
            None => self.long.entry(at).or_default().extend_from_slice(piece),
        }
    }

    /// Makes the next execution report why a piece was refused.
    pub(crate) fn refuse(&mut self, error: SqlError) {
        self.refused.get_or_insert(error);
    }

    fn hold(&mut self, more: usize, budget: &Budget) -> Result<(), SqlError> {
        let charge = self.charge.get_or_insert_with(|| budget.charge(Use::Connections, 0));
        charge.try_resize(self.long_bytes + more)?;
        self.long_bytes += more;
        Ok(())
    }

    /// Takes values back, to reuse their memory for the next execution.
    ///
    /// `bytes` is the length of the command that had them. Long values are freed.
    pub(crate) fn give_back(&mut self, values: Vec<Value>, bytes: usize) {
        let in_pieces = self.charge.take().is_some();
        if values.len() <= KEPT_COUNT && bytes <= KEPT_COUNT * KEPT_BYTES && !in_pieces {
            self.values = values;
        }
    }

    /// Reads the parameters after the fixed head of COM_STMT_EXECUTE. The caller returns the values
    /// with [`Bound::give_back`].
    ///
    /// # Errors
    /// 1210 if they are malformed, 1292 for an invalid time, and the error of a refused piece.
    pub(crate) fn read(&mut self, bytes: &[u8], count: usize) -> Result<Vec<Value>, SqlError> {
        let mut long = None;
        if !self.long.is_empty() || self.refused.is_some() {
            let refused = self.refused.take();
            // The values' charge lasts until they are given back.
            long = Some(std::mem::take(&mut self.long));
            self.long_bytes = 0;
            if let Some(error) = refused {
                self.reset();
                return Err(error);
            }
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut values = std::mem::take(&mut self.values);
        let mut take = Take(bytes);
        let nulls = take.bytes(count.div_ceil(8)).ok_or_else(wrong_arguments)?;
        let is_null = |at: usize| nulls[at / 8] >> (at % 8) & 1 == 1;
        if take.u8().ok_or_else(wrong_arguments)? != 0 {
            let types = take.bytes(count * 2).ok_or_else(wrong_arguments)?;
            let types = types.chunks_exact(2).map(|pair| (pair[0], pair[1] & 0x80 != 0));
            // Most clients send the same types each time.
            if !types.clone().eq(self.types.iter().copied()) {
                self.types.clear();
                self.types.extend(types);
            }
        }
        if self.types.len() != count {
            // A client that has only bound NULLs need not send types.
            return if (0..count).all(is_null) {
                Ok(vec![Value::Null; count])
            } else {
                Err(wrong_arguments())
            };
        }
        values.resize(count, Value::Null);
        for (at, (value, (kind, unsigned))) in values.iter_mut().zip(&self.types).enumerate() {
            let piece = long.as_mut().and_then(|long| long.remove(&(at as u16)));
            *value = match piece {
                Some(bytes) => text_or_bytes_in_pieces(bytes, *kind),
                None if is_null(at) => Value::Null,
                None => read_value(&mut take, *kind, *unsigned, value)?,
            };
        }
        Ok(values)
    }
}

/// A text, in the memory of the previous one if it is worth reusing.
fn text(text: &str, before: &mut Value) -> Value {
    match before {
        Value::Text(room) if room.capacity() <= KEPT_BYTES => {
            let mut room = std::mem::take(room);
            room.clear();
            room.push_str(text);
            Value::Text(room)
        }
        _ => Value::Text(text.to_owned()),
    }
}

/// Whether a parameter's value is text. Blob types are bytes only if the driver declares that,
/// because drivers also send text with these types.
fn is_text(bytes: &[u8], kind: u8) -> bool {
    !(249..=252).contains(&kind) || !bytes.contains(&0)
}

/// A value that came in pieces is used without a copy.
fn text_or_bytes_in_pieces(bytes: Vec<u8>, kind: u8) -> Value {
    if !is_text(&bytes, kind) {
        return Value::Bytes(bytes);
    }
    String::from_utf8(bytes).map_or_else(|error| Value::Bytes(error.into_bytes()), Value::Text)
}

fn text_or_bytes(bytes: &[u8], kind: u8, before: &mut Value) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(shown) if is_text(bytes, kind) => text(shown, before),
        _ => Value::Bytes(bytes.to_vec()),
    }
}

fn read_value(
    take: &mut Take<'_>,
    kind: u8,
    unsigned: bool,
    before: &mut Value,
) -> Result<Value, SqlError> {
    match kind {
        7 | 10 | 12 | 14 => return read_datetime(take, kind == 10 || kind == 14),
        11 => return read_time(take),
        _ => {}
    }
    read_plain(take, kind, unsigned, before).ok_or_else(wrong_arguments)
}

fn read_plain(take: &mut Take<'_>, kind: u8, unsigned: bool, before: &mut Value) -> Option<Value> {
    let integer =
        |signed: i64, plain: u64| if unsigned { Value::UInt(plain) } else { Value::Int(signed) };
    Some(match kind {
        6 => Value::Null,
        1 => {
            let byte = take.u8()?;
            integer(i64::from(byte as i8), u64::from(byte))
        }
        2 | 13 => {
            let number = take.u16()?;
            integer(i64::from(number as i16), u64::from(number))
        }
        3 | 9 => {
            let number = take.u32()?;
            integer(i64::from(number as i32), u64::from(number))
        }
        8 => {
            let number = take.u64()?;
            integer(number as i64, number)
        }
        4 => {
            let number = take.array().map(f32::from_le_bytes)?;
            // The double whose text is the float's.
            Value::Double(number.to_string().parse().unwrap_or(f64::from(number)))
        }
        5 => Value::Double(take.array().map(f64::from_le_bytes)?),
        0 | 246 => text(std::str::from_utf8(take.sized()?).ok()?, before),
        15 | 16 | 245 | 247..=255 => text_or_bytes(take.sized()?, kind, before),
        _ => return None,
    })
}

/// Hours, minutes, seconds and microseconds, if the value has them.
fn read_clock(take: &mut Take<'_>, micros: bool) -> Option<[u64; 4]> {
    let [hour, minute, second] = take.array::<3>()?.map(u64::from);
    let part = if micros { u64::from(take.u32()?) } else { 0 };
    Some([hour, minute, second, part])
}

fn on_the_clock([hour, minute, second, part]: [u64; 4]) -> bool {
    hour < 24 && minute < 60 && second < 60 && part < 1_000_000
}

fn in_micros([hour, minute, second, part]: [u64; 4]) -> u64 {
    (hour * 3600 + minute * 60 + second) * 1_000_000 + part
}

fn read_datetime(take: &mut Take<'_>, date_only: bool) -> Result<Value, SqlError> {
    let len = take.u8().ok_or_else(wrong_arguments)?;
    let (mut year, mut month, mut day, mut clock) = (0, 0, 0, [0; 4]);
    if len > 0 {
        if ![4, 7, 11].contains(&len) {
            return Err(wrong_arguments());
        }
        let mut read = || -> Option<()> {
            year = take.u16()?;
            [month, day] = take.array()?;
            if len > 4 {
                clock = read_clock(take, len == 11)?;
            }
            Some(())
        };
        read().ok_or_else(wrong_arguments)?;
    }
    let wrong = |kind: &str| {
        let [hour, minute, second, part] = clock;
        let text = format!(
            "Incorrect {kind} value: '{year:04}-{month:02}-{day:02} \
             {hour:02}:{minute:02}:{second:02}.{part:06}'"
        );
        SqlError::new(1292, text)
    };
    let kind = if date_only { "DATE" } else { "DATETIME" };
    let date = if (year, month, day) == (0, 0, 0) {
        Some(Date::default())
    } else {
        Date::new(year, month, day)
    };
    let date = date.filter(|_| on_the_clock(clock)).ok_or_else(|| wrong(kind))?;
    Ok(if date_only {
        Value::Date(date)
    } else {
        Value::DateTime(DateTime { date, micros: in_micros(clock) })
    })
}

/// The longest TIME, in seconds.
const TIME_MAX_SECONDS: u64 = 838 * 3600 + 59 * 60 + 59;

fn read_time(take: &mut Take<'_>) -> Result<Value, SqlError> {
    let len = take.u8().ok_or_else(wrong_arguments)?;
    if len == 0 {
        return Ok(Value::Time(Time::default()));
    }
    if ![8, 12].contains(&len) {
        return Err(wrong_arguments());
    }
    let mut read = || Some((take.u8()?, u64::from(take.u32()?), read_clock(take, len == 12)?));
    let (sign, days, clock) = read().ok_or_else(wrong_arguments)?;
    let micros = (days * 86_400).saturating_mul(1_000_000).saturating_add(in_micros(clock));
    if !on_the_clock(clock) || micros > TIME_MAX_SECONDS * 1_000_000 {
        let [hour, minute, second, part] = clock;
        let minus = if sign == 0 { "" } else { "-" };
        let text = format!(
            "Incorrect TIME value: '{minus}{days} {hour:02}:{minute:02}:{second:02}.{part:06}'"
        );
        return Err(SqlError::new(1292, text));
    }
    Ok(Value::Time(Time { micros: if sign == 0 { micros as i64 } else { -(micros as i64) } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(read: &[Value], wanted: &[Value]) {
        assert_eq!(format!("{read:?}"), format!("{wanted:?}"));
    }

    #[test]
    fn any_bytes_are_parameters_or_an_error() {
        let mut rng = spillway_base::rng::Rng::new(5);
        let (mut some, mut none) = (0, 0);
        for _ in 0..50_000 {
            let mut bytes = vec![0; rng.below(60) as usize];
            rng.fill(&mut bytes);
            if bytes.len() > 2 {
                bytes[1] = 1;
                bytes[2] %= 16;
            }
            match Bound::default().read(&bytes, 1 + rng.below(2) as usize) {
                Ok(_) => some += 1,
                Err(_) => none += 1,
            }
        }
        assert!(some > 10 && none > 1000, "{some} {none}");
    }

    /// One parameter of every type with its bytes and its value.
    fn samples() -> Vec<(u8, u8, Vec<u8>, Value)> {
        let at = |date: (u16, u8, u8), micros| {
            Value::DateTime(DateTime { date: Date::new(date.0, date.1, date.2).unwrap(), micros })
        };
        let nine_hours = (9 * 3600 + 10 * 60 + 11) * 1_000_000;
        vec![
            (1, 0, vec![0x80], Value::Int(-128)),
            (1, 0x80, vec![0x80], Value::UInt(128)),
            (2, 0, vec![0, 0x80], Value::Int(-32_768)),
            (13, 0x80, vec![0xE9, 7], Value::UInt(2025)),
            (3, 0, vec![0, 0, 0, 0x80], Value::Int(i64::from(i32::MIN))),
            (9, 0x80, vec![0xFF; 4], Value::UInt(u64::from(u32::MAX))),
            (8, 0, vec![0, 0, 0, 0, 0, 0, 0, 0x80], Value::Int(i64::MIN)),
            (8, 0x80, vec![0xFF; 8], Value::UInt(u64::MAX)),
            (4, 0, 0.1_f32.to_le_bytes().to_vec(), Value::Double(0.1)),
            (5, 0, (-2.5_f64).to_le_bytes().to_vec(), Value::Double(-2.5)),
            (246, 0, b"\x041.50".to_vec(), Value::Text("1.50".to_owned())),
            (253, 0, b"\x02ok".to_vec(), Value::Text("ok".to_owned())),
            (252, 0, vec![2, 0xFF, 0], Value::Bytes(vec![0xFF, 0])),
            (12, 0, vec![4, 0xE8, 7, 2, 29], at((2024, 2, 29), 0)),
            (7, 0, vec![7, 0xE8, 7, 2, 29, 9, 10, 11], at((2024, 2, 29), nine_hours)),
            (
                12,
                0,
                vec![11, 0xE8, 7, 2, 29, 9, 10, 11, 5, 0, 0, 0],
                at((2024, 2, 29), nine_hours + 5),
            ),
            (10, 0, vec![4, 0xE8, 7, 2, 29], Value::Date(Date::new(2024, 2, 29).unwrap())),
            (12, 0, vec![0], Value::DateTime(DateTime::default())),
            (11, 0, vec![0], Value::Time(Time::default())),
            (
                11,
                0,
                vec![8, 1, 1, 0, 0, 0, 9, 10, 11],
                Value::Time(Time { micros: -(86_400_000_000 + nine_hours as i64) }),
            ),
            (
                11,
                0,
                vec![12, 0, 0, 0, 0, 0, 9, 10, 11, 5, 0, 0, 0],
                Value::Time(Time { micros: nine_hours as i64 + 5 }),
            ),
        ]
    }

    #[test]
    fn every_type_is_read_and_every_shorter_length_is_refused() {
        for (kind, flags, bytes, value) in samples() {
            let whole = [&[0, 1, kind, flags][..], &bytes].concat();
            let read = Bound::default().read(&whole, 1).unwrap();
            same(&read, &[value]);
            for cut in 0..whole.len() {
                let error = Bound::default().read(&whole[..cut], 1).unwrap_err();
                assert_eq!(error.code, 1210, "type {kind} cut to {cut}");
            }
        }
    }

    #[test]
    fn times_that_there_are_not_are_refused() {
        let code = |bytes: &[u8]| {
            Bound::default()
                .read(&[&[0, 1], bytes].concat(), 1)
                .map_or_else(|error| error.code, |_| 0)
        };
        for (hour, minute, second) in [(24, 0, 0), (0, 60, 0), (0, 0, 60), (255, 255, 255)] {
            let at = [12, 0, 7, 0xE8, 7, 2, 29, hour, minute, second];
            assert_eq!(code(&at), 1292);
            let span = [11, 0, 8, 0, 0, 0, 0, 0, hour, minute, second];
            assert_eq!(code(&span), 1292);
        }
        // One microsecond too many, an invalid day, an invalid month, and 839 hours.
        assert_eq!(code(&[12, 0, 11, 0xE8, 7, 2, 29, 0, 0, 0, 0x40, 0x42, 0x0F, 0]), 1292);
        assert_eq!(code(&[10, 0, 4, 0xE9, 7, 2, 29]), 1292);
        assert_eq!(code(&[10, 0, 4, 0xE9, 7, 13, 1]), 1292);
        assert_eq!(code(&[11, 0, 8, 0, 34, 0, 0, 0, 23, 0, 0]), 1292);
        // Lengths that no value has.
        for len in [1, 2, 3, 5, 6, 8, 9, 10, 12, 255] {
            assert_eq!(code(&[&[12, 0, len][..], &[1; 255]].concat()), 1210, "{len}");
        }
        for len in [1, 4, 7, 9, 11, 13] {
            assert_eq!(code(&[&[11, 0, len][..], &[1; 255]].concat()), 1210, "{len}");
        }
    }

    #[test]
    fn types_are_remembered_between_executions() {
        let mut bound = Bound::default();
        let first = [0, 1, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0];
        same(&bound.read(&first, 1).unwrap(), &[Value::Int(5)]);
        let again = [0, 0, 6, 0, 0, 0, 0, 0, 0, 0];
        same(&bound.read(&again, 1).unwrap(), &[Value::Int(6)]);
        assert_eq!(Bound::default().read(&again, 1).unwrap_err().code, 1210);
        same(&Bound::default().read(&[1, 0], 1).unwrap(), &[Value::Null]);
    }

    #[test]
    fn pieces_are_joined_once_and_refused_past_their_limits() {
        let budget = Budget::new(300);
        let mut bound = Bound::default();
        let command = [0, 1, 252, 0];
        bound.append(0, 1, b"ab", 10, &budget);
        let one = budget.used_for(Use::Connections);
        bound.append(0, 1, b"cd", 10, &budget);
        assert_eq!(budget.used_for(Use::Connections), one + 2);
        let values = bound.read(&command, 1).unwrap();
        same(&values, &[Value::Text("abcd".to_owned())]);
        assert_eq!(budget.used_for(Use::Connections), one + 2, "they are the value now");
        bound.give_back(values, command.len());
        assert_eq!(budget.used_for(Use::Connections), 0);
        assert_eq!(bound.read(&command, 1).unwrap_err().code, 1210, "pieces serve once");
        bound.append(1, 1, b"ab", 10, &budget);
        assert_eq!(bound.read(&command, 1).unwrap_err().code, 1210);
        bound.append(0, 1, b"0123456789X", 10, &budget);
        assert_eq!(bound.read(&command, 1).unwrap_err().code, 1105);
        bound.append(0, 1, &[0; 301], 1000, &budget);
        assert_eq!(bound.read(&command, 1).unwrap_err().code, 1041);
        bound.append(1, 1, b"ab", 10, &budget);
        bound.reset();
        same(&bound.read(&[0, 1, 1, 0, 7], 1).unwrap(), &[Value::Int(7)]);
    }

    #[test]
    fn pieces_are_charged_however_short() {
        let budget = Budget::new(100_000);
        let mut bound = Bound::default();
        for at in 0..1000 {
            bound.append(at, 1000, b"", 10, &budget);
        }
        let used = budget.used_for(Use::Connections);
        assert!(used >= 1000 * size_of::<(u16, Vec<u8>)>(), "{used}");
        bound.append(0, 1000, b"", 10, &budget);
        assert_eq!(budget.used_for(Use::Connections), used, "it has its place already");
        bound.reset();
        assert_eq!(budget.used_for(Use::Connections), 0);
        for at in 0..u16::MAX {
            bound.append(at, usize::from(u16::MAX), b"", 10, &budget);
        }
        let command = [0; 10];
        assert_eq!(bound.read(&command, usize::from(u16::MAX)).unwrap_err().code, 1041);
    }
}
